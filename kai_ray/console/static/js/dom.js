// Trees of plain values become elements; what is on screen changes only where the trees differ.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open"]);

/** A node. Props: attributes, `on…` handlers, `style` as an object, `key` among siblings,
 *  `memo` (an array: when its entries are those of last time the node is left alone),
 *  `mount(el)`, `update(el)`, `unmount(el)`. */
export function h(tag, props, ...kids) {
  props ||= {};
  return { tag, props, key: props.key, kids: flatten(kids, []), el: null };
}

function flatten(kids, out) {
  for (const kid of kids) {
    if (Array.isArray(kid)) flatten(kid, out);
    else if (kid === null || kid === undefined || kid === false || kid === true) continue;
    else if (typeof kid === "object") out.push(kid);
    else out.push({ tag: "", text: String(kid), key: undefined, props: {}, kids: [], el: null });
  }
  return out;
}

const mounted = [];

/** Makes `parent` contain `kids`. */
export function render(parent, ...kids) {
  const next = flatten(kids, []);
  children(parent, parent.kaiKids || [], next, parent.namespaceURI === SVG ? SVG : null);
  parent.kaiKids = next;
  while (mounted.length) {
    const [mount, el] = mounted.pop();
    mount(el);
  }
}

function children(parent, before, after, ns) {
  const keyed = new Map();
  const loose = [];
  for (const kid of before) (kid.key === undefined ? loose.push(kid) : keyed.set(kid.key, kid));
  let at = 0;
  const pairs = after.map((kid) => {
    if (kid.key !== undefined) {
      const found = keyed.get(kid.key);
      if (found && found.tag === kid.tag) keyed.delete(kid.key);
      return found && found.tag === kid.tag ? found : null;
    }
    for (let i = at; i < loose.length; i++) {
      if (loose[i] && loose[i].tag === kid.tag) {
        const found = loose[i];
        loose[i] = null;
        at = i + 1;
        return found;
      }
    }
    return null;
  });
  for (const kid of keyed.values()) remove(kid);
  for (const kid of loose) if (kid) remove(kid);
  after.forEach((kid, i) => {
    if (pairs[i]) patch(pairs[i], kid, ns);
    else create(kid, ns);
    const there = parent.childNodes[i];
    if (there !== kid.el) parent.insertBefore(kid.el, there || null);
  });
}

function create(node, ns) {
  if (node.tag === "") {
    node.el = document.createTextNode(node.text);
    return;
  }
  const space = node.tag === "svg" ? SVG : ns;
  const el = space ? document.createElementNS(space, node.tag) : document.createElement(node.tag);
  node.el = el;
  for (const name in node.props) set(el, name, undefined, node.props[name]);
  children(el, [], node.kids, space);
  if (node.tag === "select" && "value" in node.props) el.value = node.props.value;
  if (node.props.mount) mounted.push([node.props.mount, el]);
}

function patch(before, node, ns) {
  if (before === node) return; // a node that was kept
  const el = (node.el = before.el);
  if (node.tag === "") {
    if (before.text !== node.text) el.data = node.text;
    return;
  }
  const memo = node.props.memo;
  if (memo && before.props.memo && memo.every((value, i) => value === before.props.memo[i])) {
    node.kids = before.kids;
    node.props = before.props;
    return;
  }
  for (const name in before.props) {
    if (!(name in node.props)) set(el, name, before.props[name], undefined);
  }
  for (const name in node.props) set(el, name, before.props[name], node.props[name]);
  children(el, before.kids, node.kids, node.tag === "svg" ? SVG : ns);
  if (node.tag === "select" && "value" in node.props) el.value = node.props.value;
  if (node.props.update) node.props.update(el);
}

function remove(node) {
  gone(node);
  node.el.remove();
}

function gone(node) {
  for (const kid of node.kids) gone(kid);
  if (node.props.unmount) node.props.unmount(node.el);
}

function set(el, name, before, value) {
  if (name === "key" || name === "memo" || name.endsWith("mount") || name === "update") return;
  if (name === "style") return style(el, before, value);
  if (name.startsWith("on")) {
    // A handler that returns false would undo the event: `a && b` must not.
    el[name.toLowerCase()] = value ? (event) => void value(event) : null;
    return;
  }
  if (PROPERTIES.has(name) && name in el && el.tagName !== "OPTION") {
    const next = value ?? (typeof el[name] === "boolean" ? false : "");
    if (el[name] !== next) el[name] = next;
    return;
  }
  if (before === value) return;
  if (value === undefined || value === null || value === false) el.removeAttribute(name);
  else el.setAttribute(name, value === true ? "" : value);
}

function style(el, before = {}, value = {}) {
  for (const name in before) if (!(name in value)) el.style.removeProperty(name);
  for (const name in value) {
    if (before[name] !== value[name]) el.style.setProperty(name, value[name]);
  }
}

/** Collects calls and runs `work` once, before the next frame. */
export function onFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
