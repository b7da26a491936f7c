// Puts the charts in #data into their places, with tips and legends, and makes tables sortable.
"use strict";

function tipped(shape, figure, plot, text) {
  fill(shape, { tabindex: 0, role: "img", "aria-label": text }, []);
  const show = () => {
    const [mine, whole] = [shape.getBoundingClientRect(), plot.getBoundingClientRect()];
    const unit = plot.viewBox.baseVal.width / whole.width;
    tip(figure, plot, (mine.left + mine.width / 2 - whole.left) * unit, (mine.top - whole.top) * unit, text);
  };
  for (const event of ["pointerenter", "focus"]) shape.addEventListener(event, show);
  for (const event of ["pointerleave", "blur"]) shape.addEventListener(event, () => tip(figure));
  return shape;
}

/** Show a text at a place of the plot, or nothing. */
function tip(figure, plot, x, y, text) {
  const box = figure.querySelector(".tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const unit = plot.clientWidth / plot.viewBox.baseVal.width;
  const [mine, whole] = [plot.getBoundingClientRect(), figure.getBoundingClientRect()];
  const at = mine.left - whole.left + x * unit;
  const right = at + 10 + box.offsetWidth <= figure.clientWidth;
  box.style.left = `${Math.max(4, right ? at + 10 : at - 10 - box.offsetWidth)}px`;
  box.style.top = `${Math.max(0, mine.top - whole.top + y * unit)}px`;
}

/** What the colours stand for, where there are several: [colour, name]. The last colour stands for all others. */
function keys(spec) {
  if (spec.kind === "intervals") return [];
  const all = named(spec);
  const others = all.filter(([index]) => index >= COLOURS).length;
  const shown = all.filter(([index]) => index < COLOURS);
  return others ? [...shown, [COLOURS, T(others > 1 ? "{} others" : "{} other", others)]] : shown;
}

function named(spec) {
  if (spec.kind === "lines") {
    return spec.series.map(({ name, colour, earlier }, index) => [colour ?? index, name, earlier ? "earlier" : ""]);
  }
  if (spec.kind === "scatter") return spec.names.map((name, index) => [index, name]);
  const names = (row) => (row.spans ? row.spans.map((span) => span[2]) : row.points.map((dot) => spec.names[dot.series]));
  const used = new Set(spec.rows.flatMap(names));
  return spec.names.map((name, index) => [index, name]).filter(([, name]) => used.has(name));
}

const swatch = (index, kind) =>
  kind
    ? html("i", { class: kind, style: `border-color: ${colour(index)}` })
    : html("i", { style: `background: ${colour(index)}` });

function legend(spec) {
  const shown = keys(spec);
  if (shown.length < 2 && !spec.named) return [];
  return [
    html(
      "ul",
      { class: "legend" },
      ...shown.map(([index, name, kind]) => html("li", {}, swatch(index, kind), name)),
    ),
  ];
}

function summarise(spec) {
  if (spec.kind !== "lines") return spec.title;
  const ends = spec.series.map(
    (series) => T("{} ends at {}", series.name, format(series.points[series.points.length - 1][1])),
  );
  const lost = (spec.lost || []).map(([step, text]) => T("{} at {}", text, `${spec.x} ${format(step)}`));
  return T("{}, {} over {}: {}", spec.title, spec.y, spec.x, [...ends, ...lost].join("; "));
}

const KINDS = { lines, spans, dots, intervals, scatter };

function chart(spec) {
  if (spec.kind === "number") return html("figure", {}, html("figcaption", {}, spec.title), numbers(spec));
  const place = html("div");
  const figure = html(
    "figure",
    {},
    html("figcaption", {}, spec.title),
    ...legend(spec),
    place,
    html("div", { class: "tip", role: "status", hidden: "" }),
  );
  let drawn = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (!width || width === drawn) return;
    drawn = width;
    const plot = KINDS[spec.kind](spec, width, figure);
    fill(plot, { role: "group", "aria-label": summarise(spec) }, []);
    place.replaceChildren(plot);
  }).observe(place);
  return figure;
}

// ---------------------------------------------------------------- tables

/** A table that is wider than its frame stands as cards, whatever the width: nothing is cut and nothing scrolls. */
function fitted(table) {
  const frame = table.parentElement;
  const heads = [...table.tHead.rows[0].cells].map((head) => head.firstChild.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, column) => (cell.dataset.head = heads[column]));
  }
  let known = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === known) return;
    known = frame.clientWidth;
    table.classList.remove("cards");
    table.classList.toggle("cards", frame.scrollWidth > frame.clientWidth);
  }).observe(frame);
}

/** A button in each heading; cards have no headings, so a list of the columns stands above them. */
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const sort = (column, descending) => {
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].sort((one, other) =>
      compare(one.cells[column].innerText, other.cells[column].innerText),
    );
    table.tBodies[0].append(...(descending ? rows.reverse() : rows));
  };
  const select = html("select", {}, html("option", { value: "" }, T("the given order")));
  heads.forEach((head, column) => {
    select.append(html("option", { value: column }, head.textContent));
    const button = html("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending"));
  });
  const given = [...table.tBodies[0].rows];
  select.addEventListener("change", () => {
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    if (select.value) sort(Number(select.value));
    else table.tBodies[0].append(...given);
  });
  table.before(html("label", { class: "sorting" }, T("Sort by"), select));
}

function compare(one, other) {
  const [a, b] = [one, other].map((text) => parseFloat(text.replaceAll(",", "")));
  return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, "en", { numeric: true }) : a - b;
}

const charts = JSON.parse(document.getElementById("data").textContent);
for (const place of document.querySelectorAll(".charts")) place.append(...charts[place.dataset.place].map(inWords).map(chart));
document.querySelectorAll("table:not(.list)").forEach(fitted);
document.querySelectorAll("table:not(.beside, .list)").forEach((table) => table.tBodies[0].rows.length > 1 && sortable(table));
// A link to a job opens it.
function reveal() {
  const job = document.getElementById(location.hash.slice(1));
  if (!job) return;
  job.open = true;
  job.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => document.querySelectorAll("details.job").forEach((job) => (job.open = true)));
