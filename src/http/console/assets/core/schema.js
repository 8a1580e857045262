// Derives forms from JSON schemas: kinds of fields, initial values, request bodies.
import { plain } from './openapi.js';

// Most used fields, in form order; all others follow.
const FIRST = ['id', 'name', 'email', 'version', 'image', 'images', 'start_image', 'image_settings', 'video_creation_id', 'video_url',
  'reference_image', 'prompt', 'description', 'changelog', 'model', 'duration', 'resolution', 'aspect_ratio', 'scale_factor', 'engine',
  'style', 'flavor', 'repository', 'tags', 'supported_os'];
// Fields that forms leave out because the console has another place for them.
const ELSEWHERE = ['latest_version', 'personal_access_token', 'translations'];
// Order of the kinds among fields of equal rank; all other kinds have 0.
const KIND_RANKS = { picture: -1, pictures: -1, group: 1, url: 2 };

// Returns the fields of a body, required ones first, without those that only administrators can set. `either` lists fields
// of which one is required.
export function fields(document, schema) {
  const required = schema.required ?? [];
  const choices = schema['x-needs-one-of'] ?? [];
  const shown = Object.entries(schema.properties ?? {})
    .filter(([name, property]) => !ELSEWHERE.includes(name) && !property['x-administrators-only']);
  const all = shown.map(([name, property]) => {
    const form = plain(document, property);
    const isRequired = required.includes(name);
    const either = choices.includes(name) && choices;
    return { name, schema: form, required: isRequired, either, first: isRequired || FIRST.includes(name), kind: kindOf(document, form, name) };
  });
  const ranked = all.map((field, index) => [field, [...rank(field), index]]);
  return ranked.sort(([, left], [, right]) => compareRanks(left, right)).map(([field]) => field);
}

// Returns the sort keys of a field. Options of the watermark (`wm_…`) stay next to it.
function rank({ name, required, kind }) {
  const index = FIRST.indexOf(name);
  return [required ? 0 : 1, index < 0 ? FIRST.length : index, name.startsWith('wm_') ? 0 : KIND_RANKS[kind] ?? 0];
}

// Compares two lists of sort keys.
function compareRanks(left, right) {
  const position = left.findIndex((key, index) => key !== right[index]);
  return position < 0 ? 0 : left[position] - right[position];
}

// Maximum length above which a text field has several lines.
const LONG_FROM = 500;
// Largest range of numbers that a slider can set exactly.
const SLIDER_MAX = 200;

export function kindOf(document, schema, name) {
  if (schema.enum) return 'choice';
  switch (schema.type) {
    case 'boolean': return 'flag';
    case 'integer': case 'number':
      return schema.minimum !== undefined && schema.maximum - schema.minimum <= SLIDER_MAX ? 'range' : 'number';
    case 'array': return kindOfList(document, schema, name);
    case 'object': return schema.properties ? 'group' : 'json';
    case 'string': return kindOfText(schema, name);
    default: return 'json';
  }
}

function kindOfText(schema, name) {
  if (isPicture(schema) || /(^|_)image$/.test(name)) return 'picture';
  if (schema.format === 'binary') return 'file';
  if (schema.format === 'uri' || isAddress(schema.pattern)) return 'url';
  if (schema.maxLength > LONG_FROM || /^(prompt|changelog|description)$/.test(name)) return 'long';
  return 'text';
}

// Returns true if a pattern accepts web addresses only. Tries sample URLs, because the text of the pattern may change.
function isAddress(pattern) {
  if (!pattern) return false;
  const form = new RegExp(pattern);
  const accepts = (scheme) => form.test(`${scheme}://example.org/a`);
  return accepts('http') && accepts('https') && !accepts('ftp') && !form.test('a');
}

function kindOfList(document, schema, name) {
  const item = plain(document, schema.items);
  if (item.type === 'object') return 'groups';
  return isPicture(item) || isPicture(schema) || name === 'images' ? 'pictures' : 'list';
}

// Returns true for picture fields, whose description says that they take base64 or a URL.
const isPicture = (schema) => /base64/i.test(schema.description ?? '');

// Returns the initial value of a field.
export const initialValue = (field) => field.schema.default;

export const isEmpty = (value) => value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

// Returns a function that returns true if the value at a JSON pointer, or a value inside it, differs.
export const changedBetween = (before, after) => (pointer) => {
  const parts = pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const valueIn = (values) => parts.reduce((value, part) => value?.[part], values);
  return valueIn(before) !== valueIn(after);
};

// Applies a change: a new value, or a function of the current one. Functions are needed because other fields can
// change while a picture is read.
export const applyChange = (change, before) => (typeof change === 'function' ? change(before) : change);

// Builds the request body from values that differ from the defaults. `encode` returns the text of a picture; fields in
// `skip` are left out.
export function body(document, schema, values, encode, skip = []) {
  const sent = {};
  for (const field of fields(document, schema).filter(({ name }) => !skip.includes(name))) {
    const value = valueOf(document, field, values?.[field.name], encode);
    if (value !== undefined && (field.required || value !== field.schema.default)) sent[field.name] = value;
  }
  return sent;
}

function valueOf(document, { schema, kind }, value, encode) {
  if (isEmpty(value)) return undefined;
  switch (kind) {
    case 'picture': return encode(value);
    case 'pictures': return value.map(encode);
    case 'range': case 'number': return Number(value);
    case 'list': return Array.isArray(value) ? value : value.split('\n').map((line) => line.trim()).filter(Boolean);
    case 'group': {
      const inner = body(document, schema, value, encode);
      return Object.keys(inner).length ? inner : undefined;
    }
    case 'groups': return value.map((entry) => body(document, plain(document, schema.items), entry, encode));
    case 'json': try { return JSON.parse(value); } catch { return value; }
    default: return value;
  }
}

// Returns the fields that differ from `before`. Cleared fields are sent as empty values, because absent ones stay unchanged.
export function changes(before, after) {
  const differs = (name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(differs);
  return Object.fromEntries(names.map((name) => [name, name in after ? after[name] : emptyOf(before[name])]));
}

function emptyOf(value) {
  if (Array.isArray(value)) return [];
  return typeof value === 'boolean' ? false : '';
}

// Returns the values of an existing resource for a form that edits it.
export function valuesOf(document, schema, resource) {
  const values = {};
  for (const { name, kind } of fields(document, schema)) {
    const value = resource?.[name];
    if (value === undefined) continue;
    values[name] = kind === 'json' ? JSON.stringify(value, null, 2) : value;
  }
  return values;
}

// Describes the limits of a field.
export function describeLimits({ schema, kind }) {
  const limits = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) limits.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) limits.push(`${schema.minimum} or more`);
  else if (schema.maximum !== undefined) limits.push(`${schema.maximum} or less`);
  if (schema.maxLength) limits.push(`at most ${schema.maxLength} ${kind === 'url' ? 'bytes' : 'characters'}`);
  const entryName = kind === 'pictures' ? 'picture' : 'entry';
  if (schema.minItems || schema.maxItems) limits.push(describeCount(schema.minItems ?? 0, schema.maxItems, entryName));
  return limits.join(', ');
}

// Describes a number of entries; `noun` is their name in the singular.
function describeCount(least, most, noun) {
  const many = (number) => (number === 1 ? `1 ${noun}` : `${number} ${noun.replace(/y$/, 'ie')}s`);
  if (most === undefined) return `${many(least)} or more`;
  if (least === most) return many(most);
  return least > 0 ? `${least} to ${many(most)}` : `at most ${many(most)}`;
}
