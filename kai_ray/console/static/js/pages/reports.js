// Reports: who had how many GPU hours, how well they were used, what they cost; as a table and CSV.

import { get, save } from "../api.js";
import { series } from "../charts/series.js";
import { queueColour } from "../colour.js";
import { h } from "../dom.js";
import { number, percent, plural, when } from "../format.js";
import { card, dot, segment, tile, trouble } from "../parts.js";
import { link, refine } from "../router.js";
import { source } from "../source.js";

const BY = [["queue", "Queue"], ["user", "User"], ["kind", "Kind"], ["node-pool", "Node pool"]];
const SINCE = [["1h", "1 h"], ["6h", "6 h"], ["1d", "1 d"], ["7d", "7 d"], ["30d", "30 d"]];
const COLUMNS = [
  ["name", "Name"], ["gpuHoursHeld", "Held, GPU hours"], ["usedPart", "Used"], ["gpuHoursAsked", "Asked"], ["hoursWaited", "Waited, job hours"],
  ["started", "Started"], ["ended", "Ended"], ["failed", "Failed"], ["evicted", "Evicted"], ["cost", "Cost"],
];

export function page(app, _args, query) {
  let asked = { by: "queue", since: "1d", ...query };
  let sort = "gpuHoursHeld";
  const report = source(app, [], (signal) => get(["reports", "usage"], { by: asked.by, since: asked.since }, signal));
  const timer = setInterval(() => !document.hidden && report.refresh(), 30000);
  return {
    title: "Reports",
    enter(_a, given) {
      const next = { by: "queue", since: "1d", ...given };
      if (next.by === asked.by && next.since === asked.since) return;
      asked = next;
      report.restart();
    },
    leave: () => clearInterval(timer),
    render() {
      const r = report.data;
      return h("div", { class: "stack" },
        h("div", { class: "head flat" }, h("h1", {}, "Usage"), r && h("span", { class: "sub" }, `since ${when(r.since)}`),
          h("div", { class: "right" }, segment("By", BY, asked.by, (by) => refine({ by: by === "queue" ? "" : by })), segment("Time span", SINCE, asked.since, (since) => refine({ since: since === "1d" ? "" : since })),
            r && ["csv", "html"].map((format) => h("button", { class: "second", key: format, title: `Save this report as ${format.toUpperCase()}`, onclick: () => save(app, ["reports", "usage"], asked, format) }, format.toUpperCase())))),
        trouble(report.problem), !r && !report.problem && h("div", { class: "empty loading" }, "Loading…"),
        r && [figures(r), curves(r), table(r, asked.by, sort, (key) => ((sort = key), app.redraw())), (r.notes || []).filter(Boolean).map((text) => h("p", { class: "faint", key: text }, text))]);
    },
  };
}

const usedPart = (row) => (row.gpuHoursUsed === null || row.gpuHoursUsed === undefined || !row.gpuHoursUseKnown ? null : row.gpuHoursUsed / row.gpuHoursUseKnown);
const money = (value, currency) => (value === null || value === undefined ? "–" : `${number(Math.round(value * 100) / 100)}${currency ? ` ${currency}` : ""}`);

function figures(r) {
  const t = r.total;
  const part = usedPart(t);
  return h("div", { class: "tiles four", key: "tiles" },
    tile("GPU hours held", number(t.gpuHoursHeld), r.gpuHoursOfCluster ? `${percent(Math.min(1, t.gpuHoursHeld / r.gpuHoursOfCluster))} of ${number(r.gpuHoursOfCluster)} there were` : ""),
    tile("Used of those", part === null ? "–" : percent(part), part === null ? "The use is not known." : `${number(t.gpuHoursUsed)} hours of work`),
    tile("Waited", number(t.hoursWaited), `hours of jobs; ${plural(t.started, "start")}, ${plural(t.evicted, "eviction")}`),
    tile("Cost", money(t.cost, r.currency), t.cost === null || t.cost === undefined ? "No prices are given (--price)." : `${plural(t.ended, "job")} ended, ${number(t.failed)} failed`));
}

function curves(r) {
  const moments = new Map();
  for (const key of ["gpus", "held", "used"]) {
    for (const [at, value] of r.series?.[key] || []) moments.set(at, { ...moments.get(at), at, [key]: value });
  }
  const rows = [...moments.values()].sort((a, b) => (a.at < b.at ? -1 : 1));
  return card("GPUs over time", h("div", { class: "legend" }, [["var(--soft)", "there are"], ["var(--accent)", "held"], ["var(--good)", "used"]].map(([c, t]) => h("span", { key: t }, dot(c), t))),
    h("div", { class: "in" }, series({
      key: "usage", rows, height: 170,
      lines: [{ key: "gpus", name: "there are", colour: "var(--soft)", dash: "3 3", step: true }, { key: "held", name: "held", colour: "var(--accent)", area: true, step: true }, { key: "used", name: "used", colour: "var(--good)", area: true, step: true }],
    })));
}

function table(r, by, sort, order) {
  const rows = r.rows.map((row) => ({ ...row, usedPart: usedPart(row) })).sort((a, b) => (sort === "name" ? a.name.localeCompare(b.name) : (b[sort] ?? -1) - (a[sort] ?? -1)));
  const most = Math.max(1e-9, ...rows.map((row) => row.gpuHoursHeld));
  const colour = (name) => (by === "queue" ? queueColour(name) : "var(--accent)");
  if (!rows.length) return h("div", { class: "card empty" }, "Nothing was held or asked for in this time.");
  return h("section", { class: "card scroll-x", key: "table" }, h("table", { class: "usage" },
    h("thead", {}, h("tr", {}, COLUMNS.map(([key, title]) => h("th", { key, class: key === "name" ? "" : "num", "aria-sort": key === sort ? "descending" : null }, h("button", { class: key === sort ? "by" : "", onclick: () => order(key) }, title))))),
    h("tbody", {}, rows.map((row) => h("tr", { key: row.name },
      h("td", {}, h("a", { class: "q", href: by === "node-pool" ? link(["nodes"], { group: "pool", search: row.name }) : link(["jobs"], { [by]: row.name }) }, by === "queue" && dot(colour(row.name)), h("span", {}, row.name || "none given"))),
      h("td", { class: "held" }, h("div", { class: "row" }, h("span", { class: "hours", style: { "--c": colour(row.name) } },
        h("i", { style: { width: `${(100 * row.gpuHoursHeld) / most}%` } }), row.usedPart !== null && h("b", { style: { width: `${((100 * row.gpuHoursHeld) / most) * row.usedPart}%` } })), h("span", { class: "num" }, number(row.gpuHoursHeld)))),
      h("td", { class: "num" }, percent(row.usedPart)), h("td", { class: "num soft" }, number(row.gpuHoursAsked)), h("td", { class: "num soft" }, number(row.hoursWaited)),
      ["started", "ended", "failed", "evicted"].map((key) => h("td", { key, class: `num ${row[key] ? "soft" : "faint"}` }, number(row[key]))), h("td", { class: "num" }, money(row.cost, r.currency)))))));
}
