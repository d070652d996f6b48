// Nodes: a square per GPU in racks, coloured by queue or by use; or as a list; one node at the side.

import { get } from "../api.js";
import { BAD, MIG, SHARED, gpuMap } from "../charts/gpu_map.js";
import { assign, queueColour } from "../colour.js";
import { h, render } from "../dom.js";
import { number, percent, plural } from "../format.js";
import * as keys from "../keys.js";
import { badge, dot, segment, splitJob, trouble } from "../parts.js";
import { go, refine } from "../router.js";
import { source } from "../source.js";
import { nodePanel } from "./node_panel.js";
import { nodeList } from "./node_list.js";

const GROUPS = { rack: "Rack", zone: "Zone", pool: "Pool", model: "Model" };

export function page(app, args, query) {
  let chosen = args[0] || "";
  let options = { by: "queue", group: "", view: "map", search: "", ...query };
  let panel = chosen ? nodePanel(app, chosen) : null;
  let lit = null;
  let tip = null;
  let grouped = { data: null, by: "", groups: [] };
  const list = source(app, ["nodes"], (signal) => get(["nodes"], {}, signal));
  const pick = (node) => go(["nodes", ...(node.name === chosen ? [] : [node.name])], kept());
  const kept = () => Object.fromEntries(Object.entries(options).filter(([k, v]) => v && v !== { by: "queue", view: "map" }[k]));
  const map = gpuMap({ pick, point: (strip, gpu, x, y) => pointed(strip, gpu, x, y) });
  const table = nodeList((node) => pick(node));
  const change = (changes) => refine(changes);

  keys.bind("ArrowRight", "next node", () => options.view === "map" && map.move(1));
  keys.bind("ArrowLeft", "node before", () => options.view === "map" && map.move(-1));
  keys.bind("/", "search", () => document.querySelector(".page-nodes input[type=search]")?.focus());
  keys.bind("v", "map or list", () => change({ view: options.view === "map" ? "list" : "map" }));
  keys.bind("u", "colour by queue or use", () => change({ by: options.by === "use" ? "queue" : "use" }));
  keys.bind("Escape", "close the node", () => chosen && go(["nodes"], kept()));

  const bindView = () => (options.view === "list" ? table.bind() : keys.bind("Enter", "open the node", () => map.open()));
  bindView();

  function pointed(strip, gpu, x, y) {
    tip ||= document.querySelector(".map-tip");
    if (!tip) return;
    tip.hidden = !strip;
    if (!strip) return;
    render(tip, tipText(strip.node, gpu, list.data));
    const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 12);
    tip.style.translate = `${left}px ${Math.min(y + 16, innerHeight - tip.offsetHeight - 12)}px`;
  }

  /** Kept while the answer is the same, so that the map keeps its layout. */
  function groups(data) {
    const by = options.group || (data.nodes.some((n) => n.rack) ? "rack" : data.nodes.some((n) => n.zone) ? "zone" : "pool");
    if (grouped.data !== data || grouped.by !== by) grouped = { data, by, groups: groupsOf(data.nodes, by) };
    return grouped;
  }

  return {
    title: "Nodes",
    enter([name = ""], asked) {
      const view = options.view;
      options = { by: "queue", group: "", view: "map", search: "", ...asked };
      if (view !== options.view) bindView();
      tip = null;
      if (name === chosen) return;
      panel?.leave();
      chosen = name;
      panel = name ? nodePanel(app, name) : null;
    },
    leave: () => panel?.leave(),
    render() {
      const data = list.data;
      if (!data) return trouble(list.problem) || h("div", { class: "empty loading" }, "Loading…");
      assign(data.queues);
      const word = options.search.toLowerCase();
      const match = word ? (n) => [n.name, n.rack, n.zone, n.pool, n.model, n.state].some((v) => (v || "").toLowerCase().includes(word)) : null;
      const { by, groups: all } = groups(data);
      const total = data.nodes.reduce((sum, n) => [sum[0] + n.gpus, sum[1] + n.allocated], [0, 0]);
      return h("div", { class: "full" },
        h("div", { class: "head" }, h("h1", {}, "Nodes"), h("span", { class: "sub" }, `${plural(data.nodes.length, "node")} · ${number(total[1])} of ${number(total[0])} GPUs held`),
          h("div", { class: "right" },
            h("input", { type: "search", placeholder: "Search nodes", "aria-label": "Search nodes", value: options.search, oninput: (e) => change({ search: e.target.value }) }),
            options.view === "map" && h("select", { "aria-label": "Group by", value: by, onchange: (e) => change({ group: e.target.value }) }, Object.entries(GROUPS).map(([v, t]) => h("option", { key: v, value: v }, `by ${t.toLowerCase()}`))),
            options.view === "map" && segment("Colour", [["queue", "Queue"], ["use", "Use"]], options.by, (v) => change({ by: v === "queue" ? "" : v })),
            segment("View", [["map", "Map"], ["list", "List"]], options.view, (v) => change({ view: v === "map" ? "" : v })))),
        trouble(list.problem), unknown(data.problems || []),
        options.view === "map" && legend(data, options.by, lit, (q) => ((lit = q), app.redraw())),
        h("div", { class: `split fill${panel ? " open" : ""}` },
          options.view === "map"
            ? map.render({ groups: all, queues: data.queues, by: options.by, lit, match, chosen, label: `${data.nodes.length} nodes, ${number(total[1])} of ${number(total[0])} GPUs held` })
            : table.render(match ? data.nodes.filter(match) : data.nodes),
          panel?.render(data)),
        h("div", { class: "tip map-tip", hidden: true }));
    },
  };
}

