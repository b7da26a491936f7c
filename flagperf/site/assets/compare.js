// Rows side by side, of those in #data that the address names: compare.html?row=ID&row=ID
"use strict";

const known = JSON.parse(document.getElementById("data").textContent);
const rows = new URLSearchParams(location.search).getAll("row").flatMap((id) => known[id] || []);

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(text);
  return element;
}

const unit = (figure) => figure.text.replace(/[\d.,±\s]+(e[-+]\d+)?/g, "");

/** A cell with its ratio to the first row, where both are numbers of the same unit. */
function cell(figure, first) {
  const made = make("td", figure ? figure.text : "–");
  const numbers = figure && first && figure !== first && first.value && typeof figure.value === "number";
  if (numbers && unit(figure) === unit(first)) {
    made.append(make("i", `×${(figure.value / first.value).toPrecision(3)}`));
  }
  return made;
}

function line(name) {
  const figures = rows.map((row) => row.figures.find((figure) => figure.name === name));
  const differs = new Set(figures.map((figure) => figure && figure.text)).size > 1;
  const made = make("tr", make("th", name, { scope: "row" }), differs ? { class: "differs" } : {});
  made.append(...figures.map((figure) => cell(figure, figures[0])));
  return made;
}

function head(row) {
  const made = make("th", row.href ? make("a", row.title, { href: row.href }) : row.title, { scope: "col" });
  made.append(make("i", row.subtitle));
  return made;
}

if (rows.length > 1) {
  const stated = rows.flatMap((row) => row.figures).filter((figure) => figure.text !== "–");
  const names = new Set(stated.map((figure) => figure.name));
  const table = make("table", make("thead", make("tr", make("td", ""))));
  table.tHead.rows[0].append(...rows.map(head));
  table.append(make("tbody", ""));
  table.tBodies[0].append(...[...names].map(line));
  document.getElementById("beside").append(table);
  document.getElementById("none").hidden = true;
}
