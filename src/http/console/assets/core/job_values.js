// Converts the values of a job's form: from the request of a task, from and to a link, and to a request for a price.
import { plain } from './openapi.js';
import { toLocalUrl } from './api.js';
import { body, fields, isEmpty } from './schema.js';

const isStored = (value) => typeof value?.digest === 'string';

// Fetches a file of this service for a picture field. `readPicture` converts it to the value of the field.
export async function fetchPicture(address, name, readPicture) {
  const response = await fetch(address, { credentials: 'omit' });
  if (!response.ok) throw new Error('This file has been deleted.');
  const content = await response.blob();
  return readPicture(new File([content], name ?? new URL(address).pathname.split('/').at(-1), { type: content.type }));
}

// Returns the form values of a task's request. Pictures are fetched and converted by `readPicture`. Attached texts are left
// out, because the service shows only their hash.
export async function valuesOfRequest(document, schema, request, readPicture) {
  const values = {};
  for (const field of fields(document, schema)) {
    const value = await valueOf(document, field, request[field.name], readPicture);
    if (!isEmpty(value) && value !== field.schema.default) values[field.name] = value;
  }
  return values;
}

async function valueOf(document, { kind, schema }, value, readPicture) {
  if (value === undefined || value === null) return undefined;
  switch (kind) {
    case 'picture': return pictureOf(value, readPicture);
    case 'pictures': return Promise.all(value.map((picture) => pictureOf(picture, readPicture)));
    case 'group': return valuesOfRequest(document, schema, value, readPicture);
    case 'groups': return Promise.all(value.map((entry) => valuesOfRequest(document, plain(document, schema.items), entry, readPicture)));
    case 'json': return isStored(value) ? undefined : JSON.stringify(value, null, 2);
    default: return isStored(value) ? undefined : value;
  }
}

function pictureOf(value, readPicture) {
  if (typeof value === 'string') return { url: value };
  const address = toLocalUrl(value.url ?? '');
  if (!address) throw new Error('The input picture has been deleted.');
  return fetchPicture(address, `input.${value.format}`, readPicture);
}

// Fields that a shared link leaves out, because they belong to the caller alone. Pictures are left out too.
const PRIVATE = ['webhook_url', 'callback_url', 'payload', 'meta_data', 'video_creation_id', 'video_url'];
const isShared = ({ name, kind }) => !PRIVATE.includes(name) && kind !== 'picture' && kind !== 'pictures';

// Returns the parameters of a link that shares the values of a form.
export function settingsOf(document, schema, values) {
  const shared = fields(document, schema).filter(isShared).map(({ name }) => name);
  const sent = body(document, schema, values, () => undefined);
  return Object.fromEntries(Object.entries(sent)
    .filter(([name]) => shared.includes(name))
    .map(([name, value]) => [name, typeof value === 'object' ? JSON.stringify(value) : String(value)]));
}

// Returns the form values in the query of a shared link. Ignores unknown fields and invalid values.
export function valuesOfSettings(document, schema, query) {
  const present = fields(document, schema).filter((field) => isShared(field) && query.has(field.name));
  return Object.fromEntries(present.map((field) => [field.name, parse(field, query.get(field.name))])
    .filter(([, value]) => value !== undefined));
}

function parse({ kind, schema }, text) {
  if (kind === 'flag') return text === 'true';
  if (kind === 'choice') return schema.enum.map(String).includes(text) ? text : undefined;
  if (kind === 'range' || kind === 'number') return text.trim() !== '' && Number.isFinite(Number(text)) ? text : undefined;
  if (!['group', 'groups', 'list'].includes(kind)) return text;
  try {
    const value = JSON.parse(text);
    const isValid = kind === 'group' ? typeof value === 'object' && !Array.isArray(value) : Array.isArray(value);
    return isValid ? value : undefined;
  } catch { return undefined; }
}

// Placeholders for inputs in the request for a price, because the price does not depend on them. `DOT` is a small PNG.
const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAD0lEQVR42mNowAEYhpYEAILzYAEllbNjAAAAAElFTkSuQmCC';
const PLACEHOLDERS = { video_url: 'https://example.org/video.mp4', video_creation_id: 'video' };

// Returns the body of the request for a price; null while a field on which the price depends is missing or out of range.
export function estimateBody(document, schema, values) {
  const sent = body(document, schema, values, (picture) => picture.url ?? DOT);
  const all = { ...placeholders(document, schema, sent), ...sent };
  return isComplete(document, schema, all) ? all : null;
}

// Returns placeholders for inputs that the user has not entered yet. The prompt of music has none, because it can set the
// length, on which the price depends.
function placeholders(document, schema, sent) {
  const all = fields(document, schema);
  const missing = Object.fromEntries(all.filter(({ required }) => required)
    .map((field) => [field.name, placeholder(document, field)])
    .filter(([, value]) => value !== undefined));
  // A job without required fields needs a picture or a prompt.
  const images = all.find(({ kind }) => kind === 'pictures');
  const needsPicture = images && !('prompt' in sent) && !all.some(({ required }) => required);
  return needsPicture ? { ...missing, [images.name]: [DOT] } : missing;
}

function placeholder(document, { name, kind, schema }) {
  const list = (entry) => Array.from({ length: schema.minItems ?? 1 }, () => entry);
  if (kind === 'picture') return DOT;
  if (kind === 'pictures') return list(DOT);
  if (kind === 'groups') return list(placeholders(document, plain(document, schema.items), {}));
  return PLACEHOLDERS[name];
}

function isComplete(document, schema, sent) {
  return fields(document, schema).every(({ name, required, kind, schema: field }) => {
    const value = sent[name];
    if (value === undefined) return !required;
    if (typeof value === 'number') return value >= (field.minimum ?? -Infinity) && value <= (field.maximum ?? Infinity);
    if (typeof value === 'string') return field.maxLength === undefined || value.length <= field.maxLength;
    if (kind === 'group') return isComplete(document, field, value);
    if (Array.isArray(value)) {
      const isInRange = value.length >= (field.minItems ?? 0) && value.length <= (field.maxItems ?? Infinity);
      return isInRange && (kind !== 'groups' || value.every((entry) => isComplete(document, plain(document, field.items), entry)));
    }
    return true;
  });
}
