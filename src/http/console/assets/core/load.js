// Hooks for loading data and sending changes.
import { useCallback, useEffect, useRef, useState } from './dom.js';

// `Loads data with `ask(signal)` whenever an entry of `about` changes. The previous data stays visible until the
// new data arrives. `ask` may return a function of the current data.
export function useLoad(ask, about) {
  const [state, set] = useState({ data: undefined, error: null, loading: true });
  const [requestCount, next] = useState(0);
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
  }, [...about, requestCount]);
  const reload = useCallback(() => next((requestCount) => requestCount + 1), []);
  // Reloads unless a request is in flight. Aborting it would starve a service that responds more slowly than the refresh interval.
  const refresh = useCallback(() => { if (!asking.current) reload(); }, []);
  const replace = useCallback((data) => set({ data, error: null, loading: false }), []);
  const change = useCallback((how) => set((before) => ({ ...before, data: how(before.data) })), []);
  return { ...state, reload, refresh, replace, change };
}

// What `ask` returns while it lacks something: nothing is loaded until `about` changes.
export const never = new Promise(() => {});

// Returns what was loaded, without its data until all `parts` have arrived or failed once. A page that is drawn in one
// go does not move.
export function useComplete(loaded, parts) {
  const isComplete = useRef(false);
  if (loaded.data !== undefined && parts.every(({ data, error }) => data !== undefined || error)) isComplete.current = true;
  return isComplete.current ? loaded : { ...loaded, data: undefined };
}

// Loads a paged list. `ask({ next, there, signal })` returns a page with `entries` and, if there are more, `next`.
// When the first page is refreshed, `join(there, fresh)` merges it into the list.
export function usePagedList(ask, about, join = (there, fresh) => fresh) {
  const key = JSON.stringify(about);
  const of = useRef(undefined);
  const list = useLoad(async (signal) => {
    const fresh = await ask({ there: of.current?.key === key ? of.current : undefined, signal });
    return (there) => ({ ...(there?.key === key ? join(there, fresh) : fresh), key });
  }, [key]);
  of.current = list.data;
  const [loadingMore, set] = useState({ busy: false, problem: null });
  const ending = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    ending.current = abort.signal;
    set({ busy: false, problem: null });
    return () => abort.abort();
  }, [key]);
  // Until the new response arrives, the visible data belongs to the previous filter.
  const isCurrent = list.data?.key === key;
  const next = isCurrent ? list.data.next : undefined;
  const loadMore = async () => {
    if (loadingMore.busy || next === undefined) return;
    const signal = ending.current;
    set({ busy: true, problem: null });
    const { more, problem = null } = await ask({ next, signal }).then((more) => ({ more }), (problem) => ({ problem }));
    if (signal.aborted) return;
    set({ busy: false, problem });
    if (more) list.change((there) => (there.next === next ? { ...there, entries: [...there.entries, ...more.entries], next: more.next } : there));
  };
  return { ...list, ...loadingMore, isCurrent, next, loadMore };
}

// Merges the refreshed first page into the list. Without an overlap, entries in between could be missing, so the list
// starts over.
export function mergePages(there, fresh) {
  const oldest = there.entries.findIndex((task) => task.task_id === fresh.entries.at(-1)?.task_id);
  if (oldest < 0 || oldest === there.entries.length - 1) return fresh;
  return { ...there, entries: [...fresh.entries, ...there.entries.slice(oldest + 1)] };
}

// Runs one change at a time and keeps its error for display.
export function useMutation() {
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
  // Drops the errors of fields that changed since: those whose pointer `isChanged`.
  const drop = useCallback((isChanged) => set((before) => (before.problem?.without ? { ...before, problem: before.problem.without(isChanged) } : before)), []);
  return { ...state, run, drop, clear: useCallback(() => set({ busy: false, problem: null }), []) };
}

// Calls `work` periodically while the page is visible.
export function useInterval(ms, work) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    if (!ms) return undefined;
    const timer = setInterval(() => { if (!document.hidden) latest.current(); }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
