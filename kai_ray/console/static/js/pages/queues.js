// The tree of queues, each bar on one scale; one queue at the side, with its rules to edit.

import { get } from "../api.js";
import { assign, queueColour } from "../colour.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import * as keys from "../keys.js";
import { badge, bullet, bulletLegend, dot, scaleOf, segment, trouble } from "../parts.js";
import { go, link, queueLink } from "../router.js";
import { source } from "../source.js";
import { queuePanel } from "./queue_panel.js";

const KINDS = { gpu: "GPU", cpu: "CPU", memory: "Memory" };

export function page(app, args) {
  let chosen = args[0] || "";
  let resource = "gpu";
  const closed = new Set();
  const list = source(app, ["queues"], (signal) => get(["queues"], {}, signal));
  const opened = (name) => (name ? queuePanel(app, name, list.refresh) : null);
  let panel = opened(chosen);
  const rows = () => visible(list.data?.queues || [], closed);
  const step = (by) => {
    const all = rows();
    const at = all.findIndex((q) => q.name === chosen);
    const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
    if (next) go(["queues", next.name]);
  };
  keys.bind(["j", "ArrowDown"], "next queue", () => step(1));
  keys.bind(["k", "ArrowUp"], "queue before", () => step(-1));
  keys.bind("e", "edit the queue", () => document.querySelector(".edit input")?.focus());
  keys.bind("Escape", "close the queue", () => chosen && go(["queues"]));

  return {
    title: "Queues",
    enter([name = ""]) {
      if (name === chosen) return;
      panel?.leave();
      chosen = name;
      panel = opened(name);
    },
    render() {
      const data = list.data;
      if (!data) return trouble(list.problem) || h("div", { class: "empty loading" }, "Loading…");
      assign(data.queues.map((q) => q.name));
      return h("div", { class: "stack" },
        h("div", { class: "head flat" }, h("h1", {}, "Queues"), h("span", { class: "sub" }, `${number(data.queues.length)}${data.editable ? "" : " · read-only"}`),
          h("div", { class: "right" }, bulletLegend(), segment("Resource", Object.entries(KINDS), resource, (r) => ((resource = r), app.redraw())))),
        trouble(list.problem),
        data.queues.length
          ? h("div", { class: `split${panel ? " open" : ""}` }, tree(data.queues, rows(), closed, chosen, resource, app), panel?.render(data))
          : h("div", { class: "empty card" }, data.problem || [h("h2", {}, "No queues yet"), h("p", {}, "Make one: ", h("code", {}, "kai queue create NAME --gpu 8"))]));
    },
    leave: () => panel?.leave(),
  };
}

/** Without those below a queue that is folded. */
function visible(queues, closed) {
  const hidden = new Set();
  return queues.filter((q) => {
    const out = hidden.has(q.parent) || closed.has(q.parent);
    if (out) hidden.add(q.name);
    return !out;
  });
}

function tree(all, rows, closed, chosen, resource, app) {
  const amounts = all.map((q) => ({ gpu: q[resource] })); // scaleOf and bullet know one resource
  const scale = scaleOf(amounts, 0);
  const unit = { gpu: 1, cpu: 1000, memory: 1000 }[resource];
  const show = (v) => number(v > 0 ? v / unit : v);
  const fold = (q) => {
    if (!closed.delete(q.name)) closed.add(q.name);
    app.redraw();
  };
  return h("section", { class: "card scroll-x" }, h("table", { class: "queue-tree" },
    h("thead", {}, h("tr", {}, h("th", {}, "Queue"), h("th", { class: "wide" }, { gpu: "GPUs", cpu: "CPU cores", memory: "Memory, GB" }[resource]),
      ["Held", "Quota", "Fair share", "Limit", "Weight", "Priority", "Waiting"].map((t) => h("th", { class: "num" }, t)))),
    h("tbody", {}, rows.map((q) => {
      const a = q[resource];
      return h("tr", {
        key: q.name, class: `go${q.name === chosen ? " on" : ""}`, "aria-selected": String(q.name === chosen),
        onclick: (e) => !e.target.closest("a,button") && go(q.name === chosen ? ["queues"] : ["queues", q.name]),
      },
        h("td", {}, h("div", { class: "row name", style: { "padding-left": `${q.depth * 18}px` } },
          q.children
            ? h("button", { class: "fold", "aria-expanded": String(!closed.has(q.name)), "aria-label": `${closed.has(q.name) ? "Unfold" : "Fold"} ${q.name}`, onclick: () => fold(q) }, closed.has(q.name) ? "▸" : "▾")
            : h("i", { class: "fold" }),
          dot(queueColour(q.name)), h("a", { href: queueLink(q.name), class: q.depth ? "clip" : "clip top" }, q.name),
          q.state !== "Active" && badge(q.state), q.problem && h("span", { class: "badge bad", title: q.problem }, "problem"))),
        h("td", {}, bullet(q.name, a, scale)),
        h("td", { class: "num" }, h("b", {}, show(a.allocated))),
        h("td", { class: "num" }, show(a.quota)), h("td", { class: "num" }, show(a.fairShare)),
        h("td", { class: "num soft" }, a.limit === -1 ? "–" : show(a.limit)), h("td", { class: "num soft" }, number(a.weight)),
        h("td", { class: "num soft" }, q.priority),
        h("td", { class: "num" }, q.waitingJobs ? h("a", { class: "link", href: link(["jobs"], { queue: q.name, state: "Waiting" }) }, number(q.waitingJobs)) : h("span", { class: "faint" }, "0")));
    }))));
}
