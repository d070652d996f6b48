// Rows of the jobs that match, fetched in blocks as they come into view and kept while they hold.

import { get } from "../api.js";
import { source } from "../source.js";

const BLOCK = 200;
const KEPT = 12; // blocks

export function jobRows(app, filter) {
  let blocks = new Map(); // number -> jobs
  let view = [0, 0]; // blocks that the lines in view are of
  const rows = {
    matched: 0, total: 0, facets: null,
    row: (i) => blocks.get(Math.floor(i / BLOCK))?.[i % BLOCK] || null,
    /** Lines first to last are in view. */
    range(first, last) {
      view = [Math.floor(first / BLOCK), Math.floor(Math.max(first, last - 1) / BLOCK)];
      if (!blocks.has(view[0]) || !blocks.has(view[1])) missing.ask();
    },
    /** Another filter or order: nothing that was fetched holds any more. */
    restart() {
      view = [0, 0];
      blocks = new Map();
      return first.restart();
    },
    get problem() {
      return first.problem;
    },
    get ready() {
      return first.data !== null;
    },
  };

  const fetchBlock = async (number, signal) => {
    const asked = { ...filter(), offset: number * BLOCK, limit: BLOCK };
    const answer = await get(["jobs"], asked, signal);
    rows.matched = answer.matched;
    rows.total = answer.total;
    rows.facets = answer.facets;
    return answer;
  };

  // What is in view is asked for again when jobs change; the other blocks are then forgotten.
  const first = source(app, ["jobs"], async (signal) => {
    const [low, high] = view;
    const wanted = low === high ? [low] : [low, high];
    const answers = await Promise.all(wanted.map((n) => fetchBlock(n, signal)));
    const same = wanted.every((n, i) => blocks.get(n) === answers[i].jobs);
    if (same) return first.data;
    blocks = new Map(wanted.map((n, i) => [n, answers[i].jobs]));
    return { at: answers[0].at };
  });

  const missing = {
    busy: false,
    async ask() {
      if (missing.busy || first.loading) return;
      missing.busy = true;
      try {
        // Where the view is now, not where it was when the scrolling began.
        for (let n; (n = [view[0], view[1]].find((b) => !blocks.has(b))) !== undefined;) {
          const mine = blocks;
          const answer = await fetchBlock(n);
          if (mine !== blocks) continue;
          blocks.set(n, answer.jobs);
          if (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
          app.redraw();
        }
      } catch (problem) {
        app.failed(problem);
      }
      missing.busy = false;
    },
  };
  return rows;
}
