// What jobs are called: by the document of the interface, in the studio and wherever their tasks are.
import { words } from './format.js';
import { useLoad } from './load.js';
import { jobs, openapi, plain, pointer } from './openapi.js';

// The jobs of a kind of task: it is a part of their path, or of all that their gateway makes there is one kind.
const areOf = (kind) => (job) => job.path.split('/').includes(kind) || job.tags?.[0]?.toLowerCase() === kind;

// Several jobs of one kind are called by the words with which all of them begin.
function common(names) {
  const [first, ...others] = names.map((name) => name.split(' '));
  const differ = first.findIndex((word, at) => others.some((other) => bare(other[at]) !== bare(word)));
  return (differ < 0 ? first : first.slice(0, differ)).map(bare).join(' ');
}

const bare = (word) => word?.replace(/[,;:.]$/, '');

function kindsOf(document) {
  const { kind } = plain(document, pointer(document, '#/components/schemas/Task')).properties;
  const all = jobs(document);
  return new Map((plain(document, kind).enum ?? []).map((name) => {
    const summaries = all.filter(areOf(name)).map((job) => job.summary);
    return [name, summaries.length === 1 ? summaries[0] : summaries.length && common(summaries) || words(name)];
  }));
}

// Every kind with what it is called; undefined until that is known.
export function useKinds() {
  const { data, error } = useLoad(async () => kindsOf(await openapi()), []);
  return error ? new Map() : data;
}

export const kindName = (kinds, kind) => kinds?.get(kind) ?? words(kind);
