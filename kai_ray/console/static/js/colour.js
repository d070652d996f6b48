// A colour for each queue that stays its own, and colours as a canvas wants them.

const HUES = [262, 160, 45, 330, 200, 95, 20, 290, 230, 130, 70, 0];
const given = new Map();

/** Queues get their colours in the order of the tree, so that neighbours differ. */
export function assign(names) {
  for (const name of names) if (!given.has(name)) given.set(name, given.size);
}

/** A CSS colour for a queue, right on light and dark ground. */
export function queueColour(name) {
  if (!name) return "var(--faint)";
  assign([name]);
  const at = given.get(name);
  const hue = HUES[at % HUES.length];
  const turn = Math.floor(at / HUES.length) % 3;
  const [light, dark] = [[58, 70], [45, 82], [70, 58]][turn];
  return `light-dark(oklch(${light}% 0.145 ${hue}), oklch(${dark}% 0.125 ${hue}))`;
}

let probe = null;
/** What a CSS colour (variables and themes in it) is now, as `rgb(…)` or the like. */
export function resolved(colour) {
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = colour;
  return getComputedStyle(probe).color;
}

/** State words of jobs, nodes, queues and gangs, as the tone of a badge. */
export function tone(state) {
  return TONES[(state || "").split(",").at(-1)] || "idle";
}

const TONES = {
  Running: "good", Ready: "good", Active: "good", ok: "good", Succeeded: "done", Bound: "good",
  Starting: "info", Growing: "info", Pending: "wait", starting: "info",
  Waiting: "wait", Paused: "wait", Draining: "wait", Cordoned: "wait",
  Failed: "bad", NotReady: "bad", BadDevice: "bad", Quarantined: "bad", down: "bad",
  Evicted: "gone", Drained: "idle", Suspended: "idle",
};
