// The overview: GPUs now, queues against what they own, who waits and why, how quick the cycles are.

import { get } from "../api.js";
import { spark } from "../charts/series.js";
import { clusterHistory } from "../charts/cluster.js";
import { assign, queueColour } from "../colour.js";
import { h } from "../dom.js";
import { age, number, percent, plural, quick, seconds, when, words } from "../format.js";
import { bullet, bulletLegend, card, dot, jobName, parts, queueTag, reason, scaleOf, tile, trouble } from "../parts.js";
import { link, queueLink } from "../router.js";
import { source } from "../source.js";
import { clusters } from "./clusters.js";
import { recent } from "./recent.js";

const LONGEST = 6;
const ROWS = 14; // queues shown before "all queues"

export function page(app) {
  const overview = source(app, ["overview", "queues"], (signal) => get(["overview"], {}, signal));
  const oldest = source(app, ["jobs"], (signal) => get(["jobs"], { state: "Waiting,Evicted", sort: "-age", limit: LONGEST }, signal));
  const cycles = source(app, ["decisions"], (signal) => get(["decisions"], { limit: 12 }, signal));
  const past = clusterHistory(app, () => overview.data);
  const others = (app.session.contexts || []).length > 1 ? source(app, ["overview"], (signal) => get(["clusters"], {}, signal)) : null;
  return {
    title: "Overview",
    render() {
      const o = overview.data;
      if (!o) return trouble(overview.problem) || h("div", { class: "empty loading" }, "Loading…");
      assign(o.queues.map((q) => q.name));
      return h("div", { class: "stack" },
        h("div", { class: "head flat" }, h("h1", {}, "Overview"), h("span", { class: "sub" }, o.context)),
        trouble(overview.problem),
        o.state && !o.state.ok && h("p", { class: "banner bad" }, o.state.message),
        (o.problems || []).map((text) => h("p", { class: "banner wait", key: text }, text)),
        others?.data && clusters(others.data.clusters),
        h("div", { class: "tiles" }, gpuTile(o), waitTile(o), jobsTile(o), cycleTile(o)),
        h("div", { class: "two" },
          h("div", { class: "stack" },
            card("Queues", bulletLegend(), queues(o)),
            card("GPUs over time", h("div", { class: "legend" }, [["var(--accent)", "held"], ["var(--wait)", "asked for"]].map(([c, t]) => h("span", { key: t }, dot(c), t)), past.range()), h("div", { class: "in" }, past.chart(o)))),
          h("div", { class: "stack" },
            card("Why jobs wait", null, reasons(o.waiting)),
            card("Waiting longest", h("a", { class: "link", href: link(["jobs"], { state: "Waiting" }) }, "all that wait"), longest(oldest.data)),
            card("What happened", h("a", { class: "link", href: link(["decisions"]) }, "decisions"), recent(app, cycles.data)))));
    },
  };
}

/** Top-level queues hold what those below them hold: leaves only, so that nothing counts twice. */
export const leaves = (queues) => queues.filter((q) => !q.children);

function gpuTile({ gpus, nodes, queues }) {
  const held = leaves(queues).map((q) => ({ name: q.name, value: q.gpu.allocated, colour: queueColour(q.name) }));
  const told = held.reduce((sum, q) => sum + q.value, 0);
  if (gpus.allocated - told > 0.01) held.push({ name: "outside queues", value: gpus.allocated - told, colour: "var(--faint)" });
  const bad = [gpus.unhealthy && plural(gpus.unhealthy, "bad GPU"), nodes.notReady && `${plural(nodes.notReady, "node")} not ready`].filter(Boolean);
  return h("a", { class: "card tile wide go", href: link(["nodes"]) },
    h("div", { class: "label" }, "GPUs held"),
    h("div", { class: "row" },
      h("div", { class: "value" }, number(gpus.allocated), h("small", {}, ` of ${number(gpus.total)}`)),
      h("div", { class: "grow" }), h("div", { class: "note" }, percent(gpus.allocated / (gpus.total || 1)))),
    parts(held, gpus.total),
    h("div", { class: "note clip" }, [`${number(gpus.free)} free`, gpus.shared && `${number(gpus.shared)} shared`, gpus.utilization !== null && gpus.utilization !== undefined && `busy ${percent(gpus.utilization)}`, gpus.idle && `${number(gpus.idle)} idle`, plural(nodes.total, "node"), ...bad].filter(Boolean).join(" · ")));
}

