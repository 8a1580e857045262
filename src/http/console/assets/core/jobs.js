// Names of jobs and task kinds, taken from the OpenAPI document.
import { toLocalUrl } from './api.js';
import { toWords } from './format.js';
import { useLoad } from './load.js';
import { bodyOf, jobDocument, jobs, plain, pointer } from './openapi.js';

// Returns a function that returns true for jobs of a task kind: by a segment of the path, or by the tag if it names the kind
// (music).
const isOfKind = (kind) => (job) => job.path.split('/').includes(kind) || job.tags?.[0]?.toLowerCase() === kind;

// Returns the words with which all of the job summaries begin.
function commonWords(summaries) {
  const [first, ...others] = summaries.map((summary) => summary.split(' '));
  const differ = first.findIndex((word, index) => others.some((words) => withoutPunctuation(words[index]) !== withoutPunctuation(word)));
  return (differ < 0 ? first : first.slice(0, differ)).map(withoutPunctuation).join(' ');
}

const withoutPunctuation = (word) => word?.replace(/[,;:.]$/, '');

// Returns a map from task kind to name.
function kindsOf(document) {
  const { kind } = plain(document, pointer(document, '#/components/schemas/Task')).properties;
  const all = jobs(document);
  return new Map((plain(document, kind).enum ?? []).map((name) => {
    const summaries = all.filter(isOfKind(name)).map((job) => job.summary);
    return [name, summaries.length === 1 ? summaries[0] : summaries.length && commonWords(summaries) || toWords(name)];
  }));
}

// Returns the task kind of a job.
export function kindOfJob(document, job) {
  const { kind } = plain(document, pointer(document, '#/components/schemas/Task')).properties;
  return plain(document, kind).enum.find((name) => isOfKind(name)(job));
}

// Returns the job of a task. If the kind has several jobs, this is the job with the fewest fields that has all fields of the
// request.
export function jobOfTask(document, { kind, request = {} }) {
  const names = (job) => Object.keys(bodyOf(document, job).schema.properties ?? {});
  const fitting = jobs(document).filter(isOfKind(kind)).filter((job) => Object.keys(request).every((name) => names(job).includes(name)));
  return fitting.sort((left, right) => names(left).length - names(right).length)[0];
}

// Returns a map from task kind to name; undefined while loading.
export function useKinds() {
  const { data, error } = useLoad(async () => kindsOf(await jobDocument()), []);
  return error ? new Map() : data;
}

export const kindName = (kinds, kind) => kinds?.get(kind) ?? toWords(kind);

// Returns the URL of the first input picture of a task; null if this browser may not read it.
export function inputAddress({ request }) {
  const pictures = [request?.image, request?.start_image, request?.images?.[0], request?.image_settings?.[0]?.key_image];
  const input = pictures.find((picture) => picture?.url);
  return input ? toLocalUrl(input.url) : null;
}
