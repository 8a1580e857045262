// Reuses a task: its settings in the form of its job, or its result as the input of another job.
import { toLocalUrl } from './api.js';
import { jobState, setValues } from './job_state.js';
import { fetchPicture, valuesOfRequest } from './job_values.js';
import { allowsAnonymous, bodyOf, jobs } from './openapi.js';
import { fields } from './schema.js';

// Fills the form of a job from a task with its request.
export async function fillFrom(document, job, task, readPicture) {
  const { schema } = bodyOf(document, job);
  const values = await valuesOfRequest(document, schema, task.request, readPicture);
  setValues(jobState(job), values);
}

const isVideo = (address) => /\.(mp4|webm)$/i.test(address);
const isPicture = (address) => /\.(png|jpe?g|webp)$/i.test(address);

// Returns the field of a job that takes the result at `address`, or null. Pictures go into picture fields, videos into the
// job that extends one.
function inputOf(document, job, address) {
  const all = fields(document, bodyOf(document, job).schema);
  if (isVideo(address)) return all.find(({ name }) => name === 'video_creation_id') ?? null;
  return isPicture(address) && !all.some(({ name }) => name === 'video_creation_id') ? all.find(({ kind }) => kind === 'picture' || kind === 'pictures') ?? null : null;
}

// Returns the jobs to which the result of a task can be sent.
export function receiversOf(document, task, user) {
  const [address = ''] = task.generated;
  return jobs(document).filter((job) => (user || allowsAnonymous(job)) && inputOf(document, job, address));
}

// Makes the result of a task the input of a job.
export async function sendTo(document, job, task, readPicture) {
  const [address] = task.generated;
  const field = inputOf(document, job, address);
  if (isVideo(address)) return setValues(jobState(job), (before) => ({ ...before, video_creation_id: task.task_id, video_url: address }));
  const picture = await fetchPicture(toLocalUrl(address), undefined, readPicture);
  return setValues(jobState(job), (before) => ({ ...before, [field.name]: field.kind === 'pictures' ? [picture] : picture }));
}
