// Form values and results of each studio job. They live until the tab is closed or the user changes.
import { call, send, Problem } from './api.js';
import { newIdempotencyKey } from './identity.js';
import { bodyOf } from './openapi.js';
import { applyChange, body, changedBetween } from './schema.js';
import { settingsOf } from './job_values.js';
import { rememberTask } from './own_tasks.js';
import { onUserChange, token } from './session.js';
import { store } from './store.js';

// State of a job. `key` is the idempotency key of the submission in progress, `abort` its controller, and `problem` its
// error. `run` is the latest run: its `number`, `task` (images, videos) or `music`, `over` (true if the music has ended),
// `input` (the file of the input picture), `report` (of the prompt), and `anonymous` (true if submitted without a token).
const EMPTY = { values: {}, key: null, busy: false, problem: null, run: null, abort: null };
const jobStates = new Map();
let runs = 0;

// Returns the store with the state of a job.
export function jobState(job) {
  if (!jobStates.has(job.operationId)) jobStates.set(job.operationId, store(EMPTY));
  return jobStates.get(job.operationId);
}

// Changes the values of the form. They are a new request then, so the idempotency key and outdated errors are dropped.
export function setValues(jobStore, change) {
  const { values: before, problem } = jobStore.get();
  const values = applyChange(change, before);
  jobStore.set({ ...jobStore.get(), values, problem: problem?.without(changedBetween(before, values)) ?? null, key: null });
}

export function reset(jobStore) {
  jobStore.get().abort?.abort();
  jobStore.set(EMPTY);
}

onUserChange(() => jobStates.forEach(reset));

// Returns the file of the first input picture, which is shown beside the result.
const inputFile = (values) => [values.image, values.start_image, values.images?.[0]].find((picture) => picture?.file)?.file;

function formOf(json) {
  const form = new FormData();
  for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
  return form;
}

// Submits the values of the form. The submit button is disabled while `busy`.
export async function submit(jobStore, document, job, encodePicture) {
  const { schema, mediaType } = bodyOf(document, job);
  const { values, key: earlierKey } = jobStore.get();
  const json = body(document, schema, values, encodePicture);
  const sent = mediaType === 'multipart/form-data' ? { form: formOf(json) } : { body: json };
  const anonymous = !token();
  const abort = new AbortController();
  const key = earlierKey ?? newIdempotencyKey();
  const set = (changes) => { if (!abort.signal.aborted) jobStore.set({ ...jobStore.get(), ...changes }); };
  const show = (run) => set({ run: { ...run, number, anonymous, input: inputFile(values) } });
  const number = (runs += 1);
  set({ key, abort, busy: true, problem: null });
  try {
    const options = { ...sent, headers: { 'Idempotency-Key': key }, signal: abort.signal };
    if (isStream(job)) await streamMusic(job, options, show, set);
    else {
      const response = await call('POST', job.path, options);
      const { task_id: task, prompt_report: report } = response.data ?? response;
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

// Returns true if the response of a job is a stream, as for music.
export const isStream = (job) => Object.values(job.responses).some((response) => response.content?.['application/x-ndjson']);

// Requests music and shows it while it arrives. After an interrupted stream the idempotency key is kept, so that a retry
// refers to the same task.
async function streamMusic(job, options, show, set) {
  const { readMusic } = await import('./music.js');
  const response = await send('POST', job.path, options);
  const music = await readMusic(response, (music) => show({ music, over: false }), options.signal);
  show({ music, over: true });
  if (music.isComplete || music.error.code !== 'broken_off') set({ key: null });
}
