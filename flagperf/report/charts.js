// The kinds of plot. Each is given a chart of plots.py, a width in pixels, and the figure that it stands in.
"use strict";

function lines(spec, width, figure) {
  const points = spec.series.flatMap((series) => series.points);
  const marks = spec.marks || [];
  const band = spec.band || [];
  const ideal = spec.ideal || [];
  const levels = [...marks.map((mark) => mark.at), ...ideal, ...band.flatMap(([, low, high]) => [low, high])];
  const lost = spec.lost || [];
  let ys = extent(points.length ? [...points.map((point) => point[1]), ...levels] : [0, 1, ...levels]);
  ys = spec.zero && ys[0] >= 0 ? [0, ys[1] * 1.05 || 1] : padded(ys);
  const along = extent([...(spec.labels || points), ...lost].map(([place]) => place));
  const xs = spec.labels ? padded(along) : along;
  const { plot, x, y, box } = frame(width, spec, xs, ys);
  const path = (along) => along.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
  const edges = [...band.map(([a, low]) => [a, low]), ...band.map(([a, , high]) => [a, high]).reverse()];
  if (edges.length) plot.append(svg("polygon", { class: "band", points: path(edges) }));
  if (spec.shade) shade(plot, spec.shade, x, box);
  if (ideal.length) plot.append(line("mark", x(ideal[0]), y(ideal[0]), x(ideal[1]), y(ideal[1])));
  for (const mark of marks) {
    plot.append(line("mark", box.left, y(mark.at), box.right, y(mark.at)));
    const below = y(mark.at) - 14 < box.top; // the label of the y axis stands above
    plot.append(svg("text", { x: box.left + 4, y: y(mark.at) + (below ? 12 : -4) }, mark.label));
  }
  const others = spec.series.map((_, index) => index).filter((index) => index >= COLOURS);
  for (const index of new Set([...others, ...spec.series.keys()])) { // others lie below the coloured curves
    const series = spec.series[index];
    const kind = series.earlier ? "curve earlier" : "curve";
    const stroke = colourOf(series, index);
    plot.append(svg("polyline", { class: kind, points: path(series.points), stroke }));
    const dotted = spec.dots || series.points.length === 1;
    for (const [a, b] of dotted ? series.points : []) {
      plot.append(svg("circle", { cx: x(a), cy: y(b), r: 2.6, fill: stroke }));
    }
  }
  for (const [at, text] of lost) losing(plot, x(at), text, `${spec.x} ${format(at)}`, box);
  crosshair(plot, spec, x, y, box, figure);
  return plot;
}

const colourOf = (series, index) => colour(series.colour ?? index);

/** The step at which a curve has no finite value: a line over the whole height, and the value. */
function losing(plot, at, text, step, box) {
  const right = at > (box.left + box.right) / 2;
  plot.append(line("lost", at, box.top, at, box.bottom));
  const place = { class: "lost", x: at + (right ? -5 : 5), y: box.top + 10, "text-anchor": right ? "end" : "start" };
  plot.append(svg("text", place, T("{} at {}", text, step)));
}

/** Numbers in place of a plot in which each curve has one point. */
function numbers(spec) {
  const notes = new Set(spec.numbers.map(({ note }) => note));
  const shared = notes.size === 1 ? [html("p", { class: "small" }, ...notes)] : [];
  const one = ({ name, value, note }) =>
    html(
      "div",
      {},
      ...(spec.numbers.length > 1 ? [html("dt", {}, name)] : []),
      html("dd", {}, html("b", {}, value), shared.length ? "" : ` ${note}`),
    );
  return html("div", {}, ...shared, html("dl", { class: "numbers" }, ...spec.numbers.map(one)));
}

/** An area from the left edge up to a place, with its label. */
function shade(plot, { to, label }, x, box) {
  const width = Math.min(box.right, x(to)) - box.left;
  if (width <= 0) return;
  plot.append(svg("rect", { class: "shade", x: box.left, y: box.top, width, height: box.bottom - box.top }));
  plot.append(svg("text", { x: box.left + 4, y: box.top + 10 }, label));
}

