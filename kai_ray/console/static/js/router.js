// Deep links live in the fragment, so that any server path or proxy prefix will do.

let chosen = "";
/** The cluster that is looked at; "" is the one that serves this page. */
export const context = () => chosen;

/** {path: ["jobs", "ns", …], query: {…}} of the address. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const found = Object.fromEntries(new URLSearchParams(query || ""));
  chosen = found.context || "";
  delete found.context;
  return { path: path.split("/").filter(Boolean).map(decode), query: found };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed a lone %
  }
}

/** The fragment for a place in the chosen cluster. Empty values of `query` are left out. */
export function link(path, query = {}, cluster = chosen) {
  const all = { ...query, context: cluster };
  const kept = Object.entries(all).filter(([, v]) => v !== "" && v !== undefined && v !== null);
  const text = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path, query) {
  location.hash = link(path, query);
}

/** Changes the query of the present place without a step in the history. */
export function refine(changes) {
  const here = place();
  history.replaceState(history.state, "", link(here.path, { ...here.query, ...changes }));
  dispatchEvent(new Event("kai:refined"));
}

export const jobLink = (job) => link(["jobs", job.namespace, job.kind, job.name]);
export const queueLink = (name) => link(["queues", name]);
export const nodeLink = (name) => link(["nodes", name]);
