// Numbers, times and words as people read them.

export const UNLIMITED = -1;

/** At most two decimals, no trailing zeros; "unlimited" and "–" where there is no number. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === UNLIMITED) return "unlimited";
  const rounded = Math.abs(value) >= 100 ? Math.round(value * 10) / 10 : Math.round(value * 100) / 100;
  return rounded.toLocaleString("en", { maximumFractionDigits: 2 });
}

export function percent(part, digits = 0) {
  if (part === null || part === undefined || !Number.isFinite(part)) return "–";
  return `${(part * 100).toFixed(digits)}%`;
}

/** "42s", "3m 20s", "5h 12m", "3d 4h": the two largest units. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return join(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return join(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "m");
  return join(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

const join = (a, unit, b, smaller) => (b ? `${a}${unit} ${b}${smaller}` : `${a}${unit}`);

/** One unit, for columns: "42s", "3m", "5h", "3d". */
export function shortSpan(seconds) {
  return span(seconds).split(" ")[0];
}

/** Small times: "0.8 ms", "12 ms", "1.4 s". */
export function quick(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return `${seconds.toFixed(1)} s`;
}

/** Seconds since the epoch of a number or an RFC 3339 text; null where there is none. */
export function seconds(when) {
  if (when === null || when === undefined || when === "") return null;
  if (typeof when === "number") return when;
  const parsed = Date.parse(when) / 1000;
  return Number.isNaN(parsed) ? null : parsed;
}

let ahead = 0;
/** The server's clock counts: ages are right on a laptop whose clock is not. */
export function serverTime(at) {
  const there = seconds(at);
  if (there !== null) ahead = there - Date.now() / 1000;
}
export const now = () => Date.now() / 1000 + ahead;

export function age(when) {
  const at = seconds(when);
  return at === null ? "" : shortSpan(now() - at);
}

export function clock(when) {
  const at = seconds(when);
  if (at === null) return "";
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

export function moment(when) {
  const at = seconds(when);
  if (at === null) return "";
  const date = new Date(at * 1000);
  const day = date.toLocaleDateString("en-CA");
  return `${day} ${date.toLocaleTimeString("en-GB")}`;
}

/** The time for axes and feeds: without the day where that is today. */
export function when(at) {
  const s = seconds(at);
  if (s === null) return "";
  return Math.abs(now() - s) < 86400 / 2 ? clock(s) : moment(s);
}

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function megabytes(amount) {
  if (amount === null || amount === undefined) return "–";
  if (amount === UNLIMITED) return "unlimited";
  for (const [unit, size] of [["TB", 1e6], ["GB", 1e3]]) {
    if (amount >= size) return `${number(amount / size)} ${unit}`;
  }
  return `${number(amount)} MB`;
}

/** "NVIDIA-H100-80GB-HBM3" without the maker. */
export const model = (name) => (name || "").replace(/^NVIDIA-/, "");

/** "WaitingForQuota" as words: "waiting for quota". */
export function words(name) {
  return (name || "").replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().replace(/\b(gpu|cpu|mig)\b/g, (w) => w.toUpperCase());
}
