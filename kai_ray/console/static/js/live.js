// News from the server: a stream of events, and polling while that fails.

import { address, headers } from "./api.js";

const POLL_MS = 5000;
const SLOWEST_MS = 30000;
const SILENT_MS = 40000; // the server says something every 15 s
const EVERYTHING = ["overview", "queues", "nodes", "jobs", "decisions"];

/** Listens until `stop()`. `heard(event, data)` gets what the stream says; while there is no stream
 *  it gets `changed` with every topic now and then. `state(word)`: live, polling or offline. */
export function listen(heard, state) {
  let stopped = false;
  let failures = 0;
  let control = null;
  let waiting = null;
  let poll = null;

  const retry = () => {
    if (stopped || document.hidden) return;
    failures += 1;
    if (failures >= 3 && !poll) {
      state("polling");
      poll = setInterval(() => heard("changed", { topics: EVERYTHING }), POLL_MS);
    } else if (!poll) state("offline");
    waiting = setTimeout(open, Math.min(1000 * 2 ** (failures - 1), SLOWEST_MS));
  };

  const open = async () => {
    waiting = null;
    control = new AbortController();
    const mine = control;
    let watchdog = null;
    try {
      const answer = await fetch(address(["live"]), {
        headers: headers({ Accept: "text/event-stream" }), cache: "no-store", signal: mine.signal,
      });
      if (!answer.ok || !answer.body) throw new Error(`the stream answered ${answer.status}`);
      if (failures) heard("changed", { topics: EVERYTHING }); // what was missed meanwhile
      failures = 0;
      clearInterval(poll);
      poll = null;
      state("live");
      const alive = () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => mine.abort(), SILENT_MS);
      };
      alive();
      for await (const [event, data] of events(answer.body, alive)) heard(event, data);
    } catch { /* the same as an end */ } finally {
      clearTimeout(watchdog);
    }
    if (mine === control) retry();
  };

  const close = () => {
    clearTimeout(waiting);
    clearInterval(poll);
    waiting = poll = null;
    const mine = control;
    control = null;
    if (mine) mine.abort();
  };

  // A page that nobody sees costs the server nothing.
  const seen = () => {
    close();
    if (document.hidden || stopped) return;
    failures = Math.max(failures, 1); // what is on screen is old: ask for all of it
    open();
  };
  const lost = () => control?.abort(); // sooner than the silence would tell
  document.addEventListener("visibilitychange", seen);
  addEventListener("online", seen);
  addEventListener("offline", lost);
  if (!document.hidden) open();
  return {
    stop() {
      stopped = true;
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("online", seen);
      removeEventListener("offline", lost);
      close();
    },
  };
}

/** [event, data] of a text/event-stream. What is no JSON is skipped. */
async function* events(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text = (text + value).replace(/\r\n?/g, "\n");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const found = parse(text.slice(0, end));
      text = text.slice(end + 2);
      if (found) yield found;
    }
  }
}

function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trim());
  }
  try {
    return data.length ? [event, JSON.parse(data.join("\n"))] : null;
  } catch {
    return null;
  }
}
