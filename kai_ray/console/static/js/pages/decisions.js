// Decisions: each cycle that decided something; what was bound where, evicted for whom and why.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number, plural, quick, seconds, when, words } from "../format.js";
import * as keys from "../keys.js";
import { jobName, queueTag, trouble } from "../parts.js";
import { link, nodeLink, refine } from "../router.js";
import { source } from "../source.js";

const PAGE = 60;
const KINDS = { bound: ["started", "good"], evicted: ["evicted", "gone"], nominated: ["next in line", "info"] };
const MOST = 40; // decisions of one cycle that are shown at once

export function page(app, _args, query) {
  let asked = { ...query };
  let older = [];
  let end = false;
  const open = new Set();
  const list = source(app, ["decisions"], (signal) => get(["decisions"], { limit: PAGE }, signal));
  keys.bind("/", "filter", () => document.querySelector(".page-decisions input[type=search]")?.focus());

  const more = async () => {
    const before = idOf(older.at(-1) || list.data.cycles.at(-1));
    try {
      const found = await get(["decisions"], { limit: PAGE, before });
      older = [...older, ...found.cycles];
      end = found.cycles.length < PAGE;
    } catch (problem) {
      app.say(problem.message);
    }
    app.redraw();
  };

  return {
    title: "Decisions",
    enter: (_a, given) => (asked = { ...given }),
    render() {
      if (!list.data) return trouble(list.problem) || h("div", { class: "empty loading" }, "Loading…");
      const newest = list.data.cycles;
      const oldest = newest.length ? idOf(newest.at(-1)) : Infinity;
      const cycles = folded([...newest, ...older.filter((c) => idOf(c) < oldest)].map((c) => filtered(c, asked)).filter(Boolean));
      return h("div", { class: "stack" },
        h("div", { class: "head flat" }, h("h1", {}, "Decisions"), h("span", { class: "sub" }, "cycles that decided something, newest first"),
          h("div", { class: "right" },
            h("input", { type: "search", placeholder: "Job, queue, node or rule", "aria-label": "Filter decisions", value: asked.search || "", oninput: (e) => refine({ search: e.target.value }) }),
            h("div", { class: "chips" }, Object.entries(KINDS).map(([kind, [text, tone]]) => h("button", { key: kind, class: `chip${asked.kind === kind ? " on" : ""}`, "aria-pressed": String(asked.kind === kind), onclick: () => refine({ kind: asked.kind === kind ? "" : kind }) }, h("i", { class: `mark-dot ${tone}` }), text))))),
        trouble(list.problem), list.data.note && h("p", { class: "banner info" }, list.data.note),
        cycles.length ? h("div", { class: "cycles" }, cycles.map((c) => cycle(c, open, app))) : !list.data.note && h("div", { class: "card empty" }, asked.search || asked.kind ? h("span", {}, "No decision matches. ", h("a", { class: "link", href: link(["decisions"]) }, "Show all")) : "No cycle has decided anything yet."),
        newest.length >= PAGE && !end && h("button", { class: "second", onclick: more }, "Older"));
    },
  };
}

/** Pools count their cycles each for itself: the id is one over all of them. */
const idOf = (c) => c.id ?? c.number;

/** Cycles one after the other that only repeat who is next in line are shown as one. */
function folded(cycles) {
  const signs = (c) => (c.bound.length || c.evicted.length ? null : c.nominated.map((d) => `${d.namespace}/${d.job}`).join());
  const found = [];
  for (const c of cycles) {
    const last = found.at(-1);
    if (last && signs(c) !== null && signs(c) === signs(last) && (c.pool || "") === (last.pool || "")) last.first = c.number;
    else found.push({ ...c, first: c.number });
  }
  return found;
}

/** The cycle with what matches only; null if nothing does. */
function filtered(c, { search = "", kind = "" }) {
  const word = search.toLowerCase();
  const has = (d) => !word || [d.job, d.kind, d.namespace, d.queue, d.rule, d.forWhom, ...(d.nodes || [])].some((v) => (v || "").toLowerCase().includes(word));
  const pick = (which) => (kind && kind !== which ? [] : c[which].filter(has));
  const found = { ...c, bound: pick("bound"), evicted: pick("evicted"), nominated: pick("nominated") };
  if (word || kind) found.hidden = 0;
  return found.bound.length + found.evicted.length + found.nominated.length + (found.hidden || 0) ? found : null;
}

function cycle(c, open, app) {
  const rows = Object.keys(KINDS).sort((a, b) => (a === "evicted" ? -1 : b === "evicted" ? 1 : 0)).flatMap((kind) => c[kind].map((d) => [kind, d]));
  const all = open.has(idOf(c));
  const counts = Object.keys(KINDS).filter((k) => c[k].length).map((k) => `${number(c[k].length)} ${KINDS[k][0]}`).join(", ");
  return h("section", { class: "card cycle", key: idOf(c), memo: [idOf(c), c.first, rows.length, all, Math.floor(seconds(c.at)), rows[0]?.[1].job] },
    h("header", {}, h("h2", {}, c.first === c.number ? `Cycle ${number(c.number)}` : `Cycles ${number(c.first)} to ${number(c.number)}`), c.pool && h("span", { class: "soft" }, c.pool), h("span", { class: "faint" }, when(c.at)), h("div", { class: "right" }, h("span", {}, counts), h("span", {}, quick(c.seconds)))),
    h("ul", {}, rows.slice(0, all ? rows.length : MOST).map(([kind, d], i) => decision(kind, d, i))),
    rows.length > MOST && !all && h("p", { class: "more" }, h("button", { class: "plain", onclick: () => (open.add(idOf(c)), app.redraw()) }, `and ${rows.length - MOST} more`)),
    c.hidden > 0 && h("p", { class: "more faint" }, `${plural(c.hidden, "decision")} about namespaces that you may not see.`));
}

function decision(kind, d, i) {
  const [text, tone] = KINDS[kind];
  const where = d.nodes || [];
  return h("li", { key: i }, h("span", { class: `badge ${tone}` }, h("i", {}), text),
    h("span", { class: "clip" }, jobName({ ...d, name: d.job }), h("span", { class: "faint" }, ` ${d.kind}`)), queueTag(d.queue),
    h("span", { class: "num soft" }, d.gpus ? plural(d.gpus, "GPU") : plural(d.pods, "pod")),
    h("span", { class: "soft what" }, kind === "evicted" ? h("span", { title: d.message || null }, h("b", {}, words(d.rule)), d.forWhom ? ` for ${d.forWhom}` : ` ${d.message || ""}`)
      : where.length ? [where.slice(0, 3).map((n, k) => [k ? ", " : "", h("a", { class: "link", key: n, href: nodeLink(n) }, n)]), where.length > 3 ? ` and ${plural(where.length - 3, "more node")}` : ""] : ""));
}
