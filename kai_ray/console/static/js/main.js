// Starts the console: who is asking, where we are, what changed; draws at most once a frame.

import { Problem, forget, get, keepToken, takeToken, tokenKept } from "./api.js";
import { h, onFrame, render } from "./dom.js";
import * as keys from "./keys.js";
import { listen } from "./live.js";
import { context, go, place } from "./router.js";
import { openFinder } from "./finder.js";
import { PAGES, help, pageKey, shell, signIn, turnTheme } from "./shell.js";

const app = {
  session: null,
  sources: new Set(),
  live: "offline",
  news: [], // the last events about jobs, newest first
  state: null, // what the stream said last of the cluster itself
  page: null,
  visit: 0,
  problem: null,
  redraw: null,
  notice: "",

  /** What any load failed with; 401 leads to the sign-in form. */
  failed(problem) {
    if (problem.status === 401) {
      app.session = { ...app.session, signedIn: false };
      stream?.stop();
      app.redraw();
    }
  },
  /** A sentence that goes away by itself. */
  say(text) {
    app.notice = text;
    clearTimeout(app.noticeTimer);
    app.noticeTimer = setTimeout(() => ((app.notice = ""), app.redraw()), 6000);
    app.redraw();
  },
  async signIn(token) {
    keepToken(token);
    app.session = { ...app.session, signedIn: false };
    await begin();
    return app.session.signedIn;
  },
  signOut() {
    keepToken("");
    begin();
  },
};

let stream = null;
let shown = null; // which page with which argument is on screen
let cluster = "";

app.redraw = onFrame(() => {
  const body = !app.session ? splash() : app.session.signedIn ? shell(app) : signIn(app);
  render(document.body, body);
});

function splash() {
  const said = app.problem ? app.problem.message : "";
  return h("div", { class: "splash", key: "splash" }, said && h("p", { class: "banner bad" }, said));
}

async function begin() {
  if (!app.session && tokenKept()) start({ signedIn: true, contexts: [], home: "" }); // till we know
  try {
    const session = await get(["session"]);
    app.problem = null;
    start(session);
  } catch (problem) {
    app.problem = problem instanceof Problem ? problem : new Problem(0);
    setTimeout(begin, 3000);
    app.redraw();
    return;
  }
}

/** Shows what this session may see. */
function start(session) {
  const before = app.session;
  app.session = session;
  if (session.signedIn && !before?.signedIn) {
    shown = null;
    follow();
    route();
  } else if (!session.signedIn) stream?.stop();
  app.redraw();
}

function follow() {
  stream?.stop();
  stream = listen(heard, (word) => {
    app.live = word;
    app.redraw();
  });
}

function heard(event, data) {
  if (event === "changed") {
    for (const it of app.sources) if (it.topics.some((t) => data.topics.includes(t))) it.soon();
  } else if (event === "job") {
    app.news = [data, ...app.news].slice(0, 60);
    app.redraw();
  } else if (event === "state") {
    app.state = data;
    app.redraw();
  }
  app.page?.heard?.(event, data);
}

async function route() {
  if (/^#token=/.test(location.hash)) {
    takeToken(); // a new link was opened over the old page
    app.session = null;
    return begin();
  }
  const { path, query } = place();
  if (cluster !== context()) {
    cluster = context();
    forget();
    app.news = [];
    app.state = null;
    if (stream) follow();
  }
  const name = PAGES[path[0]] ? path[0] : path.length ? "missing" : "overview";
  const key = `${cluster}|${pageKey(name, path)}`;
  if (shown === key) {
    app.page?.enter?.(path.slice(1), query);
    app.redraw();
    return;
  }
  shown = key;
  const { page } = await PAGES[name].load();
  if (shown !== key) return; // somebody was quicker
  for (const it of app.sources) it.stop();
  app.sources.clear();
  keys.clearPage();
  app.page?.leave?.();
  app.name = name;
  app.visit += 1; // its elements are its own: nothing of the page before is used again
  app.page = page(app, path.slice(1), query);
  document.title = `${app.page.title} · kai-ray`;
  app.redraw();
  requestAnimationFrame(() => document.querySelector("main")?.scrollTo(0, 0));
}

addEventListener("hashchange", route);
addEventListener("kai:refined", () => {
  const { path, query } = place();
  app.page?.enter?.(path.slice(1), query);
  app.redraw();
});
setInterval(() => !document.hidden && app.redraw(), 5000); // ages grow
setInterval(askAgain, 10000);

/** Clusters go and come back. */
async function askAgain() {
  if (document.hidden || !app.session?.signedIn) return;
  try {
    start(await get(["session"]));
  } catch { /* the stream says that nobody answers */ }
}

keys.start();
keys.bind("?", "this list", help, "app");
keys.bind("Ctrl K", "find a job, queue or node", () => false, "app"); // named here, heard below
keys.bind("t", "light, dark or as the system has it", () => turnTheme(app), "app");
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "k" || !app.session?.signedIn) return;
  event.preventDefault();
  openFinder();
});
for (const [name, { key, title }] of Object.entries(PAGES)) {
  if (key) keys.bind(`g ${key}`, `go to ${title.toLowerCase()}`, () => go(name === "overview" ? [] : [name]), "app");
}
takeToken();
begin();
