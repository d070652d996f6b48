// Data of a page: loaded once, again when the server says that it changed, never twice at a time.

const PAUSE_MS = 800; // between the end of one load and the next

/** `load(signal)` returns data. `topics`: which news make it load again. `data` stays what it was
 *  while a load fails; `problem` says how it failed. */
export function source(app, topics, load) {
  let control = null;
  let again = false;
  let timer = null;
  const it = {
    data: null, problem: null, loading: false, topics,
    async refresh() {
      if (it.loading) {
        again = true;
        return;
      }
      clearTimeout(timer);
      timer = null;
      it.loading = true;
      control = new AbortController();
      const mine = control;
      try {
        const data = await load(mine.signal);
        if (mine.signal.aborted) return;
        const same = data === it.data && !it.problem;
        it.data = data;
        it.problem = null;
        if (!same) app.redraw();
      } catch (problem) {
        if (mine.signal.aborted || problem.name === "AbortError") return;
        it.problem = problem;
        app.failed(problem);
        app.redraw();
      }
      it.loading = false;
      if (again) {
        again = false;
        it.soon();
      }
    },
    soon() {
      if (!timer) timer = setTimeout(it.refresh, PAUSE_MS);
    },
    /** Another question: what is under way is not waited for. */
    restart() {
      it.stop();
      it.loading = false;
      again = false;
      return it.refresh();
    },
    stop() {
      clearTimeout(timer);
      timer = null;
      if (control) control.abort();
    },
  };
  app.sources.add(it);
  it.refresh();
  return it;
}
