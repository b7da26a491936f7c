// Draws the plots of report.html from the JSON in #data, and makes tables sortable. No library, no network.
"use strict";

const HEIGHT = 210;
const COLOURS = 10; // --c0 … in page.css

const colour = (index) => `var(--c${index % COLOURS})`;
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

const scale = ([low, high], [from, to]) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/** An empty plot with its axes; `rows` names the lines of a plot without a y axis. */
function frame(width, spec, xs, ys, rows) {
  const names = rows || ticks(...ys, 4).map(format);
  const left = Math.min(Math.max(...names.map((name) => name.length)) * 6.4 + 12, width * 0.4);
  const height = rows ? rows.length * 26 + 56 : HEIGHT;
  const box = { left, right: width - 10, top: 18, bottom: height - 34 };
  const x = scale(xs, [box.left, box.right]);
  const y = rows ? (index) => box.top + (index + 0.5) * 26 : scale(ys, [box.bottom, box.top]);
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  for (const value of ticks(...xs, Math.max(2, width / 90))) {
    if (rows) plot.append(line("gridline", x(value), box.top, x(value), box.bottom));
    plot.append(svg("text", { x: x(value), y: box.bottom + 15, "text-anchor": "middle" }, format(value)));
  }
  for (const value of rows ? [] : ticks(...ys, 4)) {
    plot.append(line("gridline", box.left, y(value), box.right, y(value)));
    plot.append(svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  (rows || []).forEach((name, index) => {
    plot.append(svg("text", { x: box.left - 6, y: y(index) + 4, "text-anchor": "end", class: "label" }, clip(name, left)));
  });
  plot.append(line("axis", box.left, box.bottom, box.right, box.bottom));
  plot.append(svg("text", { x: box.right, y: height - 4, "text-anchor": "end" }, spec.x));
  if (spec.y) plot.append(svg("text", { x: 0, y: 10 }, spec.y));
  return { plot, x, y, box };
}

function clip(text, width) {
  const most = Math.floor((width - 8) / 6.2);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });

// ---------------------------------------------------------------- the four kinds of plot

function lines(spec, width, figure) {
  const points = spec.series.flatMap((series) => series.points);
  const marks = spec.marks || [];
  let ys = extent([...points.map((point) => point[1]), ...marks.map((mark) => mark.at)]);
  ys = spec.zero && ys[0] >= 0 ? [0, ys[1] * 1.05 || 1] : padded(ys);
  const { plot, x, y, box } = frame(width, spec, extent(points.map((point) => point[0])), ys);
  for (const mark of marks) {
    plot.append(line("mark", box.left, y(mark.at), box.right, y(mark.at)));
    plot.append(svg("text", { x: box.left + 4, y: y(mark.at) - 4 }, mark.label));
  }
  spec.series.forEach((series, index) => {
    const path = series.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
    plot.append(svg("polyline", { class: "curve", points: path, stroke: colour(index) }));
    const dotted = spec.dots || series.points.length === 1;
    for (const [a, b] of dotted ? series.points : []) {
      plot.append(svg("circle", { cx: x(a), cy: y(b), r: 2.6, fill: colour(index) }));
    }
  });
  crosshair(plot, spec, x, y, box, figure);
  return plot;
}

/** A cursor over a line plot: by pointer, or by the arrow keys once the plot has the focus. */
function crosshair(plot, spec, x, y, box, figure) {
  const steps = [...new Set(spec.series.flatMap((series) => series.points.map((point) => point[0])))].sort((a, b) => a - b);
  const cursor = line("cross", 0, box.top, 0, box.bottom);
  const dots = spec.series.map((_, index) => svg("circle", { r: 3.5, fill: colour(index) }));
  const drawn = svg("g", { visibility: "hidden" }, cursor, ...dots);
  let at = steps.length - 1;
  plot.append(drawn);
  plot.setAttribute("tabindex", "0");
  const show = () => {
    const near = spec.series.map((series) => nearest(series.points, steps[at]));
    const text = near.map((point, index) => `${spec.series.length > 1 ? `${spec.series[index].name}: ` : ""}${format(point[1])}`);
    drawn.setAttribute("visibility", "visible");
    fill(cursor, { x1: x(steps[at]), x2: x(steps[at]) }, []);
    near.forEach((point, index) => fill(dots[index], { cx: x(point[0]), cy: y(point[1]) }, []));
    tip(figure, plot, x(steps[at]), box.top, [`${spec.x.split(",")[0]} ${format(steps[at])}`, ...text].join("\n"));
  };
  const hide = () => {
    drawn.setAttribute("visibility", "hidden");
    tip(figure);
  };
  plot.addEventListener("pointermove", (event) => {
    const place = plot.getBoundingClientRect();
    const here = ((event.clientX - place.left) / place.width) * plot.viewBox.baseVal.width;
    at = steps.reduce((best, step, index) => (Math.abs(x(step) - here) < Math.abs(x(steps[best]) - here) ? index : best), 0);
    show();
  });
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    at = Math.min(steps.length - 1, Math.max(0, at + move));
    show();
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
}

const nearest = (points, step) => points.reduce((best, point) => (Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best));

function bars(spec, width, figure) {
  const xs = [spec.bars[0][0], spec.bars[spec.bars.length - 1][1]];
  const { plot, x, y, box } = frame(width, spec, xs, [0, Math.max(...spec.bars.map((bar) => bar[2])) * 1.12]);
  for (const [from, to, count] of spec.bars.filter((bar) => bar[2])) {
    const shape = { x: x(from) + 0.5, y: y(count), width: Math.max(1, x(to) - x(from) - 1), height: box.bottom - y(count), fill: colour(0) };
    plot.append(tipped(svg("rect", shape), figure, plot, `${format(from)} – ${format(to)}: ${count}`));
  }
  spec.marks.forEach((mark, index) => {
    const place = Math.min(box.right, Math.max(box.left, x(mark.at)));
    plot.append(line("mark", place, box.top, place, box.bottom));
    const label = svg("text", { x: place + 3, y: box.top + 9 + 12 * index }, `${mark.label} ${format(mark.at)}`);
    if (place > box.right - 60) fill(label, { x: place - 3, "text-anchor": "end" }, []);
    plot.append(label);
  });
  return plot;
}

function spans(spec, width, figure) {
  const all = spec.rows.flatMap((row) => row.spans);
  const kinds = [...new Set(all.map((span) => span[2]))];
  const { plot, x, y } = frame(width, spec, [0, Math.max(...all.map((span) => span[1]))], null, spec.rows.map((row) => row.name));
  spec.rows.forEach((row, index) => {
    for (const [from, to, name] of row.spans) {
      const shape = { x: x(from), y: y(index) - 8, width: Math.max(1, x(to) - x(from)), height: 16, rx: 2, fill: colour(kinds.indexOf(name)) };
      plot.append(tipped(svg("rect", shape), figure, plot, `${name}: ${format(to - from)} s\nfrom ${format(from)} s to ${format(to)} s`));
    }
  });
  return plot;
}

function dots(spec, width, figure) {
  const reach = Math.max(...spec.rows.flatMap((row) => row.points.map((point) => Math.abs(point.x)))) * 1.15;
  const { plot, x, y, box } = frame(width, spec, [-reach, reach], null, spec.rows.map((row) => row.name));
  plot.append(line("mark", x(0), box.top, x(0), box.bottom));
  spec.rows.forEach((row, index) => {
    for (const point of row.points) {
      const shape = { cx: x(point.x), cy: y(index), r: 5, fill: colour(point.series), "fill-opacity": 0.85 };
      plot.append(tipped(svg("circle", shape), figure, plot, point.tip));
    }
  });
  return plot;
}

// ---------------------------------------------------------------- tips, legends, figures

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
  const left = plot.offsetLeft || plot.getBoundingClientRect().left - figure.getBoundingClientRect().left;
  const top = plot.getBoundingClientRect().top - figure.getBoundingClientRect().top;
  const room = figure.clientWidth - box.offsetWidth - 4;
  box.style.left = `${Math.max(4, Math.min(room, left + x * unit + 10))}px`;
  box.style.top = `${Math.max(0, top + y * unit)}px`;
}

