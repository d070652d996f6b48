// What is around every page: where one can go, which cluster it is, whether it is live.

import { h } from "./dom.js";
import { when } from "./format.js";
import * as keys from "./keys.js";
import { openFinder } from "./finder.js";
import { context, link, place } from "./router.js";

/** Every page: how it is loaded, its title, its key after "g", its picture. */
export const PAGES = {
  overview: { title: "Overview", key: "o", icon: "M3 3h8v8H3zM13 3h8v5h-8zM13 10h8v11h-8zM3 13h8v8H3z", load: () => import("./pages/overview.js") },
  queues: { title: "Queues", key: "q", icon: "M3 4h18v4H3zM7 10h14v4H7zM7 16h14v4H7z", load: () => import("./pages/queues.js") },
  nodes: { title: "Nodes", key: "n", icon: "M3 3h5v5H3zM9.5 3h5v5h-5zM16 3h5v5h-5zM3 9.5h5v5H3zM9.5 9.5h5v5h-5zM16 9.5h5v5h-5zM3 16h5v5H3zM9.5 16h5v5h-5zM16 16h5v5h-5z", load: () => import("./pages/nodes.js") },
  jobs: { title: "Jobs", key: "j", icon: "M3 5h2v2H3zM7 5h14v2H7zM3 11h2v2H3zM7 11h14v2H7zM3 17h2v2H3zM7 17h14v2H7z", load: () => import("./pages/jobs.js") },
  decisions: { title: "Decisions", key: "d", icon: "M11 3h2v5h-2zM11 16h2v5h-2zM4 11h5v2H4zM15 11h5v2h-5zM12 9l3 3-3 3-3-3z", load: () => import("./pages/decisions.js") },
  reports: { title: "Reports", key: "r", icon: "M3 20h18v1H3zM4 12h3v7H4zM9 7h3v12H9zM14 10h3v9h-3zM19 4h2v15h-2z", load: () => import("./pages/reports.js") },
  missing: { title: "", load: () => import("./pages/missing.js") },
};

/** Two places with the same key are one page with other filters. */
export function pageKey(name, path) {
  return name === "jobs" ? path.join("/") : name;
}

export function shell(app) {
  return h("div", { class: "app", key: "app" },
    h("button", { class: "skip", onclick: () => document.querySelector("main").focus() }, "Skip to the page"),
    side(app),
    h("div", { class: "body" },
      banner(app),
      h("main", { key: app.visit, tabindex: "-1", class: `page page-${app.name}` }, app.page ? app.page.render() : null)),
    h("div", { class: "toast", role: "status", hidden: !app.notice }, app.notice));
}

function side(app) {
  const contexts = app.session.contexts || [];
  return h("nav", { class: "side", "aria-label": "Pages" },
    h("a", { class: "brand", href: link([]) }, mark(), h("span", {}, "kai-ray")),
    contexts.length > 1 ? clusterChoice(contexts) : h("p", { class: "cluster clip", title: "cluster" }, app.session.home),
    h("button", { class: "find", onclick: openFinder }, "Find…", h("kbd", {}, "Ctrl K")),
    h("ul", {}, Object.entries(PAGES).filter(([, p]) => p.key).map(([name, p]) =>
      h("li", { key: name }, h("a", {
        href: link(name === "overview" ? [] : [name]),
        class: app.name === name ? "on" : "", "aria-current": app.name === name ? "page" : null,
        title: `${p.title} (g ${p.key})`,
      }, icon(p.icon), h("span", {}, p.title))))),
    h("div", { class: "foot" },
      h("span", { class: `live ${app.live}`, title: LIVE[app.live] }, h("i", {}), app.live),
      h("button", { class: "plain", title: "Light, dark or as the system has it", onclick: () => turnTheme(app) }, theme()),
      h("button", { class: "plain", title: "Keys (?)", onclick: help }, "?")));
}

const LIVE = {
  live: "The page follows the cluster as it changes.",
  polling: "No stream of news: the page asks every 5 seconds.",
  offline: "The server does not answer; trying again.",
};

function clusterChoice(contexts) {
  const chosen = context() || contexts.find((c) => c.home)?.name;
  return h("select", {
    class: "cluster", value: chosen, "aria-label": "Cluster",
    onchange: (e) => {
      const picked = contexts.find((c) => c.name === e.target.value);
      const { path } = place();
      location.hash = link(path.slice(0, 1), {}, picked.home ? "" : picked.name);
    },
  }, contexts.map((c) => h("option", { key: c.name, value: c.name },
    c.state === "ok" ? c.name : `${c.name} (${c.state})`)));
}

function banner(app) {
  const state = app.state;
  const name = context();
  const cluster = (app.session.contexts || []).find((c) => (name ? c.name === name : c.home));
  if (cluster && cluster.state !== "ok") return h("p", { class: "banner wait", role: "status" }, `Cluster ${cluster.name} ${cluster.state === "down" ? "does not answer" : "is not read yet"}${cluster.since ? ` since ${when(cluster.since)}` : ""}; what you see is what was known last.`, h("span", { class: "next" }, cluster.message));
  if (state && !state.ok) return h("p", { class: "banner bad", role: "alert" }, state.message);
  if (app.live === "offline" && app.wasLive) {
    return h("p", { class: "banner wait", role: "status" }, "The server does not answer. What you see may be old; trying again.");
  }
  app.wasLive ||= app.live === "live";
  return null;
}

export function icon(d) {
  return h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d }));
}

function mark() {
  return h("svg", { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
    [[7, 7, 1], [17.5, 7, 0.5], [7, 17.5, 1], [17.5, 17.5, 1]].map(([x, y, o]) =>
      h("rect", { x, y, width: 7.5, height: 7.5, rx: 1.6, opacity: o })));
}

// ------------------------------------------------------------------ theme, help, sign in

const theme = () => document.documentElement.dataset.theme || "system";

export function turnTheme(app) {
  const next = { system: "light", light: "dark", dark: "system" }[theme()];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem("kai.theme");
    else localStorage.setItem("kai.theme", next);
  } catch { /* it holds for this page then */ }
  dispatchEvent(new Event("kai:theme"));
  app.redraw();
}

let sheet = null;
export function help() {
  sheet?.remove();
  sheet = document.createElement("dialog");
  sheet.className = "sheet";
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const list = document.createElement("dl");
  for (const [key, { what }] of keys.shortcuts()) {
    const name = document.createElement("dt");
    for (const part of key.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = part === "ArrowDown" ? "↓" : part;
      name.append(cap, " ");
    }
    const text = document.createElement("dd");
    text.textContent = what;
    list.append(name, text);
  }
  sheet.append(title, list);
  sheet.addEventListener("click", () => sheet.close());
  sheet.addEventListener("close", () => sheet.remove());
  document.body.append(sheet);
  sheet.showModal();
}

export function signIn(app) {
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    app.refused = !(await app.signIn(field.value.trim()));
    app.redraw();
  };
  return h("form", { class: "sign-in", key: "sign-in", onsubmit: submit },
    h("div", { class: "brand" }, mark(), h("span", {}, "kai-ray")),
    h("p", { class: "soft" }, app.session.signIn || "A token is needed to look at this cluster."),
    h("label", {}, "Token", h("input", { name: "token", type: "password", autocomplete: "off", required: true, autofocus: true })),
    app.refused && h("p", { class: "field-problem", role: "alert" }, "That token was not accepted."),
    h("button", { class: "primary" }, "Sign in"));
}

