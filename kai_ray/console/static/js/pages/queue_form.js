// Changes a queue: what the shares of all queues would be is shown before anything is saved.

import { Problem, get, send } from "../api.js";
import { queueColour } from "../colour.js";
import { h } from "../dom.js";
import { UNLIMITED, number } from "../format.js";
import { dot } from "../parts.js";

const ASK_MS = 250;
const AMOUNTS = [["quota", "Quota", "GPUs it owns"], ["limit", "Limit", "most it may hold"], ["weight", "Weight", "share of what is over"]];

/** The form of queue `name`. `saved()` is called when the change has been stored. */
export function queueForm(app, name, saved) {
  const typed = {}; // field -> text, only what differs from the queue
  let row = null;
  let preview = null;
  let problems = {};
  let busy = false;
  let asked = 0;
  let timer = null;

  const clear = () => {
    for (const key in typed) delete typed[key];
    preview = null;
    problems = {};
    asked += 1;
  };

  const type = (field, text) => {
    if (text.trim() === shown(row, field)) delete typed[field];
    else typed[field] = text;
    clearTimeout(timer);
    timer = setTimeout(look, ASK_MS);
    app.redraw();
  };

  /** What is typed, as the API takes it; problems by field otherwise. */
  const change = () => {
    const body = {};
    problems = {};
    for (const [field, text] of Object.entries(typed)) {
      const value = read(text);
      if (Number.isNaN(value)) problems[field] = "A number, or “unlimited”.";
      else if (field === "priority") body.priority = value;
      else (body.gpu ||= {})[field] = value;
    }
    return body;
  };

  const look = async () => {
    const mine = ++asked;
    const body = change();
    if (Object.keys(problems).length || !Object.keys(body).length) {
      preview = null;
      return app.redraw();
    }
    try {
      const found = await send("POST", ["queues", "preview"], { changes: [{ name, ...body }] });
      if (mine !== asked) return;
      preview = found;
      for (const p of found.problems) problems[fieldOf(p.field)] = p.message;
    } catch (problem) {
      if (mine !== asked) return;
      preview = null;
      problems[fieldOf(problem.field)] = problem.message;
    }
    app.redraw();
  };

  const save = async (event) => {
    event.preventDefault();
    const body = change();
    if (busy || Object.keys(problems).length || !Object.keys(body).length) return app.redraw();
    busy = true;
    app.redraw();
    try {
      await store(body, Object.keys(typed).map((field) => [field, shown(row, field)]));
      await saved(); // what is typed stays until the page has what is stored
      clear();
      app.say(`Queue ${name} is changed.`);
    } catch (problem) {
      problems[fieldOf(problem.field)] = [problem.message, problem.next].filter(Boolean).join(" ");
    }
    busy = false;
    app.redraw();
  };

  /** Its status changes with every job: only what was edited here must be as it was. */
  const store = async (body, before, left = 3) => {
    try {
      return await send("PATCH", ["queues", name], { ...body, resourceVersion: row.resourceVersion });
    } catch (problem) {
      if (problem.status !== 409 || !left) throw problem;
      const now = await get(["queues", name]);
      const other = before.find(([field, text]) => shown(now, field) !== text);
      if (other) throw new Problem(409, { field: other[0], message: `Somebody has changed it from ${other[1]} to ${shown(now, other[0])} meanwhile.` });
      row = now;
      return store(body, before, left - 1);
    }
  };

  const turn = async (state) => {
    try {
      await send("PATCH", ["queues", name], { state });
      saved();
      app.say(state === "Paused" ? `Queue ${name} starts nothing new.` : `Queue ${name} starts jobs again.`);
    } catch (problem) {
      app.say(problem.message);
    }
  };

  const field = (key, label, hint) => h("label", { class: `field${key in typed ? " typed" : ""}`, key }, h("span", {}, label),
    h("input", {
      name: key, value: key in typed ? typed[key] : shown(row, key), disabled: !row.mayEdit, inputmode: "decimal", autocomplete: "off",
      "aria-invalid": String(key in problems), title: hint, oninput: (e) => type(key, e.target.value),
      onkeydown: (e) => e.key === "Escape" && (clear(), app.redraw()),
    }),
    problems[key] && h("span", { class: "field-problem", role: "alert" }, problems[key]));

  return {
    leave: () => clearTimeout(timer),
    render(now, all) {
      row = now;
      const dirty = Object.keys(typed).length > 0;
      return h("form", { onsubmit: save, novalidate: true },
        h("div", { class: "fields" }, AMOUNTS.map((a) => field(...a)), field("priority", "Priority", "higher goes first when GPUs are shared out")),
        problems[""] && h("p", { class: "field-problem", role: "alert" }, problems[""]),
        dirty && preview && effects(preview, name, all),
        row.mayEdit && h("div", { class: "row buttons" },
          h("button", { class: "primary", disabled: !dirty || busy || Object.keys(problems).length > 0 || (preview && !preview.valid) }, busy ? "Saving…" : "Save"),
          dirty && h("button", { type: "button", class: "second", onclick: () => (clear(), app.redraw()) }, "Undo"),
          h("span", { class: "grow" }),
          now.state === "Active"
            ? h("button", { type: "button", class: "second", title: "Starts nothing new; what runs goes on.", onclick: () => turn("Paused") }, "Pause")
            : h("button", { type: "button", class: "second", onclick: () => turn("Active") }, "Resume")));
    },
  };
}