function waitTile({ waiting }) {
  const since = waiting.oldest ? `, the oldest for ${age(waiting.oldest)}` : "";
  return tile("Waiting", number(waiting.jobs), waiting.jobs ? `for ${plural(waiting.gpus, "GPU")}${since}` : "Nothing waits.");
}

function jobsTile({ jobs }) {
  const states = Object.entries(jobs.byState).filter(([state]) => !["Running", "Waiting"].includes(state));
  return tile("Running", number(jobs.byState.Running || 0), states.map(([s, n]) => `${number(n)} ${s.toLowerCase()}`).join(" · ") || plural(jobs.total, "job"));
}

function cycleTile({ cycle }) {
  if (!cycle) return tile("Scheduling cycle", "–", "None yet.");
  return tile("Scheduling cycle", quick(cycle.seconds), `number ${number(cycle.number)}`,
    h("div", { class: "spark", title: `the last ${cycle.recent.length} cycles; this one: ${Object.entries(cycle.steps || {}).map(([s, t]) => `${s} ${quick(t)}`).join(", ")}` }, spark(cycle.recent.slice(-60).map((c) => c.seconds), { width: 88 })));
}

function queues(o) {
  const inUse = o.queues.filter((q) => q.gpu.quota || q.gpu.allocated || q.gpu.requested || q.waitingJobs);
  const shown = inUse.length > ROWS ? inUse.filter((q) => q.depth === 0).slice(0, ROWS) : inUse;
  const scale = scaleOf(shown, 0);
  if (!o.queues.length) return h("p", { class: "in none" }, "No queues yet: kai queue create NAME --gpu 8");
  return h("div", { class: "flush" },
    h("ul", { class: "queue-bars" }, shown.map((q) => h("li", { key: q.name },
      h("a", { class: "q", href: queueLink(q.name), style: { "padding-left": `${Math.min(q.depth, 4) * 14}px` } }, dot(queueColour(q.name)), h("span", { class: q.depth ? "" : "top" }, q.displayName || q.name)),
      bullet(q.name, q.gpu, scale),
      h("span", { class: "num" }, h("b", {}, number(q.gpu.allocated)), h("span", { class: "faint" }, ` / ${number(q.gpu.quota)}`)),
      h("span", { class: "num faint" }, q.waitingJobs ? `${number(q.waitingJobs)} wait` : "")))),
    shown.length < o.queues.length && h("p", { class: "more" }, h("a", { class: "link", href: link(["queues"]) }, `all ${number(o.queues.length)} queues`)));
}

function reasons({ byReason, jobs }) {
  const rows = Object.entries(byReason).sort((a, b) => b[1] - a[1]).slice(0, 6);
  if (!rows.length) return h("p", { class: "in none" }, jobs ? "Not yet known." : "Nothing waits.");
  const most = rows[0][1];
  return h("ul", { class: "reasons flush" }, rows.map(([word, n]) => h("li", { key: word },
    h("a", { href: link(["jobs"], { state: "Waiting", reason: word }) },
      h("span", { class: "clip" }, words(word)), h("div", { class: "grow" }, h("i", { style: { width: `${(100 * n) / most}%` } })), h("b", { class: "num" }, number(n))))));
}

function longest(found) {
  const rows = (found?.jobs || []).slice().sort((a, b) => (seconds(a.created) || 0) - (seconds(b.created) || 0));
  if (!rows.length) return h("p", { class: "in none" }, "Nothing waits.");
  return h("table", { class: "longest" }, h("tbody", {}, rows.map((job) => h("tr", { key: job.uid || job.name },
    h("td", { class: "clip job-name" }, jobName(job)), h("td", { class: "clip job-queue" }, queueTag(job.queue)), h("td", { class: "num nowrap" }, plural(job.gpus, "GPU")),
    h("td", { class: "soft small clip" }, reason(job.reason, job.message)), h("td", { class: "num faint", title: when(job.created) }, age(job.created))))));
}
