// One job: a sentence on how it stands, its life, its gang and where, how well it uses its GPUs.

import { get, save } from "../api.js";
import { rowsOf, series } from "../charts/series.js";
import { COLOURS, phaseBand, phasesOf, times } from "../charts/phases.js";
import { h } from "../dom.js";
import { age, number, now, percent, plural, seconds, span, when, words } from "../format.js";
import * as keys from "../keys.js";
import { badge, card, dot, meter, pairs, queueTag, tile, trouble } from "../parts.js";
import { go, link, nodeLink, place, refine } from "../router.js";
import { source } from "../source.js";
import { yaml } from "./yaml.js";

const ENDED = ["Succeeded", "Failed"];
const TABS = [["", "Overview"], ["events", "Events"], ["yaml", "YAML"]];

export function page(app, args, query) {
  const path = ["jobs", ...args];
  let tab = query.tab || "";
  let text = null;
  const load = (more, options = {}) => (signal) => get([...path, ...more], { apiVersion: query.apiVersion, ...options }, signal);
  const one = source(app, ["jobs"], load([]));
  const why = source(app, ["jobs"], (signal) => (ENDED.includes(one.data?.state) ? null : load(["explain"])(signal)));
  const use = source(app, ["jobs"], load(["gpu"], { since: "6h" }));
  const account = source(app, [], (signal) => get(["reports", "job", ...args], { apiVersion: query.apiVersion }, signal));
  const showTab = () => {
    if (tab === "yaml" && !text) text = source(app, ["jobs"], load(["yaml"]));
  };
  showTab();
  keys.bind(["Escape", "Backspace"], "back to the jobs", () => (history.length > 1 ? history.back() : go(["jobs"])));
  const step = (by) => refine({ tab: TABS[(TABS.findIndex(([t]) => t === tab) + by + TABS.length) % TABS.length][0] });
  keys.bind("]", "next tab", () => step(1));
  keys.bind("[", "tab before", () => step(-1));
  return {
    title: args[2],
    enter(_args, given) {
      tab = given.tab || "";
      showTab();
    },
    render() {
      const job = one.data;
      if (!job) return one.problem ? h("div", { class: "stack" }, crumbs(args), trouble(one.problem)) : h("div", { class: "empty loading" }, "Loading…");
      const known = job.timeline.some((e) => e.what === "created");
      const life = known ? job.timeline : [{ at: job.created, what: "created" }, ...job.timeline];
      const end = ENDED.includes(job.state) ? seconds(job.endedAt || life.at(-1).at) : now();
      const phases = phasesOf(life, end ?? now());
      return h("div", { class: "stack job" },
        crumbs(args), h("div", { class: "row wrap title" }, h("h1", {}, job.name), badge(job.evicted && job.state === "Waiting" ? "Evicted" : job.state), h("span", { class: "faint" }, job.kind), queueTag(job.queue)),
        trouble(one.problem), h("p", { class: "sentence" }, sentence(job, why.data, times(phases))),
        h("div", { class: "tabs", role: "tablist" }, TABS.map(([key, title]) => h("a", { key, role: "tab", "aria-selected": String(key === tab), class: key === tab ? "on" : "", href: link(place().path, { ...place().query, tab: key }) }, title))),
        tab === "yaml" ? h("section", { class: "card" }, text?.data ? yaml(text.data) : trouble(text?.problem) || h("p", { class: "in none" }, "Loading…"))
          : tab === "events" ? events(job.events)
            : overview(app, job, phases, why.data, use, account.data));
    },
  };
}

const crumbs = (args) => h("div", { class: "row crumbs" }, h("a", { class: "crumb", href: link(["jobs"]) }, "Jobs"), h("span", { class: "faint" }, "/"), h("a", { class: "crumb", href: link(["jobs"], { namespace: args[0] }) }, args[0]));

function sentence(job, why, spent) {
  if (ENDED.includes(job.state)) return `${job.state} after it had run for ${span(spent.running || 0)}${spent.waiting > 1 ? ` and waited for ${span(spent.waiting)}` : ""}. ${job.message || ""}`;
  if (why?.sentence && job.state !== "Suspended") return why.sentence;
  return job.message || (job.state === "Running" ? `Runs on ${plural(job.nodes, "node")}.` : `${job.state}.`);
}