const shown = (row, field) => {
  const value = field === "priority" ? row.priority : row.gpu[field];
  return value === UNLIMITED ? "unlimited" : String(value);
};

function read(text) {
  const word = text.trim().toLowerCase();
  if (["unlimited", "none", "-1"].includes(word)) return UNLIMITED;
  return word === "" ? NaN : Number(word);
}

/** The last part of `gpu.limit`; "" for what belongs to no field. */
const fieldOf = (path) => {
  const last = (path || "").split(".").at(-1);
  return [...AMOUNTS.map(([key]) => key), "priority"].includes(last) ? last : "";
};

/** Fair shares before and after, for every queue that changes and the one that is edited. */
function effects(preview, name, all) {
  const depth = Object.fromEntries(all.map((q) => [q.name, q.depth]));
  const differs = ({ gpu }) => Math.abs((gpu.after.fairShare ?? 0) - (gpu.before.fairShare ?? 0)) > 0.005;
  const rows = preview.queues.filter((q) => q.name === name || differs(q));
  const scale = Math.max(1, ...rows.flatMap((q) => [q.gpu.before.fairShare || 0, q.gpu.after.fairShare || 0, q.gpu.after.allocated || 0]));
  return h("div", { class: "preview", "aria-live": "polite" },
    h("h3", {}, "Fair shares after this change"),
    h("ul", {}, rows.map((q) => {
      const { before, after } = q.gpu;
      const by = (after.fairShare || 0) - (before.fairShare || 0);
      const at = (v) => `${(100 * (v || 0)) / scale}%`;
      return h("li", { key: q.name, "data-queue": q.name, class: q.name === name ? "self" : "" },
        h("span", { class: "q", style: { "padding-left": `${(depth[q.name] || 0) * 10}px` } }, dot(queueColour(q.name)), h("span", {}, q.name)),
        h("div", { class: "change", style: { "--c": queueColour(q.name) } },
          h("i", { class: "after", style: { width: at(after.fairShare) } }), h("i", { class: "before", style: { left: at(before.fairShare) } }),
          h("i", { class: "held", style: { left: at(after.allocated) }, title: `holds ${number(after.allocated)} now` })),
        h("span", { class: "num" }, `${number(before.fairShare)} → `, h("b", {}, number(after.fairShare))),
        h("span", { class: `num by ${by > 0 ? "up" : by < 0 ? "down" : ""}` }, Math.abs(by) < 0.005 ? "same" : `${by > 0 ? "+" : "−"}${number(Math.abs(by))}`));
    })),
    preview.effects.map((text) => h("p", { class: "effect" }, text)));
}
