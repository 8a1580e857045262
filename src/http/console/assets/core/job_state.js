// Form values and results of each studio job. They live until the tab is closed or the user changes.
import { call, send, Problem } from './api.js';
import { newIdempotencyKey } from './identity.js';
import { bodyOf } from './openapi.js';
import { applyChange, body, changedBetween } from './schema.js';
import { settingsOf } from './job_values.js';
import { rememberTask } from './own_tasks.js';
import { onUserChange, token } from './session.js';
import { store } from './store.js';

// `run` is the latest run: `task` or `heard` (music), whether it is `over`, `given` (the input picture), `report` (of
// the prompt), and whether it is `anonymous`.
const EMPTY = { values: {}, key: null, busy: false, problem: null, run: null, abort: null };
const jobStates = new Map();
let runs = 0;

export function jobState(job) {
  if (!jobStates.has(job.operationId)) jobStates.set(job.operationId, store(EMPTY));
  return jobStates.get(job.operationId);
}

// Changed values are a new request, so the idempotency key is dropped.
export function setValues(bench, change) {
  const { values: before, problem } = bench.get();
  const values = applyChange(change, before);
  bench.set({ ...bench.get(), values, problem: problem?.without(changedBetween(before, values)) ?? null, key: null });
}

export function reset(bench) {
  bench.get().abort?.abort();
  bench.set(EMPTY);
}

onUserChange(() => jobStates.forEach(reset));

// First input picture, shown beside the result.
const pictureOf = (values) => [values.image, values.start_image, values.images?.[0]].find((picture) => picture?.file)?.file;

function formOf(json) {
  const form = new FormData();
  for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
  return form;
}

// Submits the values of the form. The submit button is disabled while `busy`.
export async function submit(bench, document, job, encodePicture) {
  const { schema, mediaType } = bodyOf(document, job);
  const { values, key: earlierKey } = bench.get();
  const json = body(document, schema, values, encodePicture);
  const sent = mediaType === 'multipart/form-data' ? { form: formOf(json) } : { body: json };
  const anonymous = !token();
  const abort = new AbortController();
  const key = earlierKey ?? newIdempotencyKey();
  const set = (changes) => { if (!abort.signal.aborted) bench.set({ ...bench.get(), ...changes }); };
  const show = (run) => set({ run: { ...run, number, anonymous, given: pictureOf(values) } });
  const number = (runs += 1);
  set({ key, abort, busy: true, problem: null });
  try {
    const options = { ...sent, headers: { 'Idempotency-Key': key }, signal: abort.signal };
    if (streams(job)) await streamMusic(job, options, show, set);
    else {
      const answer = await call('POST', job.path, options);
      const { task_id: task, prompt_report: report } = answer.data ?? answer;
      if (anonymous) rememberTask({ id: task, job: job.operationId, at: new Date().toISOString(), settings: settingsOf(document, schema, values) });
      show({ task, report });
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
  const { readMusic } = await import('./music.js');
  const answer = await send('POST', job.path, options);
  const heard = await readMusic(answer, (heard) => show({ heard, over: false }), options.signal);
  show({ heard, over: true });
  if (heard.isComplete || heard.error.code !== 'broken_off') set({ key: null });
}
