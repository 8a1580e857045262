// Hooks for loading data and sending changes.
import { useCallback, useEffect, useRef, useState } from './dom.js';

// Loads data with `ask(signal)` whenever an entry of `about` changes. The previous data stays visible until the new
// data arrives. `ask` may return a function of the current data.
export function useLoad(ask, about) {
  const [state, setState] = useState({ data: undefined, error: null, loading: true });
  const [requestCount, setRequestCount] = useState(0);
  const latest = useRef(null);
  latest.current = ask;
  const isLoading = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    const finish = (change) => {
      if (abort.signal.aborted) return;
      isLoading.current = false;
      setState((before) => ({ ...before, loading: false, ...change(before) }));
    };
    isLoading.current = true;
    setState((before) => ({ ...before, loading: true }));
    latest.current(abort.signal).then(
      (data) => finish((before) => ({ data: typeof data === 'function' ? data(before.data) : data, error: null })),
      (error) => finish(() => ({ error })),
    );
    return () => abort.abort();
  }, [...about, requestCount]);
  const reload = useCallback(() => setRequestCount((requestCount) => requestCount + 1), []);
  // Reloads unless a request is in flight. Aborting it would starve a service that responds more slowly than the refresh interval.
  const refresh = useCallback(() => { if (!isLoading.current) reload(); }, []);
  const replace = useCallback((data) => setState({ data, error: null, loading: false }), []);
  const change = useCallback((update) => setState((before) => ({ ...before, data: update(before.data) })), []);
  return { ...state, reload, refresh, replace, change };
}

// Promise that `ask` returns while something that it needs is unknown: nothing is loaded until `about` changes.
export const never = new Promise(() => {});

// Returns `loaded`, but without its data until all `parts` have arrived or failed once. A page that appears as a whole
// does not move while it loads.
export function useComplete(loaded, parts) {
  const isComplete = useRef(false);
  if (loaded.data !== undefined && parts.every(({ data, error }) => data !== undefined || error)) isComplete.current = true;
  return isComplete.current ? loaded : { ...loaded, data: undefined };
}

// Loads a paged list. `ask({ next, shown, signal })` returns a page with `entries` and, if there are more, `next`;
// `shown` is the list so far. When the first page is refreshed, `join(shown, fresh)` merges it into the list.
export function usePagedList(ask, about, join = (shown, fresh) => fresh) {
  const key = JSON.stringify(about);
  const latest = useRef(undefined);
  const list = useLoad(async (signal) => {
    const fresh = await ask({ shown: latest.current?.key === key ? latest.current : undefined, signal });
    return (shown) => ({ ...(shown?.key === key ? join(shown, fresh) : fresh), key });
  }, [key]);
  latest.current = list.data;
  const [loadingMore, setLoadingMore] = useState({ busy: false, problem: null });
  // Signal that aborts when the filter changes.
  const filterSignal = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    filterSignal.current = abort.signal;
    setLoadingMore({ busy: false, problem: null });
    return () => abort.abort();
  }, [key]);
  // Until the new response arrives, the visible data belongs to the previous filter.
  const isCurrent = list.data?.key === key;
  const next = isCurrent ? list.data.next : undefined;
  const loadMore = async () => {
    if (loadingMore.busy || next === undefined) return;
    const signal = filterSignal.current;
    setLoadingMore({ busy: true, problem: null });
    const { more, problem = null } = await ask({ next, signal }).then((more) => ({ more }), (problem) => ({ problem }));
    if (signal.aborted) return;
    setLoadingMore({ busy: false, problem });
    if (more) list.change((shown) => (shown.next === next ? { ...shown, entries: [...shown.entries, ...more.entries], next: more.next } : shown));
  };
  return { ...list, ...loadingMore, isCurrent, next, loadMore };
}

// Merges the refreshed first page into a list of tasks. Without an overlap, entries in between could be missing, so the list
// starts over.
export function mergePages(shown, fresh) {
  const oldest = shown.entries.findIndex((task) => task.task_id === fresh.entries.at(-1)?.task_id);
  if (oldest < 0 || oldest === shown.entries.length - 1) return fresh;
  return { ...shown, entries: [...fresh.entries, ...shown.entries.slice(oldest + 1)] };
}

// Runs one change at a time and keeps its error for display.
export function useMutation() {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = useCallback(async (work) => {
    setState({ busy: true, problem: null });
    try {
      const done = await work();
      setState({ busy: false, problem: null });
      return { done };
    } catch (problem) {
      setState({ busy: false, problem });
      return { problem };
    }
  }, []);
  // Drops the errors of fields that have changed since, according to `isChanged(pointer)`.
  const drop = useCallback((isChanged) => setState((before) => (before.problem?.without ? { ...before, problem: before.problem.without(isChanged) } : before)), []);
  return { ...state, run, drop, clear: useCallback(() => setState({ busy: false, problem: null }), []) };
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