function overview(app, job, phases, why, use, account) {
  const spent = times(phases);
  return [
    h("div", { class: "tiles four", key: "tiles" },
      tile("GPUs", number(job.gpus), job.nodes ? `on ${plural(job.nodes, "node")}` : "not placed"),
      tile(ENDED.includes(job.state) ? "Pods" : "Pods running", ENDED.includes(job.state) ? number(job.wanted) : h("span", {}, number(job.running), h("small", {}, ` of ${number(job.wanted)}`)), `priority ${job.priority}${job.user ? ` · ${job.user}` : ""}`),
      tile("Waited", span(spent.waiting || 0), spent.away ? `and ${span(spent.away)} away for others` : job.position ? `place ${job.position} in its queue` : "in total"),
      tile(job.state === "Running" ? "Running" : "Ran", span(spent.running || 0), job.startedAt && job.state === "Running" ? `since ${when(job.startedAt)}` : `created ${age(job.created)} ago`)),
    card("Timeline", h("div", { class: "legend" }, Object.entries(COLOURS).filter(([p]) => spent[p]).map(([p, c]) => h("span", { key: p }, dot(c), p))), h("div", { class: "in" }, phaseBand(phases, job.timeline))),
    h("div", { class: "two", key: "two" },
      h("div", { class: "stack" }, gpuUse(job, use), gangs(job)),
      h("div", { class: "stack" }, explain(job, why), reasons(job), hours(app, job, account), labels(job))),
  ];
}

// ------------------------------------------------------------------ why

function explain(job, why) {
  const waiting = (why?.gangs || []).filter((g) => g.state === "Waiting" || g.notice || g.waits_for || g.evicted);
  if (!waiting.length && !job.waitsFor) return null;
  return card("Why it waits", null, h("div", { class: "in" }, waiting.map((g) => {
    const nodes = Object.entries(g.reasons || {}).sort((a, b) => b[1] - a[1]);
    const most = Math.max(1, ...nodes.map(([, n]) => n));
    return h("div", { class: "why", key: g.name },
      waiting.length > 1 && h("h3", {}, g.name),
      nodes.length > 0 && h("ul", { class: "node-reasons" }, nodes.map(([word, n]) => h("li", { key: word }, h("span", { class: "clip" }, words(word)), h("i", { style: { width: `${(60 * n) / most}px` } }), h("span", { class: "num soft" }, plural(n, "node"))))),
      pairs([
        ["What helps", g.help], ["Nearest", g.nearest && h("span", {}, h("a", { class: "link", href: nodeLink(g.nearest.node) }, g.nearest.node), ` ${(g.nearest.text || "").replace(g.nearest.node, "")}`)],
        ["Would fit", g.wanted ? `${number(g.placeable)} of ${plural(g.wanted, "pod")}` : ""],
        ["Queue", g.queue?.refuses ? `${g.queue.name} refuses: ${words(g.queue.refuses)}` : ""],
        ["Behind", g.behind?.length ? `${g.behind.slice(0, 4).join(", ")}${g.behind.length > 4 ? ` and ${g.behind.length - 4} more` : ""}` : ""],
        ["Waits for", g.waits_for], ["Had to leave", g.evicted], ["Notice", g.notice], ["Protected", g.protected], ["Set aside", (g.set_aside || []).join(", ")]]));
  })));
}

function reasons(job) {
  const rows = job.timeline.slice().reverse();
  if (!rows.length) return null;
  return card("What happened", job.historyFrom === "events" ? h("span", { title: "No history is kept here: this is what the cluster's events still say." }, "from events") : null,
    h("ul", { class: "feed flush" }, rows.slice(0, 40).map((e, i) => h("li", { key: i }, h("time", { title: when(e.at) }, when(e.at)),
      h("div", {}, h("b", {}, e.what), e.reason ? ` ${words(e.reason)}` : "", e.forWhom ? ` for ${e.forWhom}` : "",
        e.nodes?.length ? h("span", { class: "faint" }, ` on ${e.nodes.slice(0, 3).join(", ")}${e.nodes.length > 3 ? ` and ${e.nodes.length - 3} more` : ""}`) : "",
        e.message && h("div", { class: "soft small" }, e.message))))));
}

// ------------------------------------------------------------------ where, and how well

