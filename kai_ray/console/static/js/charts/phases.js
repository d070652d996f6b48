// The life of a job as a band: waiting, starting, running, away; with a mark for each event.

import { h } from "../dom.js";
import { clock, seconds, span, when, words } from "../format.js";
import { tickText, ticks } from "./series.js";

/** What the job is in after an event; events that change nothing are left out. */
const AFTER = { created: "waiting", grouped: "waiting", waits: "waiting", nominated: "waiting", started: "running", resumed: "waiting", evicted: "away", suspended: "suspended", grew: "running", shrunk: "running", ended: "ended" };
export const COLOURS = { waiting: "light-dark(#e9b658, #b98630)", running: "light-dark(#35a56b, #43b57c)", away: "light-dark(#b667d3, #a45fc0)", suspended: "var(--line-strong)" };

/** [{phase, from, to, reason, message}] of a timeline, oldest first; `end` is now for what lives. */
export function phasesOf(timeline, end) {
  const found = [];
  for (const event of timeline) {
    const at = seconds(event.at);
    let phase = AFTER[event.what];
    if (!phase || at === null) continue;
    const last = found.at(-1);
    if (last?.phase === "away" && event.what === "waits") phase = "away"; // it still waits to be back
    if (last && last.to === null) {
      if (last.phase === phase && (event.what !== "waits" || last.reason === event.reason || !last.reason)) {
        if (event.reason) Object.assign(last, { reason: event.reason, message: event.message });
        continue;
      }
      last.to = at;
    }
    if (phase !== "ended") found.push({ phase, from: at, to: null, reason: event.what === "waits" || phase === "away" ? event.reason : "", message: event.message || "" });
  }
  for (const phase of found) phase.to ??= Math.max(end, phase.from);
  return found.filter((p) => p.to > p.from || found.length === 1);
}

/** Seconds in each phase. */
export function times(phases) {
  const sums = {};
  for (const p of phases) sums[p.phase] = (sums[p.phase] || 0) + (p.to - p.from);
  return sums;
}

export function phaseBand(phases, timeline) {
  if (!phases.length) return h("p", { class: "none" }, "Nothing is known of its life yet.");
  const from = phases[0].from;
  const to = Math.max(phases.at(-1).to, from + 1);
  const at = (t) => `${(100 * (t - from)) / (to - from)}%`;
  const [all, step] = ticks(from, to, 6);
  const edge = (to - from) * 0.02; // a text there would be cut
  const marks = all.filter((t) => t > from + edge && t < to - edge);
  const events = timeline.filter((e) => !["created", "grouped"].includes(e.what) && seconds(e.at) !== null);
  return h("figure", { class: "phases" },
    h("div", { class: "band" }, phases.map((p, i) => h("i", {
      key: i, class: p.phase, style: { left: at(p.from), width: `max(2px, ${(100 * (p.to - p.from)) / (to - from)}%)`, "--c": COLOURS[p.phase] },
      title: `${p.phase}${p.reason ? `: ${words(p.reason)}` : ""}, ${span(p.to - p.from)} from ${clock(p.from)}`,
    }, h("span", {}, p.reason ? words(p.reason) : p.phase))), events.map((e, i) => h("b", { key: `e${i}`, class: e.what, style: { left: at(seconds(e.at)) }, title: `${when(e.at)} ${e.what} ${e.message || ""}` }))),
    h("div", { class: "axis" }, marks.map((t) => h("span", { key: t, style: { left: at(t) } }, tickText(t, step)))));
}
