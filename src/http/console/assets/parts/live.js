// Follows the state of a task.
import { useEffect, useState } from '../core/dom.js';
import { at, get } from '../core/api.js';
import { count } from '../core/format.js';
import { useInterval } from '../core/load.js';
import { follow } from '../core/sse.js';

export const hasEnded = (task) => ['COMPLETED', 'FAILED', 'success', 'failed'].includes(task?.state);

// Describes the price of a task. A refunded price is not free: the amount is still named.
export const describePrice = ({ cost, cost_state }) => `${cost ? count(cost, 'credit') : 'Free'}${cost && cost_state === 'refunded' ? ', refunded' : ''}`;

// Follows a task and returns its latest state; `connection` is 'live', 'lost' or 'over'.
export function useTask(id) {
  const [state, setState] = useState({ task: null, connection: 'live', problem: null });
  useEffect(() => {
    setState({ task: null, connection: 'live', problem: null });
    if (!id) return undefined;
    const abort = new AbortController();
    let latest = null;
    const merge = (changes) => { if (!abort.signal.aborted) setState((before) => ({ ...before, ...changes })); };
    follow(at`/tasks/${id}/events`, {
      signal: abort.signal,
      ended: () => hasEnded(latest),
      onState: (connection, problem = null) => merge({ connection, problem }),
      onEvent: ({ data }) => { latest = data; merge({ task: data, problem: null }); },
    }).then(() => merge({ connection: 'over' }), (problem) => merge({ problem, connection: 'over' }));
    return () => abort.abort();
  }, [id]);
  return state;
}

const POLL_MS = 1000;

// Returns a task like those of `GET /tasks` for a caller without a token, from the response of `creations`.
export const anonymousTask = ({ id, state, progress, credits, creations: [creation], err_code: code, message }, created_at) => ({
  task_id: id, state, progress, cost: credits, created_at, generated: creation ? [creation.url] : [], cover_url: creation?.cover_url,
  error: code ? { code, message } : undefined, history: [],
});

export const readAnonymousTask = async (id, created_at, signal) => anonymousTask(await get(at`/proxy/videovendor/tasks/${id}/creations`, {}, signal), created_at);

// Polls and returns the latest state of a task of a caller without a token, who cannot follow its events.
export function useAnonymousTask(id) {
  const [state, setState] = useState({ task: null, connection: 'live', problem: null });
  const poll = () => readAnonymousTask(id).then((task) => setState({ task, connection: 'live', problem: null }), (problem) => setState((before) => ({ ...before, connection: 'lost', problem })));
  useEffect(() => { if (id) poll(); }, [id]);
  useInterval(id && !hasEnded(state.task) && state.problem?.status !== 404 ? POLL_MS : 0, poll);
  return state;
}
