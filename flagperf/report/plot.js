// Scales, axes and elements of the plots.
"use strict";

const HEIGHT = 210;
const COLOURS = 7; // --c0 … in page.css; what comes after them shares the colour of "other"

const colour = (index) => (index < COLOURS ? `var(--c${index})` : "var(--other)");
const extent = (values) => [Math.min(...values), Math.max(...values)];

function format(value) {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// ---------------------------------------------------------------- scales and axes

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

function padded([low, high], share = 0.06) {
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}

const scale =
  ([low, high], [from, to]) =>
  (value) =>
    from + ((value - low) / (high - low || 1)) * (to - from);

/** What stands below the x axis: [place, text]. Given texts that equal or would touch the one before are left out. */
function places(spec, xs, width, x) {
  if (!spec.labels) return ticks(...xs, Math.max(2, width / 90)).map((value) => [value, format(value)]);
  let free = -Infinity;
  let before = null;
  return spec.labels.flatMap(([value, label]) => {
    const [text, half] = [clip(label, 90), Math.min(90, wide(label) * 6.4) / 2];
    if (x(value) - half < free || label === before) return [];
    free = x(value) + half + 6;
    before = label;
    return [[value, text]];
  });
}

/** An empty plot with its axes; `rows` names the lines of a plot without a y axis. */
function frame(width, spec, xs, ys, rows) {
  const names = rows || ticks(...ys, 4).map(format);
  const left = Math.min(Math.max(...names.map(wide)) * 6.4 + 12, width * 0.4);
  const height = rows ? rows.length * 26 + 56 : HEIGHT;
  const box = { left, right: width - 10, top: 18, bottom: height - 34 };
  const x = scale(xs, [box.left, box.right]);
  const y = rows ? (index) => box.top + (index + 0.5) * 26 : scale(ys, [box.bottom, box.top]);
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  for (const [value, name] of places(spec, xs, width, x)) {
    if (rows) plot.append(line("gridline", x(value), box.top, x(value), box.bottom));
    const at = Math.min(x(value), width - wide(name) * 3.2); // the last text stays inside
    plot.append(svg("text", { x: at, y: box.bottom + 15, "text-anchor": "middle" }, name));
  }
  for (const value of rows ? [] : ticks(...ys, 4)) {
    plot.append(line("gridline", box.left, y(value), box.right, y(value)));
    plot.append(svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  (rows || []).forEach((name, index) => {
    plot.append(
      svg("text", { x: box.left - 6, y: y(index) + 4, "text-anchor": "end", class: "label" }, clip(name, left)),
    );
  });
  plot.append(line("axis", box.left, box.bottom, box.right, box.bottom));
  plot.append(svg("text", { x: box.right, y: height - 4, "text-anchor": "end" }, spec.x));
  if (spec.y) plot.append(svg("text", { x: 0, y: 10 }, spec.y));
  return { plot, x, y, box };
}

/** The length of a text in Latin letters; a Chinese character takes almost two. */
const wide = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e7f" ? 1.8 : 1), 0);

function clip(text, width) {
  const most = Math.floor((width - 8) / 6.2);
  if (wide(text) <= most) return text;
  let end = text.length;
  while (end && wide(text.slice(0, end)) > most - 1) end -= 1;
  return `${text.slice(0, end)}…`;
}

const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
