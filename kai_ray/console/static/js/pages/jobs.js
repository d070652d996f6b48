// Jobs: search, filter, sort; ten thousand lines of which only those in view exist. Or one job.

import { h } from "../dom.js";
import { age, number, shortSpan, now, seconds, when, words } from "../format.js";
import * as keys from "../keys.js";
import { badge, dot, queueTag, reason, trouble } from "../parts.js";
import { queueColour, tone } from "../colour.js";
import { jobLink, link, refine } from "../router.js";
import { virtualList } from "../virtual.js";
import { page as jobPage } from "./job.js";
import { jobRows } from "./job_rows.js";

const STATES = ["Waiting", "Evicted", "Starting", "Running", "Suspended", "Succeeded", "Failed"];
const COLUMNS = [
  ["name", "Name", "minmax(150px,2.2fr)"], ["queue", "Queue", "minmax(100px,1.1fr)"], ["kind", "Kind", "110px"],
  ["state", "State", "112px"], ["reason", "Reason", "minmax(110px,1.5fr)"], ["position", "Pos.", "48px", "num"],
  ["gpus", "GPUs", "58px", "num"], ["", "Pods", "72px", "num"], ["priority", "Prio.", "52px", "num"], ["", "Ran", "58px", "num"], ["age", "Age", "52px", "num"],
];
const GRID = { "grid-template-columns": COLUMNS.map((c) => c[2]).join(" ") };
const WAIT_MS = 180; // between the last key and the search

export function page(app, args, query) {
  if (args.length === 3) return jobPage(app, args, query);
  let asked = { ...query };
  let text = asked.search || "";
  let timer = null;
  const rows = jobRows(app, () => ({ search: asked.search, state: asked.state, queue: asked.queue, kind: asked.kind, namespace: asked.namespace, reason: asked.reason, user: asked.user, sort: asked.sort }));
  const open = (i) => {
    const job = rows.row(i);
    if (job) location.hash = jobLink(job);
  };
  const list = virtualList({ height: 34, label: "Jobs", open, range: rows.range, line: (i) => line(rows.row(i)), same: (i) => [rows.row(i), minute()] });
  const minute = () => Math.floor(now() / 10); // ages grow
  keys.bind("/", "search", () => document.querySelector(".page-jobs input[type=search]")?.focus());
  keys.bind("x", "clear all filters", () => change(Object.fromEntries(Object.keys(asked).map((k) => [k, ""]))));

  function change(changes) {
    refine(changes);
  }
  const search = (value) => {
    text = value;
    clearTimeout(timer);
    timer = setTimeout(() => change({ search: value.trim() }), WAIT_MS);
  };
  const sort = (key) => change({ sort: asked.sort === key ? `-${key}` : asked.sort === `-${key}` ? "" : key });
  const toggle = (field, value) => {
    const has = (asked[field] || "").split(",").filter(Boolean);
    change({ [field]: (has.includes(value) ? has.filter((v) => v !== value) : [...has, value]).join(",") });
  };

  return {
    title: "Jobs",
    enter(_args, given) {
      if (JSON.stringify(given) === JSON.stringify(asked)) return;
      if ((given.search || "") !== (asked.search || "") && (given.search || "") !== text.trim()) text = given.search || "";
      asked = { ...given };
      list.top();
      rows.restart();
    },
    leave: () => clearTimeout(timer),
    render() {
      const facets = rows.facets || {};
      const filters = ["queue", "kind", "namespace", "reason", "user"].filter((f) => asked[f]);
      return h("div", { class: "full" },
        h("div", { class: "head" }, h("h1", {}, "Jobs"), h("span", { class: "sub", role: "status" }, rows.ready ? (rows.matched === rows.total ? number(rows.total) : `${number(rows.matched)} of ${number(rows.total)}`) : ""),
          h("div", { class: "right" },
            h("input", { type: "search", class: "search", placeholder: "Search name, queue, user, reason…  ( / )", "aria-label": "Search jobs", value: text, oninput: (e) => search(e.target.value), onkeydown: (e) => e.key === "Enter" && (list.to(0), e.target.blur()) }),
            choice("queue", "all queues", facets.queue, asked, change), choice("kind", "all kinds", facets.kind, asked, change),
            Object.keys(facets.namespace || {}).length > 1 && choice("namespace", "all namespaces", facets.namespace, asked, change))),
        h("div", { class: "chips filter" }, STATES.filter((s) => facets.state?.[s] || asked.state?.includes(s)).map((s) =>
          h("button", { key: s, class: `chip${asked.state?.split(",").includes(s) ? " on" : ""}`, "aria-pressed": String(!!asked.state?.split(",").includes(s)), onclick: () => toggle("state", s) },
            h("i", { class: `mark-dot ${tone(s)}` }), s, h("b", {}, number(facets.state?.[s] || 0)))),
          h("span", { class: "grow" }),
          filters.map((f) => h("button", { key: f, class: "chip on", title: "Remove this filter", onclick: () => change({ [f]: "" }) }, f === "queue" && dot(queueColour(asked[f])), `${f}: ${f === "reason" ? words(asked[f]) : asked[f]}`, " ×"))),
        trouble(rows.problem),
        h("section", { class: "card list" },
          h("div", { class: "columns", style: GRID, role: "row" }, COLUMNS.map(([key, title, , kind]) => key
            ? h("button", { key: title, class: `${kind || ""} ${(asked.sort || "").replace("-", "") === key ? "by" : ""}`, title: `Sort by ${title.toLowerCase()}`, onclick: () => sort(key) }, title, asked.sort === key ? " ↑" : asked.sort === `-${key}` ? " ↓" : "")
            : h("span", { key: title, class: kind || "" }, title))),
          list.render(rows.matched),
          rows.ready && !rows.matched && h("p", { class: "in none" }, rows.total ? h("span", {}, "No job matches. ", h("a", { class: "link", href: link(["jobs"]) }, "Show all")) : h("span", {}, "No jobs yet. Submit one: ", h("code", {}, "kai submit FILE")))));
    },
  };
}

