// Form values and results of each studio job. They live until the tab is closed or the user changes.
import { call, open, Problem } from './api.js';
import { newKey } from './identity.js';
import { listen } from './music.js';
import { become } from './schema.js';
import { onLeaving } from './session.js';
import { store } from './store.js';

// `run` is the latest run: `task` or `heard` (music), whether it is `over`, and `given`, the input picture.
const EMPTY = { values: {}, key: null, busy: false, problem: null, run: null, abort: null };
const benches = new Map();
let runs = 0;

export function benchOf(job) {
  if (!benches.has(job.operationId)) benches.set(job.operationId, store(EMPTY));
  return benches.get(job.operationId);
}

// Changed values are a new request, so the idempotency key is dropped.
export function fill(bench, change) {
  bench.set({ ...bench.get(), values: become(change, bench.get().values), key: null });
}

export function startAnew(bench) {
  bench.get().abort?.abort();
  bench.set(EMPTY);
}

onLeaving(() => benches.forEach(startAnew));

// Submits the job; `sent` is the body or form. The submit button is disabled while `busy`.
export async function make(bench, job, sent, given) {
  const abort = new AbortController();
  const key = bench.get().key ?? newKey();
  const set = (changes) => { if (!abort.signal.aborted) bench.set({ ...bench.get(), ...changes }); };
  const show = (run) => set({ run: { ...run, number, given } });
  const number = (runs += 1);
  set({ key, abort, busy: true, problem: null });
  try {
    const options = { ...sent, headers: { 'Idempotency-Key': key }, signal: abort.signal };
    if (streams(job)) await hear(job, options, show, set);
    else {
      const answer = await call('POST', job.path, options);
      show({ task: answer.data?.task_id ?? answer.task_id });
      set({ key: null });
    }
  } catch (failure) {
    const problem = Problem.of(failure);
    set({ problem, ...(problem.isFinal && { key: null }) });
  }
  set({ busy: false, abort: null });
}

export const streams = (job) => Object.values(job.responses).some((answer) => answer.content?.['application/x-ndjson']);

// After an interrupted stream the key is kept: a retry refers to the same task.
async function hear(job, options, show, set) {
  const answer = await open('POST', job.path, options);
  const heard = await listen(answer, (heard) => show({ heard, over: false }), options.signal);
  show({ heard, over: true });
  if (heard.whole || heard.error.code !== 'broken_off') set({ key: null });
}
