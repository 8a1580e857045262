// A task as it goes on, live.
import { useEffect, useState } from '../core/dom.js';
import { at } from '../core/api.js';
import { follow } from '../core/sse.js';

export const isOver = (task) => ['COMPLETED', 'FAILED', 'success', 'failed'].includes(task?.state);

// What it cost in the end: of a task that failed, or was cancelled, everything is given back.
export const costInTheEnd = ({ state, cost }) => (['FAILED', 'failed'].includes(state) ? { cost: 0, back: cost } : { cost, back: 0 });

// The newest of the task that is known; `line` is 'live', 'lost' or 'over'.
export function useTask(id) {
  const [state, set] = useState({ task: null, line: 'live', problem: null });
  useEffect(() => {
    set({ task: null, line: 'live', problem: null });
    if (!id) return undefined;
    const abort = new AbortController();
    let latest = null;
    const merge = (changes) => { if (!abort.signal.aborted) set((before) => ({ ...before, ...changes })); };
    follow(at`/tasks/${id}/events`, {
      signal: abort.signal,
      ended: () => isOver(latest),
      onState: (line, problem = null) => merge({ line, problem }),
      onEvent: ({ data }) => { latest = data; merge({ task: data, problem: null }); },
    }).then(() => merge({ line: 'over' }), (problem) => merge({ problem, line: 'over' }));
    return () => abort.abort();
  }, [id]);
  return state;
}
