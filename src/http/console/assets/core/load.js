// What a page shows comes from somewhere: while it comes, when it came, when it did not.
import { useCallback, useEffect, useRef, useState } from './dom.js';

// `ask(signal)` is asked again when one of `about` changes. What was there before stays until the new is, so that nothing jumps.
export function useLoad(ask, about) {
  const [state, set] = useState({ data: undefined, error: null, loading: true });
  const [turn, next] = useState(0);
  const latest = useRef(null);
  latest.current = ask;
  useEffect(() => {
    const abort = new AbortController();
    set((before) => ({ ...before, loading: true }));
    latest.current(abort.signal).then(
      (data) => { if (!abort.signal.aborted) set({ data, error: null, loading: false }); },
      (error) => { if (!abort.signal.aborted) set((before) => ({ ...before, error, loading: false })); },
    );
    return () => abort.abort();
  }, [...about, turn]);
  const reload = useCallback(() => next((turn) => turn + 1), []);
  const replace = useCallback((data) => set({ data, error: null, loading: false }), []);
  return { ...state, reload, replace };
}

// Runs something that changes things: one at a time, its failure kept to be shown.
export function useWork() {
  const [state, set] = useState({ busy: false, problem: null });
  const run = useCallback(async (work) => {
    set({ busy: true, problem: null });
    try {
      const done = await work();
      set({ busy: false, problem: null });
      return { done };
    } catch (problem) {
      set({ busy: false, problem });
      return { problem };
    }
  }, []);
  return { ...state, run, clear: useCallback(() => set({ busy: false, problem: null }), []) };
}

// Does something again and again while the page is seen.
export function useEvery(ms, work) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    if (!ms) return undefined;
    const timer = setInterval(() => { if (!document.hidden) latest.current(); }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
