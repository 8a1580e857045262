// Using a task again: its settings in the form, and its result as the input of another job.
import { toLocalUrl } from './api.js';
import { jobState, setValues } from './job_state.js';
import { fetchPicture, valuesOfRequest } from './job_values.js';
import { allowsAnonymous, bodyOf, jobs } from './openapi.js';
import { fields } from './schema.js';

// Fills the form of a job from a task with its request.
export async function fillFrom(document, job, task, given) {
  const { schema } = bodyOf(document, job);
  const values = await valuesOfRequest(document, schema, task.request, given);
  setValues(jobState(job), values);
}

const isFilm = (address) => /\.(mp4|webm)$/i.test(address);
const isPicture = (address) => /\.(png|jpe?g|webp)$/i.test(address);

// Field of a job that takes a result, or null: a picture, or a video of the caller.
function inputOf(document, job, address) {
  const all = fields(document, bodyOf(document, job).schema);
  if (isFilm(address)) return all.find(({ name }) => name === 'video_creation_id') ?? null;
  return isPicture(address) && !all.some(({ name }) => name === 'video_creation_id') ? all.find(({ kind }) => kind === 'picture' || kind === 'pictures') ?? null : null;
}

// Jobs to which the result of a task can be sent.
export function receiversOf(document, task, user) {
  const [address = ''] = task.generated;
  return jobs(document).filter((job) => (user || allowsAnonymous(job)) && inputOf(document, job, address));
}

// Makes the result of a task the input of a job.
export async function sendTo(document, job, task, given) {
  const [address] = task.generated;
  const field = inputOf(document, job, address);
  if (isFilm(address)) return setValues(jobState(job), (before) => ({ ...before, video_creation_id: task.task_id, video_url: address }));
  const picture = await fetchPicture(toLocalUrl(address), undefined, given);
  return setValues(jobState(job), (before) => ({ ...before, [field.name]: field.kind === 'pictures' ? [picture] : picture }));
}
