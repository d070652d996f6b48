// Nodes as a list, for those who read rather than look.

import { h } from "../dom.js";
import { model, number } from "../format.js";
import { badge, meter } from "../parts.js";
import { nodeLink } from "../router.js";
import { virtualList } from "../virtual.js";

const GRID = { "grid-template-columns": "minmax(140px,2fr) 130px 90px 70px 80px minmax(120px,1.4fr) minmax(70px,1fr) minmax(70px,1fr)" };

export function nodeList(open) {
  let rows = [];
  let lines = null;
  return {
    bind() {
      lines = virtualList({ height: 36, label: "Nodes", open: (i) => rows[i] && open(rows[i]), line: (i) => line(rows[i]), same: (i) => [rows[i]] });
    },
    render(found) {
      rows = found;
      return h("section", { class: "card list" },
        h("div", { class: "columns", style: GRID }, ["Node", "GPUs held", "", "Free", "Pods", "State", "Rack", "Model"].map((t, i) => h("span", { class: [2, 3, 4].includes(i) ? "num" : "" }, t))),
        lines.render(rows.length), !rows.length && h("p", { class: "in none" }, "No node matches."));
    },
  };
}

const line = (n) => h("div", { style: GRID },
  h("a", { class: "link clip", href: nodeLink(n.name) }, n.name), meter(n.gpus ? n.allocated / n.gpus : 0),
  h("span", { class: "num" }, n.gpus ? `${number(n.allocated)} / ${number(n.gpus)}` : "–"), h("span", { class: "num" }, n.gpus ? number(n.free) : "–"), h("span", { class: "num soft" }, number(n.pods)),
  h("span", { class: "clip" }, badge(n.state)), h("span", { class: "soft clip" }, n.rack || n.zone || "–"), h("span", { class: "soft clip" }, model(n.model) || "–"));
