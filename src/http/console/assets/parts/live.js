// Live state of a task.
import { useEffect, useState } from '../core/dom.js';
import { at } from '../core/api.js';
import { follow } from '../core/sse.js';

export const hasEnded = (task) => ['COMPLETED', 'FAILED', 'success', 'failed'].includes(task?.state);

// Cost after a refund, and the refund.
export const finalCost = ({ cost, cost_state }) => (cost_state === 'refunded' ? { cost: 0, back: cost } : { cost, back: 0 });

// Latest state of a task; `line` is 'live', 'lost' or 'over'.
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
      ended: () => hasEnded(latest),
      onState: (line, problem = null) => merge({ line, problem }),
      onEvent: ({ data }) => { latest = data; merge({ task: data, problem: null }); },
    }).then(() => merge({ line: 'over' }), (problem) => merge({ problem, line: 'over' }));
    return () => abort.abort();
  }, [id]);
  return state;
}
