// Form values and results of each studio job. They live until the tab is closed or the user changes.
import { call, send, Problem } from './api.js';
import { newIdempotencyKey } from './identity.js';
import { readMusic } from './music.js';
import { applyChange } from './schema.js';
import { onUserChange } from './session.js';
import { store } from './store.js';

// `run` is the latest run: `task` or `heard` (music), whether it is `over`, and `given`, the input picture.
const EMPTY = { values: {}, key: null, busy: false, problem: null, run: null, abort: null };
const jobStates = new Map();
let runs = 0;

export function jobState(job) {
  if (!jobStates.has(job.operationId)) jobStates.set(job.operationId, store(EMPTY));
  return jobStates.get(job.operationId);
}

// Changed values are a new request, so the idempotency key is dropped.
export function setValues(bench, change) {
  bench.set({ ...bench.get(), values: applyChange(change, bench.get().values), key: null });
}

export function reset(bench) {
  bench.get().abort?.abort();
  bench.set(EMPTY);
}

onUserChange(() => jobStates.forEach(reset));

// Submits the job; `sent` is the body or form. The submit button is disabled while `busy`.
export async function submit(bench, job, sent, given) {
  const abort = new AbortController();
  const key = bench.get().key ?? newIdempotencyKey();
  const set = (changes) => { if (!abort.signal.aborted) bench.set({ ...bench.get(), ...changes }); };
  const show = (run) => set({ run: { ...run, number, given } });
  const number = (runs += 1);
  set({ key, abort, busy: true, problem: null });
  try {
    const options = { ...sent, headers: { 'Idempotency-Key': key }, signal: abort.signal };
    if (streams(job)) await streamMusic(job, options, show, set);
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
async function streamMusic(job, options, show, set) {
  const answer = await send('POST', job.path, options);
  const heard = await readMusic(answer, (heard) => show({ heard, over: false }), options.signal);
  show({ heard, over: true });
  if (heard.isComplete || heard.error.code !== 'broken_off') set({ key: null });
}
