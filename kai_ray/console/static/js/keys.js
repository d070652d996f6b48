// The keyboard: single keys, and "g" followed by a letter. Never while somebody types.

const bound = new Map(); // "j", "g o" -> {what, act}; a page's own are cleared when it goes
let first = "";
let timer = null;

export const shortcuts = () => [...bound].filter(([, b]) => b.what);

/** `where` is "page" or "app": a page's keys go with it. */
export function bind(keys, what, act, where = "page") {
  for (const [i, key] of [keys].flat().entries()) bound.set(key, { what: i ? "" : what, act, where });
}

export function clearPage() {
  for (const [key, { where }] of bound) if (where === "page") bound.delete(key);
}

export function typing(el) {
  return !!el && (el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName));
}

export function start() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const inText = typing(event.target);
    if (inText && event.key === "Escape") event.target.blur();
    if (inText || document.querySelector("dialog[open]")) return;
    const key = first ? `${first} ${event.key}` : event.key;
    first = "";
    clearTimeout(timer);
    const found = bound.get(key);
    if (found) {
      if (found.act(event) !== false) event.preventDefault();
      return;
    }
    if ([...bound.keys()].some((k) => k.startsWith(`${event.key} `))) {
      first = event.key;
      timer = setTimeout(() => (first = ""), 1200);
    }
  });
}
