// One node at the side: its GPUs one by one, its pods, its conditions.

import { get } from "../api.js";
import { queueColour } from "../colour.js";
import { h } from "../dom.js";
import { age, model, number, percent, plural, when } from "../format.js";
import { badge, dot, jobName, meter, pairs, queueTag, splitJob, trouble } from "../parts.js";
import { link, place } from "../router.js";
import { source } from "../source.js";

export function nodePanel(app, name) {
  const one = source(app, ["nodes"], (signal) => get(["nodes", name], {}, signal));
  return {
    leave() {
      one.stop();
      app.sources.delete(one);
    },
    render(all) {
      const n = one.data;
      const row = all.nodes.find((r) => r.name === name);
      return h("aside", { class: "card drawer", key: name, "aria-label": `Node ${name}` },
        h("header", { class: "row" }, h("h2", { class: "clip" }, name), row && badge(row.state), h("span", { class: "grow" }),
          h("a", { class: "close", href: link(["nodes"], place().query), "aria-label": "Close" }, "×")),
        one.problem && h("section", {}, trouble(one.problem)),
        row && h("section", {}, pairs([
          ["GPUs", row.gpus ? `${number(row.allocated)} of ${number(row.gpus)} held` : "none"], ["Model", model(row.model)], ["GPU memory", row.memoryMiB ? `${number(Math.round(row.memoryMiB / 102.4) / 10)} GiB` : ""],
          ["Rack", row.rack], ["Zone", row.zone], ["Pool", row.pool], ["CPU", n?.cpu], ["Memory", n?.memory],
          ["Taints", (n?.taints || []).join(", ")]])),
        row?.cards.length > 0 && h("section", {}, h("h3", {}, "GPUs"), devices(row, n, all)),
        n && pods(n), n && conditions(n));
    },
  };
}

function devices(row, n, all) {
  const told = Object.fromEntries((n?.devices || []).map((d) => [d.index, d]));
  return [h("ul", { class: "devices" }, row.cards.map(([queue, used, job, , use, parts], i) => {
    const d = told[i];
    const holders = parts?.length ? parts : used > 0 ? [[queue, used, job]] : [];
    const busy = d?.utilization ?? use;
    return h("li", { key: i }, h("span", { class: "faint" }, i),
      h("div", { class: "stacked" }, holders.length ? holders.map(([q, part, j], k) => {
        const named = j >= 0 ? splitJob(all.jobs[j]) : null;
        return h("div", { class: "row", key: k }, dot(queueColour(all.queues[q])), named ? jobName(named) : h("span", { class: "soft" }, all.queues[q] || "outside queues"), part < 0.999 && h("span", { class: "faint" }, percent(part)));
      }) : h("span", { class: "faint" }, "free"),
        d && !d.healthy && h("span", { class: "field-problem" }, d.problem || "not healthy")),
      busy === null || busy === undefined ? h("span", {}) : h("span", { class: "row", title: `busy ${percent(busy)}` }, meter(busy), h("span", { class: "faint num small" }, percent(busy))),
      h("span", { class: "faint num small" }, d?.memoryMiB ? `${number(Math.round(d.usedMiB / 1024))} / ${number(Math.round(d.memoryMiB / 1024))} GiB` : ""));
  })), n?.observedAt && h("p", { class: "faint small" }, `Seen by the node's agent ${age(n.observedAt)} ago.`)];
}

const pods = (n) => h("section", {}, h("h3", {}, plural(n.running.length + n.hidden, "pod")),
  h("table", { class: "tight" }, h("tbody", {}, n.running.map((p) => h("tr", { key: `${p.namespace}/${p.name}` },
    h("td", { class: "clip", title: `${p.namespace}/${p.name}` }, p.job ? jobName(splitJob(p.job)) : p.name), h("td", {}, queueTag(p.queue)),
    h("td", { class: "num" }, p.gpus ? number(p.gpus) : ""), h("td", { class: "faint" }, p.phase), h("td", { class: "num faint" }, age(p.since)))))),
  n.hidden > 0 && h("p", { class: "faint" }, `${plural(n.hidden, "pod")} of namespaces that you may not see.`));

const conditions = (n) => n.conditions?.length > 0 && h("section", {}, h("h3", {}, "Conditions"),
  h("ul", {}, n.conditions.map((c) => h("li", { key: c.type, class: "condition" }, h("b", {}, c.type), ` ${c.status} `, h("span", { class: "soft" }, c.message || c.reason || ""), c.since && h("span", { class: "faint" }, ` ${when(c.since)}`)))));
