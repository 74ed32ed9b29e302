// SPDX-License-Identifier: MIT
// Behind audit.js, inside the page of a profile: nothing is wider than its place, no text is cut off or lies on another.
"use strict";

function name(e) {
	return `${e.tagName.toLowerCase()} "${e.textContent.trim().slice(0, 40)}"`;
}

// Nothing needs a scroll bar, and nothing sticks out of what it is in.
function auditWidths() {
	const width = document.documentElement.clientWidth;
	for (const e of document.querySelectorAll("body, body *")) {
		if (e.closest(".skip, #audit"))
			continue;
		const box = e.getBoundingClientRect();
		if (getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth)
			findings.push(`${name(e)}: ${e.scrollWidth} in ${e.clientWidth}`);
		else if (box.left < 0 || box.right > width + 0.5)
			findings.push(`${name(e)}: to ${box.right} of ${width}`);
	}
}

// No cell's text lies on that of the next.
function auditCells() {
	for (const row of document.querySelectorAll("tr")) {
		const cells = [...row.cells].map((cell) => {
			const range = document.createRange();
			range.selectNodeContents(cell);
			return range.getBoundingClientRect();
		});
		for (let i = 1; i < cells.length; i++)
			if (cells[i - 1].right > cells[i].left)
				findings.push(`${name(row.cells[i - 1])} on ${name(row.cells[i])}`);
	}
}

// A flame graph fills its frame, and each text of it has place in its box.
function auditGraphs() {
	const frames = document.querySelectorAll("iframe");
	if (!frames.length)
		findings.push("no flame graph");
	for (const frame of frames) {
		const inside = frame.contentDocument, svg = inside.querySelector("svg");
		const { scrollWidth, clientWidth, scrollHeight, clientHeight } = inside.documentElement;
		if (scrollWidth > clientWidth || scrollHeight > clientHeight)
			findings.push(`${frame.title}: ${scrollWidth} x ${scrollHeight} in ${clientWidth} x ${clientHeight}`);
		const width = svg.getBoundingClientRect().width;
		if (width < 0.98 * clientWidth)
			findings.push(`${frame.title}: ${width} of ${clientWidth}`);
		for (const text of inside.querySelectorAll("text")) {
			if (text.parentElement === svg) // the title and the buttons, which the graph's script moves
				continue;
			const own = text.getBoundingClientRect();
			const box = text.parentElement.querySelector(":scope > rect").getBoundingClientRect();
			if (own.width > 0 && (own.left < box.left || own.right > box.right))
				findings.push(`${frame.title}: "${text.textContent}" ${own.width} in ${box.width}`);
		}
	}
}

// The graphs draw themselves as they are loaded.
addEventListener("load", () => {
	auditText();
	auditWidths();
	auditCells();
	auditGraphs();
	auditPage();
	tell();
});
