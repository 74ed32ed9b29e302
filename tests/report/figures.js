// SPDX-License-Identifier: MIT
// Behind audit.js, inside a report: the figures.
"use strict";

function auditFigures() {
	const figures = document.querySelectorAll("figure svg");
	if (figures.length < 3)
		findings.push(`${figures.length} figures`);
	for (const svg of figures) {
		const box = svg.viewBox.baseVal, texts = [...svg.querySelectorAll("text")];
		if (!svg.closest("[role=img]")?.getAttribute("aria-label"))
			findings.push("a figure without a description");
		for (const t of texts) {
			const b = t.getBBox();
			if (b.x < 0 || b.y < 0 || b.x + b.width > box.width || b.y + b.height > box.height)
				findings.push(`cut off: "${t.textContent.trim()}"`);
		}
		for (let i = 0; i < texts.length; i++)
			for (let j = i + 1; j < texts.length; j++)
				if (overlap(texts[i].getBBox(), texts[j].getBBox()))
					findings.push(`"${texts[i].textContent.trim()}" on "${texts[j].textContent.trim()}"`);
	}
}

// Boxes are higher than their letters: a little may overlap.
function overlap(a, b) {
	const slack = 6;
	return a.x + slack < b.x + b.width && b.x + slack < a.x + a.width &&
		a.y + slack < b.y + b.height && b.y + slack < a.y + a.height;
}

auditText();
auditFigures();
auditPage();
tell();
