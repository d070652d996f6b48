// Long lists: only the lines in view exist. The keyboard moves a cursor; Enter opens.

import { h, onFrame, render } from "./dom.js";
import * as keys from "./keys.js";

const MORE = 6; // lines drawn above and below the view

/** `line(i)` returns a node for line i ("blank" lines while data is under way) and `same(i)` what it
 *  depends on: it is asked again when that changes. `open(i)` follows a line; `range(first, last)`
 *  hears which lines are in view. */
export function virtualList({ height, label, line, same, open, range }) {
  let kept = new Map(); // line -> {on: what it depends on, node}
  let el = null;
  let tall = null;
  let count = 0;
  let pageLines = 20;
  let measured = 0;
  const list = {
    cursor: -1,
    first: 0,
    render(total) {
      count = total;
      return h("div", {
        class: "virtual grow", tabindex: "0", role: "grid", "aria-label": label, "aria-rowcount": total,
        "aria-activedescendant": list.cursor >= 0 ? `line-${list.cursor}` : null,
        mount, update: () => draw(), unmount: () => sizes.disconnect(), onscroll: drawSoon,
      });
    },
    move(step) {
      if (!count) return;
      list.cursor = Math.max(0, Math.min(count - 1, list.cursor + step));
      show();
    },
    to(i) {
      list.cursor = Math.max(0, Math.min(count - 1, i));
      show();
    },
    top() {
      list.cursor = -1;
      if (el) el.scrollTop = 0;
      drawSoon();
    },
  };
  const sizes = new ResizeObserver(() => {
    measured = 0;
    drawSoon();
  });

  function mount(made) {
    el = made;
    tall = document.createElement("div");
    tall.className = "tall";
    tall.setAttribute("role", "rowgroup");
    el.append(tall);
    sizes.observe(el);
    draw();
  }

  function draw() {
    if (!el?.isConnected) return;
    measured ||= el.clientHeight; // asking at each frame would cost a layout
    tall.style.height = `${count * height}px`;
    pageLines = Math.max(1, Math.floor(measured / height));
    const top = Math.floor(el.scrollTop / height);
    const first = Math.max(0, top - MORE);
    const last = Math.min(count, top + pageLines + 1 + MORE);
    list.first = top;
    const before = kept;
    kept = new Map();
    const lines = [];
    for (let i = first; i < last; i++) {
      const on = [...same(i), i === list.cursor];
      const old = before.get(i);
      const node = old && old.on.every((value, k) => value === on[k]) ? old.node : at(i);
      kept.set(i, { on, node });
      lines.push(node);
    }
    render(tall, lines);
    range?.(first, last);
  }
  const drawSoon = onFrame(draw);

  function at(i) {
    const node = line(i);
    node.key = node.props.key = i;
    node.props.id = `line-${i}`;
    node.props.role = "row";
    node.props["aria-rowindex"] = i + 1;
    node.props.class = `line${i === list.cursor ? " on" : ""} ${node.props.class || ""}`;
    node.props.style = { transform: `translateY(${i * height}px)`, height: `${height}px`, ...node.props.style };
    node.props.onclick = (event) => {
      if (event.target.closest("a,button,input") || getSelection().toString()) return;
      list.cursor = i;
      open(i);
    };
    return node;
  }

  function show() {
    if (!el) return;
    const top = list.cursor * height;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top + height > el.scrollTop + el.clientHeight) el.scrollTop = top + height - el.clientHeight;
    el.setAttribute("aria-activedescendant", `line-${list.cursor}`);
    drawSoon();
  }

  keys.bind(["j", "ArrowDown"], "next line", () => list.move(1));
  keys.bind(["k", "ArrowUp"], "line before", () => list.move(-1));
  keys.bind("PageDown", "", () => list.move(pageLines));
  keys.bind("PageUp", "", () => list.move(-pageLines));
  keys.bind("Home", "", () => list.to(0));
  keys.bind("End", "", () => list.to(count - 1));
  keys.bind("Enter", "open the line", (event) => {
    if (event.target.closest?.("a,button") || list.cursor < 0) return false;
    open(list.cursor);
  });
  return list;
}
