// Ctrl K: goes to any job, queue or node by a part of its name.

import { get } from "./api.js";
import { h, render } from "./dom.js";
import { jobLink, link, nodeLink, queueLink } from "./router.js";

const SHOWN = 7;

export function openFinder() {
  if (document.querySelector("dialog.finder")) return;
  const dialog = document.createElement("dialog");
  dialog.className = "sheet finder";
  document.body.append(dialog);
  const state = { text: "", found: [], at: 0, asked: 0 };
  const known = Promise.all([get(["queues"]), get(["nodes"]).catch(() => ({ nodes: [] }))]).catch(() => [{ queues: [] }, { nodes: [] }]);

  const draw = () => render(dialog,
    h("input", {
      type: "search", placeholder: "Job, queue or node", "aria-label": "Find a job, queue or node",
      oninput: (e) => look(e.target.value), onkeydown: move,
    }),
    h("ul", {}, state.found.map((one, i) => h("li", { key: one.href },
      h("a", { href: one.href, class: i === state.at ? "on" : "", onclick: () => dialog.close() },
        h("span", { class: "faint" }, one.kind), h("span", { class: "grow clip" }, one.name), h("span", { class: "faint clip" }, one.more))))),
    state.text && !state.found.length ? h("p", { class: "soft" }, "Nothing of that name.") : null);

  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      state.at = Math.max(0, Math.min(state.found.length - 1, state.at + step));
      event.preventDefault();
      draw();
    } else if (event.key === "Enter" && state.found[state.at]) {
      location.hash = state.found[state.at].href;
      dialog.close();
    }
  };

  const look = async (text) => {
    state.text = text.trim();
    const mine = ++state.asked;
    if (!state.text) return (state.found = []), draw();
    const [[{ queues }, { nodes }], jobs] = await Promise.all([
      known, get(["jobs"], { search: state.text, limit: SHOWN }).catch(() => ({ jobs: [] }))]);
    if (mine !== state.asked) return;
    const has = ({ name }) => name.toLowerCase().includes(state.text.toLowerCase());
    state.found = [
      ...queues.filter(has).slice(0, SHOWN).map((q) => ({ kind: "Queue", name: q.name, more: q.parent, href: queueLink(q.name) })),
      ...nodes.filter(has).slice(0, SHOWN).map((n) => ({ kind: "Node", name: n.name, more: n.state, href: nodeLink(n.name) })),
      ...jobs.jobs.map((j) => ({ kind: j.kind, name: j.name, more: `${j.queue} · ${j.state}`, href: jobLink(j) })),
    ].slice(0, 14);
    if (state.found.length === 0 || jobs.matched > SHOWN) {
      state.found.push({ kind: "Jobs", name: `search “${state.text}”`, more: jobs.matched ? `${jobs.matched} jobs` : "", href: link(["jobs"], { search: state.text }) });
    }
    state.at = 0;
    draw();
  };

  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (e) => e.target === dialog && dialog.close());
  draw();
  dialog.showModal();
}
