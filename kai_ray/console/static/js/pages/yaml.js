// YAML with keys, texts and numbers told apart; the text itself is untouched.

import { h } from "../dom.js";

const LINES = 4000;

export function yaml(text) {
  const lines = text.split("\n");
  return h("div", { memo: [text] }, h("div", { class: "yaml-tools" }, h("button", { class: "plain", onclick: (e) => copy(e.target, text) }, "copy")),
    h("pre", { class: "yaml", tabindex: "0" }, lines.slice(0, LINES).map((line) => [...coloured(line), "\n"]), lines.length > LINES && "…"));
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "select and copy by hand";
  }
}

function coloured(line) {
  const found = /^(\s*(?:- )*)([\w./~"'-][^:#]*:)(\s.*|$)/.exec(line);
  if (!found) return [/^\s*#/.test(line) ? h("span", { class: "c" }, line) : line];
  const [, lead, key, value] = found;
  const kind = /^\s*-?\d+(\.\d+)?$/.test(value) || /^\s*(true|false|null)$/.test(value) ? "n" : "s";
  return [lead, h("span", { class: "k" }, key), value && h("span", { class: kind }, value)];
}
