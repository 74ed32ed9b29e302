// SPDX-License-Identifier: MIT
// Runs inside the report and writes what it finds wrong into an element of its own, named audit.
"use strict";

const findings = [];

function parse(colour) {
	const parts = colour.match(/[\d.]+/g);
	return parts ? parts.map(Number) : [0, 0, 0, 0];
}

function luminance([r, g, b]) {
	const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function contrast(a, b) {
	const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
	return (high + 0.05) / (low + 0.05);
}

// The nearest background that is not transparent.
function background(element) {
	for (let e = element; e; e = e.parentElement) {
		const colour = parse(getComputedStyle(e).backgroundColor);
		if (colour.length < 4 || colour[3] > 0)
			return colour;
	}
	return [255, 255, 255];
}

function auditText() {
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode()); ) {
		const e = node.parentElement, text = node.textContent.trim();
		if (!text || e.closest("script, #audit, .skip"))
			continue;
		const style = getComputedStyle(e), inSvg = e instanceof SVGElement;
		const ratio = contrast(parse(inSvg ? style.fill : style.color), background(e));
		if (ratio < 4.5)
			findings.push(`contrast ${ratio.toFixed(2)}: "${text.slice(0, 40)}"`);
	}
}

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

function auditPage() {
	if (document.documentElement.scrollWidth > window.innerWidth)
		findings.push(`wider than the window: ${document.documentElement.scrollWidth} > ${window.innerWidth}`);
	for (const link of document.querySelectorAll("a"))
		if (!document.querySelector(link.getAttribute("href")))
			findings.push(`leads nowhere: ${link.getAttribute("href")}`);
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	if (new Set(ids).size !== ids.length)
		findings.push("an id twice");
	// Whatever scrolls or opens can be reached by the keyboard.
	for (const e of document.querySelectorAll(".scroll, summary, a"))
		if (e.tabIndex < 0 || (e.matches(".scroll") && !e.hasAttribute("tabindex")))
			findings.push(`not reachable by keyboard: ${e.tagName}`);
	const fetched = performance.getEntriesByType("resource");
	if (fetched.length)
		findings.push(`fetches ${fetched[0].name}`);
}

document.querySelectorAll("details").forEach((d) => { d.open = true; });
auditText();
auditFigures();
auditPage();
const report = document.createElement("pre");
report.id = "audit";
const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
report.textContent = `\nscheme: ${scheme}\n${findings.join("\n")}\nfindings: ${findings.length}\n`;
document.body.append(report);