function choice(field, all, counts, asked, change) {
  const names = Object.keys(counts || {}).sort();
  if (asked[field] && !names.includes(asked[field])) names.push(asked[field]);
  return h("select", { "aria-label": field, value: asked[field] || "", class: asked[field] ? "chosen" : "", onchange: (e) => change({ [field]: e.target.value }) },
    h("option", { key: "", value: "" }, all), names.map((n) => h("option", { key: n, value: n }, counts?.[n] ? `${n} (${number(counts[n])})` : n)));
}

function line(job) {
  if (!job) return h("div", { class: "blank", style: GRID });
  const end = job.endedAt ? seconds(job.endedAt) : ["Running", "Starting"].includes(job.state) ? now() : null;
  const ran = job.startedAt && end !== null ? shortSpan(end - seconds(job.startedAt)) : "";
  const grown = age(job.created);
  return h("div", { style: GRID },
    h("a", { class: "clip name", href: jobLink(job), title: `${job.namespace}/${job.name}`, tabindex: "-1" }, job.name), queueTag(job.queue), h("span", { class: "soft clip" }, job.kind), badge(job.evicted && job.state === "Waiting" ? "Evicted" : job.state),
    h("span", { class: "soft clip" }, job.state === "Running" ? "" : reason(job.reason, job.message)), h("span", { class: "num" }, job.position || ""), h("span", { class: "num" }, ["Succeeded", "Failed"].includes(job.state) ? "" : number(job.gpus)),
    h("span", { class: `num ${job.running < job.wanted ? "soft" : ""}` }, `${job.running}/${job.wanted}`), h("span", { class: "num faint" }, job.priority), h("span", { class: "num soft" }, ran), h("span", { class: "num faint", title: when(job.created) }, grown));
}
