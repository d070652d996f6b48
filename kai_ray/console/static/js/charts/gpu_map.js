// A square per GPU on a canvas as large as the view: thousands of them, drawn in a few milliseconds.

import { queueColour, resolved } from "../colour.js";
import { h, onFrame } from "../dom.js";
import { cellX, layout } from "./gpu_layout.js";

export const SHARED = 1;
export const BAD = 2;
export const MIG = 4;

/** `pick(strip, gpu)` hears clicks; `point(strip, gpu, x, y)` the pointer (strip null: nowhere). */
export function gpuMap({ pick, point }) {
  let el = null;
  let canvas = null;
  let plan = null;
  let input = null; // {groups, queues, by, lit, chosen}
  let size = [0, 0];
  let paints = null;
  const sizes = new ResizeObserver(() => relay());

  const map = {
    cursor: -1,
    render(given) {
      const moved = !input || given.groups !== input.groups;
      input = given;
      if (moved) plan = null;
      return h("div", {
        class: "gpu-map", tabindex: "0", role: "img", "aria-label": given.label,
        mount, update: () => drawSoon(), unmount: leave, onscroll: () => drawSoon(),
        onpointermove: (e) => point(...at(e), e.clientX, e.clientY), onpointerleave: () => point(null, -1, 0, 0),
        onclick: (e) => {
          const [strip, gpu] = at(e);
          if (strip) pick(strip.node, gpu);
        },
      });
    },
    /** Moves the cursor by nodes; `open` picks the one it stands on. */
    move(step) {
      const count = plan?.strips.length || 0;
      if (!count) return;
      map.cursor = Math.max(0, Math.min(count - 1, map.cursor + step));
      const strip = plan.strips[map.cursor];
      if (strip.y < el.scrollTop || strip.y + strip.h > el.scrollTop + size[1]) el.scrollTop = strip.y - size[1] / 2;
      drawSoon();
    },
    open: () => plan?.strips[map.cursor] && pick(plan.strips[map.cursor].node, -1),
  };

  const retheme = () => {
    paints = null;
    drawSoon();
  };
  const system = matchMedia("(prefers-color-scheme: dark)");

  function mount(made) {
    el = made;
    canvas = document.createElement("canvas");
    const tall = document.createElement("div");
    tall.className = "tall";
    tall.append(canvas); // sticks to the view while the tall one scrolls
    el.append(tall);
    sizes.observe(el);
    addEventListener("kai:theme", retheme);
    system.addEventListener("change", retheme);
    relay();
  }

  function leave() {
    sizes.disconnect();
    removeEventListener("kai:theme", retheme);
    system.removeEventListener("change", retheme);
  }

  function relay() {
    if (!el) return;
    size = [el.clientWidth, el.clientHeight];
    plan = null;
    drawSoon();
  }

  const drawSoon = onFrame(() => {
    if (!el?.isConnected || !size[0]) return;
    if (!plan) {
      plan = layout(input.groups, size[0], size[1]);
      el.querySelector(".tall").style.height = `${plan.height}px`;
    }
    draw();
  });

  function draw() {
    const ratio = devicePixelRatio || 1;
    const [w, hgt] = size;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(hgt * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(hgt * ratio);
      canvas.style.width = `${w}px`;
      canvas.style.height = `${hgt}px`;
    }
    const pen = canvas.getContext("2d");
    const top = el.scrollTop;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, hgt);
    pen.translate(0, -top);
    paints ||= palette(input.queues);
    if (paints.count !== input.queues.length) paints = palette(input.queues);
    for (const panel of plan.panels) {
      if (panel.y > top + hgt || panel.y + panel.h < top) continue;
      drawPanel(pen, panel);
    }
    const seen = plan.strips.filter((s) => s.y <= top + hgt && s.y + s.h + 20 >= top);
    for (const strip of seen) drawFrame(pen, strip);
    const boxes = new Map(); // one fill for all squares of a colour: thousands of fills are slow
    for (const strip of seen) addCards(boxes, strip);
    for (const [, { alpha, paint, rects }] of [...boxes].sort()) {
      pen.globalAlpha = alpha;
      pen.fillStyle = paint;
      pen.beginPath();
      for (const [x, y, w0, h0] of rects) pen.roundRect(x, y, w0, h0, Math.min(plan.cell >= 12 ? 3 : 1.5, w0 / 2, h0 / 2));
      pen.fill();
    }
    for (const strip of seen) drawSigns(pen, strip);
    pen.globalAlpha = 1;
  }

  function drawPanel(pen, { title, x, y, w, h: tall }) {
    pen.fillStyle = paints.surface;
    pen.strokeStyle = paints.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.roundRect(x + 0.5, y + 0.5, w - 1, tall - 1, 8);
    pen.fill();
    pen.stroke();
    pen.fillStyle = paints.soft;
    pen.font = `600 11.5px ${paints.font}`;
    pen.textBaseline = "middle";
    pen.fillText(cut(pen, title, w - 20), x + 10, y + 13);
  }

  const alphaOf = (node) => (!input.match || input.match(node) ? 1 : 0.15);

  /** What stands behind the squares. */
  function drawFrame(pen, strip) {
    const { cell, label } = plan;
    const { node } = strip;
    pen.globalAlpha = alphaOf(node);
    if (input.chosen === node.name || plan.strips[map.cursor] === strip) {
      pen.strokeStyle = paints.accent;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.roundRect(strip.x - 3, strip.y - 3, strip.w + 6, strip.h + (label ? label + 8 : 6), 5);
      pen.stroke();
    }
    if (cell >= 11) drawLinks(pen, strip);
    if (!node.cards.length) {
      pen.strokeStyle = paints.line;
      pen.strokeRect(strip.x + 0.5, strip.y + 0.5, strip.w - 1, strip.h - 1);
    }
  }

  /** What stands on them: shared, MIG, bad, a node that takes nothing; and below: its name. */
  function drawSigns(pen, strip) {
    const { cell, gap, label } = plan;
    const { node } = strip;
    pen.globalAlpha = alphaOf(node);
    node.cards.forEach(([, used, , flags], i) => {
      if (!flags) return;
      const x = cellX(strip, i, cell, gap);
      if (flags & (SHARED | MIG) && used > 0) hatch(pen, x, strip.y, cell, flags & MIG);
      if (flags & BAD) cross(pen, x, strip.y, cell);
    });
    const off = !node.state.startsWith("Ready") || /Cordoned|Quarantined/.test(node.state);
    if (off) {
      pen.strokeStyle = node.state.startsWith("Ready") ? paints.wait : paints.bad;
      pen.lineWidth = cell >= 11 ? 2 : 1.5;
      pen.beginPath();
      pen.moveTo(strip.x, strip.y + cell / 2);
      pen.lineTo(strip.x + strip.w, strip.y + cell / 2);
      pen.stroke();
    }
    if (!label) return;
    pen.fillStyle = off ? paints.wait : paints.faint;
    pen.font = `${label - 2}px ${paints.font}`;
    pen.textBaseline = "top";
    pen.fillText(cut(pen, node.name, strip.w + 8), strip.x, strip.y + cell + 3);
  }

  /** A line under the GPUs that are linked with one another. */
  function drawLinks(pen, strip) {
    if (strip.node.domains.length < 2) return;
    pen.strokeStyle = paints.strong;
    pen.lineWidth = 1;
    for (const members of strip.node.domains) {
      const xs = members.map((i) => cellX(strip, i, plan.cell, plan.gap));
      pen.beginPath();
      pen.roundRect(Math.min(...xs) - 1.5, strip.y - 1.5, Math.max(...xs) - Math.min(...xs) + plan.cell + 3, plan.cell + 3, 4);
      pen.stroke();
    }
  }

  /** The squares of a node, as boxes by colour: free below, what is held above. */
  function addCards(boxes, strip) {
    const { cell, gap } = plan;
    const here = alphaOf(strip.node);
    const add = (layer, alpha, paint, ...rect) => {
      const key = `${layer}|${alpha}|${paint}`;
      let box = boxes.get(key);
      if (!box) boxes.set(key, (box = { alpha, paint, rects: [] }));
      box.rects.push(rect);
    };
    const light = (q) => here * (input.lit === null || input.lit === q ? 1 : 0.12);
    const y = strip.y;
    strip.node.cards.forEach(([queue, used, , , use, parts], i) => {
      const x = cellX(strip, i, cell, gap);
      const whole = used >= 0.999 && !parts?.length;
      if (!whole || light(queue) < 1) add(0, here, paints.free, x, y, cell, cell);
      if (!(used > 0)) return;
      if (input.by === "use") {
        add(1, light(queue), use === null || use === undefined ? paints.unknown : paints.heat(use), x, y, cell, cell);
        return;
      }
      let bottom = y + cell;
      for (const [q, part] of parts?.length ? parts : [[queue, used]]) {
        const tall = Math.max(1.5, cell * Math.min(1, part));
        add(1, light(q), paints.queue(q), x, bottom - tall, cell, tall);
        bottom -= tall;
      }
    });
  }

  function hatch(pen, x, y, cell, mig) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, cell, cell);
    pen.clip();
    pen.strokeStyle = paints.hatch;
    pen.lineWidth = cell >= 12 ? 1.6 : 1;
    pen.beginPath();
    const step = Math.max(3, cell / 4);
    for (let d = -cell; d < cell; d += step) {
      if (mig) {
        pen.moveTo(x + d + cell, y);
        pen.lineTo(x + d + cell, y + cell);
      } else {
        pen.moveTo(x + d, y + cell);
        pen.lineTo(x + d + cell, y);
      }
    }
    pen.stroke();
    pen.restore();
  }

  function cross(pen, x, y, cell) {
    pen.strokeStyle = paints.bad;
    pen.lineWidth = cell >= 12 ? 2 : 1.4;
    pen.beginPath();
    const m = cell * 0.22;
    pen.moveTo(x + m, y + m);
    pen.lineTo(x + cell - m, y + cell - m);
    pen.moveTo(x + cell - m, y + m);
    pen.lineTo(x + m, y + cell - m);
    pen.stroke();
    pen.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
  }

  function at(event) {
    if (!plan) return [null, -1];
    const box = el.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top + el.scrollTop];
    const tall = plan.cell + (plan.label ? plan.label + 4 : 1);
    const strip = plan.strips.find((s) => x >= s.x - 2 && x <= s.x + s.w + 2 && y >= s.y - 1 && y <= s.y + tall);
    if (!strip) return [null, -1];
    const gpu = y > strip.y + plan.cell + 1 ? -1 : strip.node.cards.findIndex((_, i) => {
      const left = cellX(strip, i, plan.cell, plan.gap);
      return x >= left - 1 && x <= left + plan.cell + 1;
    });
    return [strip, gpu];
  }

  return map;
}

