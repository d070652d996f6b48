// The JSON API: the token, errors that say what to do, and answers that are kept while they hold.

import { serverTime } from "./format.js";
import { context } from "./router.js";

const TOKEN = "kai.token";
const kept = new Map(); // url -> {etag, data}; the newest at the end
const KEPT = 40;

/** What an API call answered instead of data. `status` 0: nobody answered. */
export class Problem extends Error {
  constructor(status, { reason = "", message = "", field = "", next = "" } = {}) {
    super(message || (status ? `The server answered ${status}.` : "The server cannot be reached."));
    Object.assign(this, { status, reason, field, next });
  }
}

/** Takes `#token=…` off the address, so that no copied link carries it. */
export function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  keepToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}#/`);
}

export function keepToken(token) {
  forget();
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export const tokenKept = () => !!sessionStorage.getItem(TOKEN);

export function forget() {
  kept.clear();
}

export function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

/** The address of an API path (a list of parts) in the chosen cluster. */
export function address(parts, query = {}) {
  const asked = { ...query };
  if (context()) asked.context = context();
  const filled = Object.entries(asked).filter(([, v]) => v !== "" && v !== undefined && v !== null);
  const text = new URLSearchParams(filled).toString();
  return `api/v1/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** The same object as last time while nothing has changed. */
export async function get(parts, query, signal) {
  const url = address(parts, query);
  const before = kept.get(url);
  const more = before ? { "If-None-Match": before.etag } : {};
  const answer = await ask(url, { headers: headers(more), signal });
  if (answer.status === 304 && before) return before.data;
  if (!answer.ok) throw await problem(answer);
  const json = (answer.headers.get("Content-Type") || "").includes("json");
  const data = json ? await answer.json() : await answer.text();
  if (json && data.at) serverTime(data.at);
  keep(url, answer.headers.get("ETag"), data);
  return data;
}

function keep(url, etag, data) {
  kept.delete(url);
  if (etag) kept.set(url, { etag, data });
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

/** Saves an answer as a file: a link could not carry the token. */
export async function save(app, parts, query, format) {
  try {
    const text = await get(parts, { ...query, format });
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([text]));
    a.download = `${parts.at(-1)}.${format}`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  } catch (problem) {
    app.say(problem.message);
  }
}

/** POST and PATCH. The extra header is what a foreign page cannot send. */
export async function send(method, parts, body) {
  const answer = await ask(address(parts), {
    method,
    headers: headers({ "Content-Type": "application/json", "X-Kai-Request": "1" }),
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw await problem(answer);
  return answer.json();
}

async function ask(url, options) {
  try {
    return await fetch(url, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0);
  }
}

async function problem(answer) {
  let said = {};
  try {
    said = (await answer.json()).error || {};
  } catch { /* a proxy's page: the status must do */ }
  return new Problem(answer.status, said);
}
