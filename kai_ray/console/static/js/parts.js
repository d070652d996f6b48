// Small parts that several pages are made of.

import { queueColour, tone } from "./colour.js";
import { h } from "./dom.js";
import { UNLIMITED, number, words } from "./format.js";
import { jobLink, queueLink } from "./router.js";

export const badge = (state) =>
  h("span", { class: `badge ${tone(state)}` }, h("i", {}), (state || "").replaceAll(",", ", "));

export const queueTag = (name, href = queueLink(name)) =>
  name ? h("a", { class: "q", href, title: `queue ${name}` }, dot(queueColour(name)), h("span", {}, name)) : h("span", { class: "faint" }, "–");

export const dot = (colour) => h("i", { class: "dot", style: { "--c": colour } });

export const jobName = (job) =>
  h("a", { class: "link", href: jobLink(job), title: `${job.kind} ${job.namespace}/${job.name}` }, job.name);

/** `ns/Kind/name`, as nodes and decisions name jobs. */
export function splitJob(text) {
  const [namespace, kind, ...name] = (text || "").split("/");
  return { namespace, kind, name: name.join("/") };
}

export const card = (title, right, ...kids) =>
  h("section", { class: "card" }, h("header", {}, h("h2", {}, title), right && h("div", { class: "right" }, right)), ...kids);

export const tile = (label, value, note, ...more) =>
  h("div", { class: "card tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value),
    note && h("div", { class: "note clip", title: typeof note === "string" ? note : null }, note), ...more);

export const pairs = (rows) =>
  h("dl", { class: "pair" }, rows.filter(([, v]) => v !== "" && v !== null && v !== undefined).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));

/** What went wrong, and what to do about it. */
export function trouble(problem) {
  return problem && problem.status !== 401 && h("p", { class: "banner bad", role: "alert" }, problem.message,
    problem.next && h("span", { class: "next" }, problem.next));
}

/** The upper end of the scale on which queues are compared. */
export function scaleOf(rows, total) {
  return Math.max(total || 0, 1, ...rows.flatMap((q) => [q.gpu.allocated, q.gpu.quota, q.gpu.fairShare || 0, Math.min(q.gpu.limit, total || q.gpu.limit)]));
}

/** Held (over quota hatched), asked for beyond that, and marks for quota, fair share and limit. */
export function bullet(name, amount, scale) {
  const { allocated, quota, fairShare, limit, requested } = amount;
  const at = (value) => `${Math.min(100, (100 * value) / scale)}%`;
  const own = quota === UNLIMITED ? allocated : Math.min(allocated, quota);
  const title = `${name}: holds ${number(allocated)}, quota ${number(quota)}, fair share ${number(fairShare)}, limit ${number(limit)}, asks for ${number(requested)}`;
  return h("div", { class: "bullet", style: { "--c": queueColour(name) }, role: "img", "aria-label": title, title },
    h("div", { class: "track" },
      requested > allocated && h("i", { class: "want", style: { left: at(allocated), width: at(requested - allocated) } }),
      h("i", { style: { width: at(own) } }),
      allocated > own && h("i", { class: "over", style: { left: at(own), width: at(allocated - own) } })),
    quota > 0 && h("div", { class: "quota", style: { left: at(quota) } }),
    limit !== UNLIMITED && limit < scale && h("div", { class: "limit", style: { left: at(limit) } }),
    fairShare !== null && h("div", { class: "fair", style: { left: at(fairShare) } }));
}

export const bulletLegend = () => h("div", { class: "legend" },
  [["held", "holds"], ["over", "over its quota"], ["want", "asks for"], ["quota", "quota"], ["fair", "fair share"], ["limit", "limit"]]
    .map(([kind, text]) => h("span", {}, h("i", { class: `key ${kind}` }), text)));

/** Parts of a whole: [{name, value, colour}]. */
export const parts = (items, total) => h("div", { class: "parts" },
  items.filter((i) => i.value > 0).map((i) => h("i", {
    key: i.name, title: `${i.name}: ${number(i.value)}`, style: { "--c": i.colour, width: `${(100 * i.value) / (total || 1)}%` },
  })));

export const meter = (part, colour) => h("span", { class: "meter" },
  h("i", { style: { width: `${Math.round(100 * Math.min(1, part || 0))}%`, ...(colour ? { "--c": colour } : {}) } }));

export const reason = (word, message) => word ? h("span", { class: "clip", title: message || words(word) }, words(word)) : null;

export const segment = (label, choices, chosen, pick) => h("div", { class: "segment", role: "group", "aria-label": label },
  choices.map(([value, text]) => h("button", { key: value, class: value === chosen ? "on" : "", "aria-pressed": String(value === chosen), onclick: () => pick(value) }, text)));
