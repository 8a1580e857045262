// What a page shows comes from somewhere: while it comes, when it came, when it did not.
import { useCallback, useEffect, useRef, useState } from './dom.js';

// `ask(signal)` is asked again when one of `about` changes. What was there before stays until the new is, so that nothing jumps.
// It may give a function of what is there by then.
export function useLoad(ask, about) {
  const [state, set] = useState({ data: undefined, error: null, loading: true });
  const [turn, next] = useState(0);
  const latest = useRef(null);
  latest.current = ask;
  const asking = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    const over = (change) => {
      if (abort.signal.aborted) return;
      asking.current = false;
      set((before) => ({ ...before, loading: false, ...change(before) }));
    };
    asking.current = true;
    set((before) => ({ ...before, loading: true }));
    latest.current(abort.signal).then(
      (data) => over((before) => ({ data: typeof data === 'function' ? data(before.data) : data, error: null })),
      (error) => over(() => ({ error })),
    );
    return () => abort.abort();
  }, [...about, turn]);
  const reload = useCallback(() => next((turn) => turn + 1), []);
  // Looks again, but never gives up a question that is under way: whoever answers slower than one asks would never be heard.
  const refresh = useCallback(() => { if (!asking.current) reload(); }, []);
  const replace = useCallback((data) => set({ data, error: null, loading: false }), []);
  const change = useCallback((how) => set((before) => ({ ...before, data: how(before.data) })), []);
  return { ...state, reload, refresh, replace, change };
}

// A list that comes in parts: `ask({ next, there, signal })` gives one, with its `entries` and with `next` where there are more.
// When the first is looked at again, `join(there, fresh)` says what the list is then.
export function useParts(ask, about, join = (there, fresh) => fresh) {
  const key = JSON.stringify(about);
  const of = useRef(undefined);
  const list = useLoad(async (signal) => {
    const fresh = await ask({ there: of.current?.key === key ? of.current : undefined, signal });
    return (there) => ({ ...(there?.key === key ? join(there, fresh) : fresh), key });
  }, [key]);
  of.current = list.data;
  const [going, set] = useState({ busy: false, problem: null });
  const ending = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    ending.current = abort.signal;
    set({ busy: false, problem: null });
    return () => abort.abort();
  }, [key]);
  // Until the answer to another question is here, what is shown belongs to the one before.
  const isCurrent = list.data?.key === key;
  const next = isCurrent ? list.data.next : undefined;
  const goOn = async () => {
    if (going.busy || next === undefined) return;
    const signal = ending.current;
    set({ busy: true, problem: null });
    const { more, problem = null } = await ask({ next, signal }).then((more) => ({ more }), (problem) => ({ problem }));
    if (signal.aborted) return;
    set({ busy: false, problem });
    if (more) list.change((there) => (there.next === next ? { ...there, entries: [...there.entries, ...more.entries], next: more.next } : there));
  };
  return { ...list, ...going, isCurrent, next, goOn };
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