/** A cursor over a line plot: by pointer, or by the arrow keys once the plot has the focus. */
function crosshair(plot, spec, x, y, box, figure) {
  const steps = [...new Set(spec.series.flatMap((series) => series.points.map((point) => point[0])))].sort(
    (a, b) => a - b,
  );
  const cursor = line("cross", 0, box.top, 0, box.bottom);
  const dots = spec.series.map((series, index) => svg("circle", { r: 3.5, fill: colourOf(series, index) }));
  const drawn = svg("g", { visibility: "hidden" }, cursor, ...dots);
  let at = steps.length - 1;
  if (!steps.length) return;
  plot.append(drawn);
  plot.setAttribute("tabindex", "0");
  const show = () => {
    const near = spec.series.map((series) => (covers(series.points, steps[at]) ? nearest(series.points, steps[at]) : null));
    const text = near.flatMap((point, index) =>
      point ? [`${spec.series.length > 1 ? `${spec.series[index].name}: ` : ""}${format(point[1])}`] : [],
    );
    drawn.setAttribute("visibility", "visible");
    fill(cursor, { x1: x(steps[at]), x2: x(steps[at]) }, []);
    near.forEach((point, index) => {
      dots[index].style.display = point ? "" : "none";
      if (point) fill(dots[index], { cx: x(point[0]), cy: y(point[1]) }, []);
    });
    const place = new Map(spec.labels).get(steps[at]) ?? format(steps[at]);
    tip(figure, plot, x(steps[at]), box.top, [`${spec.x.split(",")[0]} ${place}`, ...text].join("\n"));
  };
  const hide = () => {
    drawn.setAttribute("visibility", "hidden");
    tip(figure);
  };
  plot.addEventListener("pointermove", (event) => {
    const place = plot.getBoundingClientRect();
    const here = ((event.clientX - place.left) / place.width) * plot.viewBox.baseVal.width;
    at = steps.reduce(
      (best, step, index) => (Math.abs(x(step) - here) < Math.abs(x(steps[best]) - here) ? index : best),
      0,
    );
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

const nearest = (points, step) =>
  points.reduce((best, point) => (Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best));

const covers = (points, step) => points[0][0] <= step && step <= points[points.length - 1][0];

function spans(spec, width, figure) {
  const all = spec.rows.flatMap((row) => row.spans);
  const { plot, x, y } = frame(
    width,
    spec,
    [0, Math.max(...all.map((span) => span[1]))],
    null,
    spec.rows.map((row) => row.name),
  );
  spec.rows.forEach((row, index) => {
    for (const [from, to, name] of row.spans) {
      const shape = {
        x: x(from),
        y: y(index) - 8,
        width: Math.max(1, x(to) - x(from)),
        height: 16,
        rx: 2,
        fill: colour(spec.names.indexOf(name)),
      };
      plot.append(
        tipped(
          svg("rect", shape),
          figure,
          plot,
          `${name}: ${format(to - from)} s\n${T("from {} s to {} s", format(from), format(to))}`,
        ),
      );
    }
  });
  return plot;
}

function dots(spec, width, figure) {
  const places = spec.rows.flatMap((row) => row.points.map((point) => point.x));
  const reach = Math.max(...places.map(Math.abs)) * 1.15;
  const { plot, x, y, box } = frame(
    width,
    spec,
    spec.centre ? [-reach, reach] : padded(extent(places)),
    null,
    spec.rows.map((row) => row.name),
  );
  if (spec.centre) plot.append(line("mark", x(0), box.top, x(0), box.bottom));
  spec.rows.forEach((row, index) => {
    const [low, high] = extent(row.points.map((point) => x(point.x)));
    plot.append(line("axis", low, y(index), high, y(index)));
    for (const point of row.points) {
      const shape = { cx: x(point.x), cy: y(index), r: 5, fill: colour(point.series), "fill-opacity": 0.85 };
      plot.append(tipped(svg("circle", shape), figure, plot, point.tip));
    }
  });
  return plot;
}

/** A line from the low to the high end of an interval, and its middle; what lies within the margin does not count. */
function intervals(spec, width, figure) {
  const reach = Math.max(spec.margin, ...spec.rows.flatMap((row) => [Math.abs(row.low), Math.abs(row.high)])) * 1.1;
  const names = spec.rows.map((row) => row.name);
  const { plot, x, y, box } = frame(width, spec, [-reach, reach], null, names);
  const [left, right] = [x(-spec.margin), x(spec.margin)];
  plot.append(svg("rect", { class: "shade", x: left, y: box.top, width: right - left, height: box.bottom - box.top }));
  plot.append(line("mark", x(0), box.top, x(0), box.bottom));
  spec.rows.forEach(({ name, word, at, low, high }, index) => {
    const text = T("{}: {} %, 95 % interval {} % to {} %: {}", name, ...[at, low, high].map(format), translated(word));
    const drawn = svg(
      "g",
      { class: `interval ${word}` },
      svg("line", { x1: x(low), x2: x(high), y1: y(index), y2: y(index) }),
      ...[low, high].map((end) => svg("line", { x1: x(end), x2: x(end), y1: y(index) - 5, y2: y(index) + 5 })),
      svg("circle", { cx: x(at), cy: y(index), r: 4.5 }),
    );
    plot.append(tipped(drawn, figure, plot, text));
  });
  return plot;
}

/** Single points, and a line of steps along the best of them. */
function scatter(spec, width, figure) {
  const most = (axis) => Math.max(...spec.points.map((point) => point[axis])) * 1.08 || 1;
  const { plot, x, y, box } = frame(width, spec, [0, most("x")], [0, most("y")]);
  const steps = spec.front.flatMap(([a, b], index) => {
    const before = index ? spec.front[index - 1][1] : b;
    return [`${x(a)},${y(before)}`, `${x(a)},${y(b)}`];
  });
  steps.push(`${box.right},${y(spec.front[spec.front.length - 1][1])}`);
  plot.append(svg("polyline", { class: "curve front", points: steps.join(" ") }));
  for (const point of spec.points) {
    const shape = { cx: x(point.x), cy: y(point.y), r: 4.5, fill: colour(point.series), "fill-opacity": 0.85 };
    plot.append(tipped(svg("circle", shape), figure, plot, point.tip));
  }
  return plot;
}