/** Every colour that the map needs, as it is in the present theme. */
function palette(queues) {
  const own = queues.map((name) => resolved(queueColour(name)));
  const [unknown, low, high] = ["var(--line-strong)", "light-dark(#dbe1ff, #252c55)", "light-dark(#3a2fb8, #b9c1ff)"].map(resolved);
  const steps = Array.from({ length: 11 }, (_, i) => resolved(`color-mix(in oklab, ${low}, ${high} ${i * 10}%)`));
  return {
    count: queues.length, unknown,
    queue: (q) => own[q] || unknown,
    heat: (use) => steps[Math.round(10 * Math.max(0, Math.min(1, use)))],
    font: getComputedStyle(document.body).fontFamily,
    ...Object.fromEntries(["surface", "line", "soft", "faint", "free", "accent", "wait", "bad"].map((n) => [n, resolved(`var(--${n})`)])),
    strong: resolved("var(--line-strong)"), hatch: resolved("light-dark(#ffffffa6, #00000080)"),
  };
}

const widths = new Map();
/** `text` with an ellipsis where it is wider than `room` pixels. */
function cut(pen, text, room) {
  const key = `${pen.font}|${Math.round(room)}|${text}`;
  if (widths.has(key)) return widths.get(key);
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown === text ? text : `${shown}…`).width > room) shown = shown.slice(0, -1);
  const fitted = shown === text ? text : `${shown}…`;
  if (widths.size > 5000) widths.clear();
  widths.set(key, fitted);
  return fitted;
}
