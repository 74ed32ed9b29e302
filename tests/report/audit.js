// SPDX-License-Identifier: MIT
// Runs inside a page. What it finds wrong, `tell` writes into an element of its own, named audit.
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

function tell() {
	const report = document.createElement("pre");
	report.id = "audit";
	const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
	report.textContent = `\nscheme: ${scheme}\n${findings.join("\n")}\nfindings: ${findings.length}\n`;
	document.body.append(report);
}

document.querySelectorAll("details").forEach((d) => { d.open = true; });
