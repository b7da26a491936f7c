// The texts of the reader's language. A page with a choice of languages begins in English; others are in one language.
"use strict";

const CHOICE = document.querySelector(".languages");
const ASKED = new URLSearchParams(location.search).get("lang") ?? navigator.language;
const LANGUAGE = (CHOICE ? ASKED : document.documentElement.lang).slice(0, 2);
const WORDS = JSON.parse(document.getElementById("words").textContent)[LANGUAGE] ?? {};
const NAMES = ["kind", "word"]; // of the data of a chart: no reader sees them
const SPOKEN = "aria-label";
const UNIT = /(?<=\d) (?=%|[GMk]i?B\b|m?s\b|W|J|[GT]?FLOP|\w+\/s\b)/g; // the gap between a number and its unit

/** A text in the reader's language; {} stands for the values. */
const T = (text, ...values) => (WORDS[text] ?? text).replace(/\{\}/g, () => values.shift());

/** The text of a page in the reader's language. A number keeps its unit on its line. */
function translated(text) {
  const [before, core, after] = text.match(/^(\s*)(.*?)(\s*)$/s).slice(1);
  const chosen = WORDS[core.split(/\s+/).join(" ")];
  if (chosen === undefined) return text;
  return before + (core.includes("\u00a0") ? chosen.replaceAll(" ", "\u00a0").replace("\u00a0±", " ±") : chosen) + after;
}

/** Keep numbers and their units on one line, in sentences. */
function bound(root) {
  for (const each of root.querySelectorAll("p, li, td")) {
    const texts = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(UNIT, "\u00a0");
  }
}

/** A chart in the reader's language. */
function inWords(data) {
  if (typeof data === "string") return translated(data);
  if (Array.isArray(data)) return data.map(inWords);
  if (data === null || typeof data !== "object") return data;
  const entries = Object.entries(data);
  return Object.fromEntries(entries.map(([key, value]) => [key, NAMES.includes(key) ? value : inWords(value)]));
}

/** Put the reader's language into a page. */
function translate(root) {
  document.documentElement.lang = LANGUAGE;
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.data.trim() && !node.parentElement.closest("script, style, pre, code")) node.data = translated(node.data);
  }
  for (const each of root.querySelectorAll(`[${SPOKEN}]`)) each.setAttribute(SPOKEN, translated(each.getAttribute(SPOKEN)));
}

if (CHOICE) {
  if (LANGUAGE in JSON.parse(document.getElementById("words").textContent)) translate(document.body);
  for (const link of CHOICE.children) link.hidden = link.lang === document.documentElement.lang;
  CHOICE.hidden = false;
}
bound(document.body);
