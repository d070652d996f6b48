// One queue at the side: how it stands, its rules, its past; and the form that changes it.

import { get } from "../api.js";
import { queueColour } from "../colour.js";
import { rowsOf, series } from "../charts/series.js";
import { h } from "../dom.js";
import { number, plural, when } from "../format.js";
import { badge, dot, pairs, trouble } from "../parts.js";
import { link } from "../router.js";
import { source } from "../source.js";
import { queueForm } from "./queue_form.js";

/** `changed()` is called when the queue has been changed here. */
export function queuePanel(app, name, changed) {
  const one = source(app, ["queues"], (signal) => get(["queues", name], {}, signal));
  const past = source(app, ["queues"], async (signal) => {
    const found = await get(["history", "queues"], { queue: name, since: "1h", step: 15 }, signal);
    return { problem: found.problem, rows: rowsOf(found.series[name]) };
  });
  const form = queueForm(app, name, () => Promise.all([one.refresh(), changed()]));
  const leave = () => {
    for (const it of [one, past]) {
      it.stop();
      app.sources.delete(it);
    }
    form.leave();
  };
  return {
    leave,
    render(all) {
      const q = one.data;
      const row = all.queues.find((r) => r.name === name);
      return h("aside", { class: "card drawer", key: name, "aria-label": `Queue ${name}` },
        h("header", { class: "row" }, dot(queueColour(name)), h("h2", { class: "clip" }, row?.displayName || name), row && badge(row.state), h("span", { class: "grow" }),
          h("a", { class: "second small", href: link(["jobs"], { queue: name }) }, "jobs"), h("a", { class: "close", href: link(["queues"]), "aria-label": "Close" }, "×")),
        one.problem && h("section", {}, trouble(one.problem)),
        row?.problem && h("section", {}, h("p", { class: "banner bad" }, row.problem)),
        q && [
          h("section", {}, h("p", {}, sentence(q))),
          row && h("section", { class: "edit" }, h("h3", {}, q.mayEdit ? "Rules" : "Rules (read-only)"), form.render(row, all.queues)),
          h("section", {}, h("h3", {}, "GPUs, the last hour"), history(past, q)),
          rules(q), conditions(q), events(q)]);
    },
  };
}

function sentence(q) {
  const g = q.gpu;
  const held = `Holds ${plural(g.allocated, "GPU")}`;
  const own = g.quota === -1 ? "owns as many as it can use" : `owns ${number(g.quota)}`;
  const more = g.borrowed > 0 ? `, ${number(g.borrowed)} of them borrowed` : "";
  const asks = g.pending > 0 ? ` ${plural(g.pending, "more GPU")} wanted by waiting jobs.` : "";
  return `${held}${more}; ${own}${g.fairShare === null ? "" : `, its fair share is ${number(g.fairShare)} now`}.${asks}`;
}

function history(past, q) {
  if (past.problem) return h("p", { class: "none" }, past.problem.message);
  return series({
    key: `past-${q.name}`, rows: past.data?.rows || [], empty: past.data?.problem || undefined, height: 130,
    lines: [
      { key: "requested", name: "asks for", colour: "var(--wait)", dash: "4 3", step: true },
      { key: "fairShare", name: "fair share", colour: "var(--soft)", dash: "2 2", step: true },
      { key: "allocated", name: "holds", colour: queueColour(q.name), area: true, step: true },
    ],
  });
}

const rules = (q) => {
  const stated = (q.policies || []).filter(([, v]) => v);
  return stated.length > 0 && h("section", {}, h("h3", {}, "Policies"), pairs(stated));
};

const conditions = (q) => q.conditions?.length > 0 && h("section", {}, h("h3", {}, "Conditions"),
  h("ul", {}, q.conditions.map((c) => h("li", { key: c.type, class: "condition" }, h("b", {}, c.type), ` ${c.status}`, c.message && h("span", { class: "soft" }, ` ${c.message}`)))));

const events = (q) => q.events?.length > 0 && h("section", {}, h("h3", {}, "Events"),
  h("ul", {}, q.events.slice(0, 8).map((e, i) => h("li", { key: i, class: "condition" }, h("span", { class: "faint" }, `${when(e.at)} `), h("b", {}, e.reason), " ", e.message))));
