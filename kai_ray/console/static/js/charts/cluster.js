// GPUs of the whole cluster over time, summed up over the top-level queues.

import { get } from "../api.js";
import { h } from "../dom.js";
import { seconds } from "../format.js";
import { segment } from "../parts.js";
import { source } from "../source.js";
import { rowsOf, series } from "./series.js";

const RANGES = [["15m", 15], ["1h", 60], ["6h", 360], ["1d", 1440], ["7d", 10080]];
const POINTS = 240;

/** `now()` gives the overview, whose top-level queues are asked for. */
export function clusterHistory(app, now) {
  let chosen = "1h";
  const minutes = () => RANGES.find(([name]) => name === chosen)[1];
  const past = source(app, ["overview"], async (signal) => {
    const tops = (now() || (await get(["overview"], {}, signal))).queues.filter((q) => !q.depth).map((q) => q.name);
    if (!tops.length) return [];
    const step = Math.max(1, Math.round((minutes() * 60) / POINTS));
    const answer = await get(["history", "queues"], { queue: tops.join(","), since: chosen, step }, signal);
    return added(answer.series || {});
  });
  return {
    range: () => segment("Time span", RANGES.map(([name]) => [name, name]), chosen, (name) => {
      chosen = name;
      past.restart();
      app.redraw();
    }),
    chart: (o) => past.problem
      ? h("p", { class: "none" }, past.problem.message)
      : series({
        rows: past.data || [], height: 190, top: o.gpus.total || 1,
        lines: [
          { key: "requested", name: "asked for", colour: "var(--wait)", dash: "4 3", step: true },
          { key: "allocated", name: "held", colour: "var(--accent)", area: true, step: true },
        ],
        empty: "History begins with the first samples, in about a minute.",
      }),
  };
}

/** One row a moment; queues that have no sample then count as what they were before. */
export function added(bySeries) {
  const last = {};
  const moments = new Map();
  for (const [name, rows] of Object.entries(bySeries)) {
    for (const row of rowsOf(rows)) {
      const at = seconds(row.at);
      if (!moments.has(at)) moments.set(at, {});
      moments.get(at)[name] = row;
    }
  }
  return [...moments].sort((a, b) => a[0] - b[0]).map(([at, rows]) => {
    Object.assign(last, rows);
    const sum = (key) => {
      const known = Object.values(last).map((row) => row[key]).filter((v) => v !== null);
      return known.length ? known.reduce((total, v) => total + v, 0) : null;
    };
    return { at, allocated: sum("allocated"), requested: sum("requested") };
  });
}
