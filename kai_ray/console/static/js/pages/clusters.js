// Several clusters at a glance; one of them may be down.

import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { badge, meter } from "../parts.js";
import { link } from "../router.js";

export function clusters(rows) {
  return h("section", { class: "clusters", "aria-label": "Clusters" }, rows.map((c) =>
    h("a", { class: `card tile go${c.state === "ok" ? "" : " down"}`, key: c.context, href: link([], {}, c.home ? "" : c.context) },
      h("div", { class: "row" }, h("b", { class: "grow clip" }, c.context), badge(c.state === "ok" ? "Ready" : c.state)),
      c.state === "ok" && c.gpus
        ? [h("div", { class: "row" }, meter(c.gpus.allocated / (c.gpus.total || 1)), h("span", { class: "note clip" }, `${percent(c.gpus.allocated / (c.gpus.total || 1))} of ${number(c.gpus.total)} GPUs`)),
          h("div", { class: "note clip" }, `${number(c.jobs?.byState?.Running || 0)} jobs run, ${number(c.waiting?.jobs || 0)} wait`)]
        : h("div", { class: "note clip", title: c.message }, c.message || "It does not answer."))));
}