/** Nodes that say nothing of their GPUs: the first by name, how many else. */
const unknown = (problems) => problems.length > 0 && h("p", { class: "banner wait", title: problems.slice(0, 30).join("\n") }, problems[0], problems.length > 1 && `, and from ${plural(problems.length - 1, "more node")}`);

function groupsOf(nodes, by) {
  const found = new Map();
  for (const node of nodes) {
    if (!node.cards.length && by !== "pool") continue; // no GPUs: nothing to see on the map
    const title = node[by] || "";
    if (!found.has(title)) found.set(title, []);
    found.get(title).push(node);
  }
  const named = (title) => title || (found.size === 1 ? "Nodes" : `no ${by}`);
  return [...found].map(([title, members]) => ({ title: named(title), nodes: members.filter((n) => n.cards.length) })).filter((g) => g.nodes.length);
}

const CHIPS = 18; // queues that the legend names at once

function legend(data, by, lit, light) {
  const held = data.queues.map(() => 0);
  let free = 0;
  let flags = 0;
  for (const node of data.nodes) {
    for (const [queue, used, , flag, , parts] of node.cards) {
      flags |= flag;
      if (parts?.length) for (const [q, part] of parts) held[q] += part;
      else if (queue >= 0) held[queue] += used;
      free += Math.max(0, 1 - used);
    }
  }
  const holders = data.queues.map((_, q) => q).filter((q) => held[q] > 0).sort((a, b) => held[b] - held[a]);
  const shown = holders.filter((q, i) => i < CHIPS || q === lit).sort((a, b) => a - b);
  const signs = [[SHARED, "shared", "shared by pods"], [MIG, "mig", "MIG"], [BAD, "bad", "bad"]].filter(([bit]) => flags & bit)
    .map(([, kind, text]) => h("span", { key: kind }, h("i", { class: `sign ${kind}` }), text));
  return h("div", { class: "legend map-legend" },
    by === "use" ? h("span", {}, "idle", h("i", { class: "ramp" }), "busy") : shown.map((q) => h("button", {
      key: q, class: `chip${lit === q ? " on" : ""}`, "aria-pressed": String(lit === q), onclick: () => light(lit === q ? null : q),
    }, dot(queueColour(data.queues[q])), data.queues[q], h("b", {}, number(Math.round(held[q] * 10) / 10)))),
    by !== "use" && holders.length > shown.length && h("select", { key: "more", "aria-label": "Other queues", value: "", onchange: (e) => light(Number(e.target.value)) },
      h("option", { key: "", value: "" }, `${holders.length - shown.length} more queues`), holders.filter((q) => !shown.includes(q)).map((q) => h("option", { key: q, value: q }, `${data.queues[q]} (${number(Math.round(held[q] * 10) / 10)})`))),
    h("span", { key: "free" }, h("i", { class: "sign" }), "free ", h("b", {}, number(free))), signs);
}

function tipText(node, gpu, data) {
  const card = node.cards[gpu];
  const lines = [h("div", {}, h("b", {}, node.name), gpu >= 0 ? ` GPU ${gpu}` : "", node.state === "Ready" ? "" : h("span", { class: "soft" }, ` ${node.state}`))];
  if (!card) {
    lines.push(h("div", { class: "soft" }, `${number(node.allocated)} of ${plural(node.gpus, "GPU")} held, ${plural(node.pods, "pod")}`), h("div", { class: "faint" }, [node.model, node.rack].filter(Boolean).join(" · ")));
    return lines;
  }
  const [queue, used, job, flags, use, parts] = card;
  const holders = parts?.length ? parts : used > 0 ? [[queue, used, job]] : [];
  if (!holders.length) lines.push(h("div", { class: "soft" }, flags & BAD ? "bad: nobody gets it" : "free"));
  for (const [q, part, j] of holders) {
    const named = j >= 0 ? splitJob(data.jobs[j]) : null;
    lines.push(h("div", { class: "row" }, h("span", { class: "row" }, dot(queueColour(data.queues[q])), data.queues[q] || "outside queues"), h("b", {}, part < 0.999 ? percent(part) : "")));
    if (named) lines.push(h("div", { class: "soft" }, `${named.kind} ${named.name}`));
  }
  if (use !== null && use !== undefined) lines.push(h("div", { class: "row" }, "busy", h("b", {}, percent(use))));
  if (flags & BAD && holders.length) lines.push(h("div", {}, "bad device"));
  return lines;
}
