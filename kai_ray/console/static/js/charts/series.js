// Values over time: lines, areas and steps, with the figures under the pointer.

import { h, render } from "../dom.js";
import { number, seconds, when } from "../format.js";

const LEFT = 34;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;

/** `rows`: objects with `at`, oldest first. `lines`: [{key, name, colour, area?, step?, dash?}].
 *  `format` prints a value; `top` is the least upper end of the scale. */
export function series({ key, rows, lines, height = 150, format = number, top = 1, empty = "No history yet." }) {
  if (rows.length < 2) return h("p", { class: "none" }, empty);
  return h("div", {
    class: "chart", key: key || "series", style: { height: `${height}px` }, memo: [rows, rows.length, rows.at(-1), lines.length],
    mount: (el) => watch(el, rows, lines, height, format, top),
    update: (el) => watch(el, rows, lines, height, format, top),
    unmount: (el) => el.kaiSize?.disconnect(),
  });
}

function watch(el, rows, lines, height, format, top) {
  el.kaiDraw = () => draw(el, rows, lines, height, format, top);
  if (!el.kaiSize) {
    el.kaiSize = new ResizeObserver(() => el.kaiDraw());
    el.kaiSize.observe(el);
  }
  el.kaiDraw();
}

/** Rows of a history that comes in columns: {at: […], held: […]} as [{at, held}, …]. */
export function rowsOf(columns) {
  if (!columns || Array.isArray(columns)) return columns || [];
  const names = Object.keys(columns);
  return (columns.at || []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

/** A round number not below `value`: 1, 2, 4, 5, 8 times a power of ten. */
export function rounded(value) {
  if (!(value > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((m) => m * ten).find((v) => v >= value - 1e-9);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/** Times for an axis: round ones, at most `most`. */
export function ticks(from, to, most) {
  const step = STEPS.find((s) => (to - from) / s <= most) || (to - from) / most;
  const shift = -new Date(from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let t = Math.ceil((from + shift) / step) * step - shift; t <= to; t += step) found.push(t);
  return [found, step];
}

export function tickText(at, step) {
  const date = new Date(at * 1000);
  if (step >= 86400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) });
}

function draw(el, rows, lines, height, format, top) {
  const width = el.clientWidth;
  if (!width) return;
  const times = rows.map((r) => seconds(r.at));
  const [from, to] = [times[0], times.at(-1) > times[0] ? times.at(-1) : times[0] + 1];
  const highest = Math.max(0, ...rows.flatMap((r) => lines.map((l) => r[l.key] || 0)));
  const most = highest <= top ? top : rounded(highest);
  const x = (t) => LEFT + ((width - LEFT - RIGHT) * (t - from)) / (to - from);
  const y = (v) => height - BOTTOM - ((height - TOP - BOTTOM) * Math.max(0, v)) / most;
  const [at, step] = ticks(from, to, Math.max(2, Math.floor(width / 110)));
  const marks = [0, most / 2, most];
  render(el, h("svg", { height, role: "img", "aria-label": lines.map((l) => `${l.name}: now ${format(rows.at(-1)[l.key])}`).join(", ") },
    marks.map((v) => [h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }),
      h("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, format(v))]),
    at.map((t) => h("text", { key: `t${t}`, x: x(t), y: height - 4, "text-anchor": x(t) > width - 30 ? "end" : x(t) < LEFT + 20 ? "start" : "middle" }, tickText(t, step))),
    lines.map((l) => {
      const pieces = stretches(rows, times, l, x, y);
      const style = { stroke: l.colour };
      return [l.area && h("path", { d: pieces.map(([start, d]) => `${d}V${y(0)}H${start}Z`).join("") || "M0 0", style: { fill: l.colour, "fill-opacity": ".16", stroke: "none" } }),
        h("path", { d: pieces.map(([, d]) => d).join("") || "M0 0", fill: "none", style, "stroke-width": 1.75, "stroke-linejoin": "round", "stroke-dasharray": l.dash || null })];
    })),
  h("div", { class: "tip", hidden: true }));
  hover(el, rows, times, lines, format, x, y, from, to, width);
}

/** [x of its start, path] of each stretch that is known. */
function stretches(rows, times, line, x, y) {
  const found = [];
  let open = false;
  rows.forEach((row, i) => {
    const value = row[line.key];
    if (value === null || value === undefined) return (open = false);
    const [px, py] = [x(times[i]).toFixed(1), y(value).toFixed(1)];
    if (open) found.at(-1)[1] += line.step ? `H${px}V${py}` : `L${px} ${py}`;
    else found.push([px, `M${px} ${py}`]);
    open = true;
  });
  return found;
}

function hover(el, rows, times, lines, format, x, y, from, to, width) {
  const tip = el.querySelector(".tip");
  el.onpointerleave = () => (tip.hidden = true);
  el.onpointermove = (event) => {
    const left = event.clientX - el.getBoundingClientRect().left;
    const t = from + ((left - LEFT) / (width - LEFT - RIGHT)) * (to - from);
    let i = times.findIndex((v) => v >= t);
    if (i < 0) i = times.length - 1;
    if (i > 0 && t - times[i - 1] < times[i] - t) i -= 1;
    tip.hidden = false;
    render(tip, h("div", { class: "faint" }, when(times[i])), lines.map((l) =>
      h("div", { class: "row" }, h("span", { class: "row" }, h("i", { class: "dot", style: { "--c": l.colour } }), l.name), h("b", {}, format(rows[i][l.key])))));
    const px = x(times[i]);
    const flip = px > width / 2;
    tip.style.translate = `${flip ? px - tip.offsetWidth - 12 : px + 12}px 0`;
  };
}

/** A row of small columns: the last cycles' seconds. */
export function spark(values, { width = 120, height = 28, colour = "var(--accent)" } = {}) {
  const most = Math.max(...values, 1e-9);
  const w = width / Math.max(values.length, 30);
  return h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    values.map((v, i) => h("rect", {
      x: width - (values.length - i) * w, width: Math.max(0.6, w - 1), rx: 0.8,
      y: height - Math.max(1.5, (v / most) * height), height: Math.max(1.5, (v / most) * height), style: { fill: colour, opacity: i === values.length - 1 ? 1 : 0.55 },
    })));
}
