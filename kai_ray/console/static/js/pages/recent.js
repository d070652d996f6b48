// What happened of late: the scheduler's decisions, and the news of jobs as they come in.

import { h } from "../dom.js";
import { clock, number, plural, seconds, when, words } from "../format.js";
import { jobLink } from "../router.js";

const SHOWN = 9;
const WORDS = {
  created: "was created", grouped: "became a gang", waits: "waits", nominated: "is next in line", started: "started",
  shrunk: "shrank", grew: "grew", evicted: "was evicted", resumed: "is back", ended: "ended", warned: "was warned",
};
const TONES = { started: "good", grew: "good", resumed: "good", ended: "done", evicted: "gone", shrunk: "gone", waits: "wait", nominated: "info", warned: "bad" };

export function recent(app, decided) {
  const rows = [...news(app), ...lines(decided)];
  const seen = new Set();
  const shown = rows.sort((a, b) => b.at - a.at).filter((r) => !seen.has(r.key) && seen.add(r.key)).slice(0, SHOWN);
  if (!shown.length) return h("p", { class: "in none" }, decided?.note || "Nothing yet.");
  return h("ul", { class: "feed flush" }, shown.map((r) => h("li", { key: r.key },
    h("time", { title: when(r.at) }, clock(r.at)),
    h("span", { class: "clip", title: r.title }, h("i", { class: `mark-dot ${r.tone}` }), h("a", { class: "link", href: jobLink(r.job) }, r.job.name), " ", r.text))));
}

function news(app) {
  return app.news.filter((e) => e.what !== "created" && e.what !== "grouped").map((e) => {
    const at = seconds(e.at);
    return { at, key: `${e.name}|${e.what}|${Math.floor(at / 2)}`, job: e, tone: TONES[e.what] || "idle", title: e.message || "", text: `${WORDS[e.what] || e.what}${e.what === "waits" && e.reason ? `: ${words(e.reason)}` : ""}` };
  });
}

function lines(decided) {
  return (decided?.cycles || []).flatMap((c) => {
    const at = seconds(c.at);
    const line = (d, what, text, title) => ({ at, key: `${d.job}|${what}|${Math.floor(at / 2)}`, job: { ...d, name: d.job }, tone: TONES[what], text, title });
    return [
      ...c.evicted.map((d) => line(d, "evicted", `was evicted${d.forWhom ? ` for ${d.forWhom.split("/").at(-1)}` : ""}`, d.message)),
      ...c.bound.map((d) => line(d, "started", `started ${d.gpus ? `on ${plural(d.gpus, "GPU")} of` : `${plural(d.pods, "pod")} on`} ${d.nodes.length > 1 ? `${number(d.nodes.length)} nodes` : d.nodes[0] || ""}`, d.nodes.join(", "))),
    ];
  });
}