function legend(spec) {
  const names = { lines: () => spec.series.map((series) => series.name), spans: () => [...new Set(spec.rows.flatMap((row) => row.spans.map((span) => span[2])))] };
  const shown = (names[spec.kind] || (() => []))();
  if (shown.length < 2) return [];
  return [html("ul", { class: "legend" }, ...shown.map((name, index) => html("li", {}, html("i", { style: `background: ${colour(index)}` }), name)))];
}

function summarise(spec) {
  if (spec.kind !== "lines") return spec.title;
  const ends = spec.series.map((series) => `${series.name} ends at ${format(series.points[series.points.length - 1][1])}`);
  return `${spec.title}, ${spec.y} over ${spec.x}: ${ends.join("; ")}`;
}

const KINDS = { lines, bars, spans, dots };

function chart(spec) {
  const place = html("div");
  const figure = html("figure", {}, html("figcaption", {}, spec.title), ...legend(spec), place, html("div", { class: "tip", role: "status", hidden: "" }));
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

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = html("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].sort((one, other) => compare(one.cells[column].innerText, other.cells[column].innerText));
      table.tBodies[0].append(...(descending ? rows.reverse() : rows));
    });
  });
}

function compare(one, other) {
  const [a, b] = [one, other].map((text) => parseFloat(text.replaceAll(",", "")));
  return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, "en", { numeric: true }) : a - b;
}

const charts = JSON.parse(document.getElementById("data").textContent);
for (const place of document.querySelectorAll(".charts")) place.append(...charts[place.dataset.job].map(chart));
document.querySelectorAll("table").forEach((table) => table.tBodies[0].rows.length > 1 && sortable(table));
addEventListener("beforeprint", () => document.querySelectorAll("details.job").forEach((job) => (job.open = true)));
