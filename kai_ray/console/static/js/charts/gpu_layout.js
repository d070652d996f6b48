// Where each GPU's square stands: racks as panels, nodes as strips in them, gaps between links.

const PAD = 9; // inside a panel
const SPACE = 10; // between panels
const TITLE = 20;
const LARGEST = 40;
const SMALLEST = 6;

/** {cell, gap, label, panels: [{title, x, y, w, h, more}], strips: [{node, x, y, w, h}], width, height}.
 *  `groups`: [{title, nodes}]. The squares are as large as fit into width x height, within reason. */
export function layout(groups, width, height) {
  let low = SMALLEST;
  let high = LARGEST;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const tried = arrange(groups, width, height, middle);
    if (tried.height <= height && tried.fits) low = middle;
    else high = middle - 1;
  }
  return arrange(groups, width, height, low);
}

/** x of GPU `i` in its strip. */
export function cellX(strip, i, cell, gap) {
  return strip.x + i * (cell + gap) + strip.breaks[i] * (gap + 2);
}

function arrange(groups, width, height, cell) {
  const gap = cell >= 20 ? 4 : cell >= 12 ? 2 : 1;
  const label = cell >= 11 ? (cell >= 18 ? 13 : 11) : 0; // names of nodes only where they can be read
  const lineHeight = cell + (label ? label + 8 : Math.max(2, gap));
  const panels = [];
  const strips = [];
  let [x, y, shelf] = [0, 0, 0];
  let fits = true;
  for (const group of groups) {
    const wide = Math.max(...group.nodes.map((n) => stripWidth(n, cell, gap)), 60);
    const pitch = wide + (cell >= 12 ? 16 : 8);
    const most = Math.max(1, Math.floor((width - 2 * PAD + pitch - wide) / pitch));
    const alone = groups.length === 1;
    const across = Math.min(group.nodes.length, most, alone ? Math.max(1, Math.ceil(group.nodes.length / Math.max(4, Math.floor(height / lineHeight) - 2))) : Math.max(1, Math.ceil(group.nodes.length / 20)));
    const down = Math.ceil(group.nodes.length / across);
    const w = Math.min(width, across * pitch - (pitch - wide) + 2 * PAD);
    const h = TITLE + down * lineHeight + PAD + 2;
    if (wide + 2 * PAD > width) fits = false;
    if (x && x + w > width) [x, y, shelf] = [0, y + shelf + SPACE, 0];
    panels.push({ title: group.title, note: group.note, x, y, w, h });
    group.nodes.forEach((node, i) => {
      const [column, line] = alone ? [i % across, Math.floor(i / across)] : [Math.floor(i / down), i % down];
      strips.push({ node, breaks: breaks(node), x: x + PAD + column * pitch, y: y + TITLE + 4 + line * lineHeight, w: stripWidth(node, cell, gap), h: cell });
    });
    x += w + SPACE;
    shelf = Math.max(shelf, h);
  }
  return { cell, gap, label, panels, strips, width, height: y + shelf, fits };
}

function stripWidth(node, cell, gap) {
  const count = Math.max(1, node.cards.length);
  return count * (cell + gap) - gap + (breaks(node)[count - 1] || 0) * (gap + 2);
}

/** How many borders of link domains lie to the left of each GPU. */
function breaks(node) {
  if (node.kaiBreaks) return node.kaiBreaks;
  const of = new Map(node.domains.flatMap((members, d) => members.map((i) => [i, d])));
  let count = 0;
  node.kaiBreaks = node.cards.map((_, i) => {
    if (i && node.domains.length > 1 && of.get(i) !== of.get(i - 1)) count += 1;
    return count;
  });
  return node.kaiBreaks;
}