function gpuUse(job, use) {
  const rows = rowsOf(use.data?.series);
  const devices = use.data?.now || [];
  if (!job.gpus || (!job.running && rows.length < 2)) return null;
  const known = devices.length > 0 && devices.every((d) => d.utilization != null); // else no mean, never 0 %
  const mean = known ? devices.reduce((s, d) => s + d.utilization, 0) / devices.length : null;
  const body = rows.length < 2 && !devices.length
    ? h("p", { class: "none" }, use.problem?.message || use.data?.problem || "No GPU data yet.")
    : [use.data?.problem && h("p", { class: "banner wait" }, use.data.problem),
      series({ key: "use", rows, height: 130, format: (v) => percent(v), top: 1, lines: [{ key: "utilization", name: "busy", colour: "var(--accent)", area: true }], empty: "The first samples come in a minute." }),
      devices.length > 0 && h("ul", { class: "device-grid" }, devices.map((d) => h("li", { key: `${d.node}${d.index}${d.pod}`, title: `${d.pod} on ${d.node} GPU ${d.index}: busy ${percent(d.utilization)}, ${number(Math.round((d.usedMiB || 0) / 1024))} GiB used` },
        h("span", { class: "faint clip" }, `${d.node} · ${d.index}`), meter(d.utilization), h("span", { class: "num small" }, percent(d.utilization)))))];
  return card("GPU use", mean === null ? null : `busy ${percent(mean)} now`, h("div", { class: "in" }, body));
}

function gangs(job) {
  return job.gangs.map((g) => card(job.gangs.length > 1 ? g.name : "Gang", [
    g.minimum > 0 && `starts with ${plural(g.minimum, "pod")}`, g.topology].filter(Boolean).join(" · "),
  g.members.length ? h("div", { class: "members" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Pod"), h("th", {}, "Part"), h("th", {}, "Node"), h("th", { class: "num" }, "GPUs"), h("th", {}, "State"))),
    h("tbody", {}, g.members.slice(0, 400).map((m) => h("tr", { key: m.name }, h("td", { class: "clip" }, m.name), h("td", { class: "soft" }, m.subgroup || ""), h("td", {}, m.node ? h("a", { class: "link", href: nodeLink(m.node) }, m.node) : h("span", { class: "faint" }, "–")),
      h("td", { class: "num" }, m.gpus ? number(m.gpus) : ""), h("td", { title: m.message || null }, badge(m.phase), m.message && m.phase !== "Pending" && h("span", { class: "faint small" }, ` ${m.message}`)))))),
  g.members.length > 400 && h("p", { class: "in none" }, `and ${number(g.members.length - 400)} more`)) : h("p", { class: "in none" }, "No pods now.")));
}

/** What it asked for, held and used, and what that cost: the report of this job. */
function hours(app, job, account) {
  if (!account || !job.gpus) return null;
  const { asked, held, used, useKnown } = account.gpuHours;
  const path = ["reports", "job", job.namespace, job.kind, job.name];
  return card("GPU hours", h("button", { class: "plain", title: "Save the report of this job", onclick: () => save(app, path, {}, "html") }, "report"), h("div", { class: "in" }, pairs([
    ["Asked", number(asked)], ["Held", number(held)], ["Used", used === null ? "not known" : `${number(used)} (${percent(useKnown ? used / useKnown : 0)} of what is known)`],
    ["Cost", account.cost === null ? "" : `${number(account.cost)} ${account.currency}`], ["Evicted", account.evictions ? `${account.evictions} times` : ""], ["Restarted", account.restarts ? `${account.restarts} times` : ""]])));
}

function labels(job) {
  const rows = Object.entries(job.labels || {});
  return rows.length > 0 && card("Labels", null, h("div", { class: "in small" }, pairs(rows.map(([k, v]) => [h("span", { class: "mono" }, k), h("span", { class: "mono" }, v)]))));
}

function events(rows) {
  if (!rows.length) return h("div", { class: "card empty" }, "No events.");
  return h("section", { class: "card scroll-x" }, h("table", {}, h("thead", {}, h("tr", {}, ["When", "Type", "Reason", "Object", "Message"].map((t) => h("th", {}, t)))),
    h("tbody", {}, rows.map((e, i) => h("tr", { key: i }, h("td", { class: "faint nowrap" }, when(e.at), e.count > 1 ? ` ×${e.count}` : ""), h("td", {}, h("span", { class: `badge ${e.type === "Warning" ? "wait" : "idle"}` }, e.type)), h("td", {}, e.reason), h("td", { class: "soft" }, e.object), h("td", {}, e.message))))));
}
