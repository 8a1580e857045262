// Derives forms from JSON schemas: kinds of fields, initial values, request bodies.
import { plain } from './openapi.js';

// Most used fields, in form order; all others follow.
const FIRST = ['id', 'name', 'email', 'version', 'image', 'images', 'start_image', 'image_settings', 'video_creation_id', 'video_url',
  'reference_image', 'prompt', 'description', 'changelog', 'model', 'duration', 'resolution', 'aspect_ratio', 'scale_factor', 'engine',
  'style', 'flavor', 'repository', 'tags', 'supported_os'];
// Fields edited elsewhere in the console. The schema marks those that only administrators can set.
const ELSEWHERE = ['latest_version', 'personal_access_token', 'translations'];
const KINDS = { picture: -1, pictures: -1, group: 1, url: 2 };

// Fields of a body, required ones first. `either` lists fields of which one is required.
export function fields(document, schema) {
  const required = schema.required ?? [];
  const choices = schema['x-needs-one-of'] ?? [];
  const shown = Object.entries(schema.properties ?? {})
    .filter(([name, property]) => !ELSEWHERE.includes(name) && !property['x-administrators-only']);
  const all = shown.map(([name, property]) => {
    const form = plain(document, property);
    const isOne = { required: required.includes(name), either: choices.includes(name) && choices };
    return { name, schema: form, ...isOne, first: isOne.required || FIRST.includes(name), kind: kindOf(document, form, name) };
  });
  return all.map((field, at) => [field, [...rank(field), at]]).sort(([, one], [, other]) => inOrder(one, other)).map(([field]) => field);
}

// Watermark options stay next to the watermark.
function rank({ name, required, kind }) {
  const place = FIRST.indexOf(name);
  return [required ? 0 : 1, place < 0 ? FIRST.length : place, name.startsWith('wm_') ? 0 : KINDS[kind] ?? 0];
}

function inOrder(one, other) {
  const at = one.findIndex((part, at) => part !== other[at]);
  return at < 0 ? 0 : one[at] - other[at];
}

// Maximum length from which a text field has several lines.
const LONG_FROM = 500;

export function kindOf(document, schema, name) {
  if (schema.enum) return 'choice';
  switch (schema.type) {
    case 'boolean': return 'flag';
    case 'integer': case 'number':
      return schema.minimum !== undefined && schema.maximum - schema.minimum <= 200 ? 'range' : 'number';
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

// Tests the pattern with sample URLs instead of comparing its text, which may change.
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

// The description states that a field takes base64 or a URL.
const isPicture = (schema) => /base64/i.test(schema.description ?? '');

// Initial value of a field.
export const initialValue = (field) => field.schema.default;

export const isEmpty = (value) => value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

// Applies a change: a new value, or a function of the current one. Functions are needed because other fields can
// change while a picture is read.
// Returns a function that tells whether the value at a JSON pointer, or a value inside it, differs.
export const changedBetween = (before, after) => (pointer) => {
  const valueIn = (values) => pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).reduce((value, part) => value?.[part], values);
  return valueIn(before) !== valueIn(after);
};

export const applyChange = (change, before) => (typeof change === 'function' ? change(before) : change);

// Builds the request body from values that differ from the defaults. `text(picture)` encodes a picture.
export function body(document, schema, values, text, skip = []) {
  const sent = {};
  for (const field of fields(document, schema).filter(({ name }) => !skip.includes(name))) {
    const value = valueOf(document, field, values?.[field.name], text);
    if (value !== undefined && (field.required || value !== field.schema.default)) sent[field.name] = value;
  }
  return sent;
}

function valueOf(document, { schema, kind }, value, text) {
  if (isEmpty(value)) return undefined;
  switch (kind) {
    case 'picture': return text(value);
    case 'pictures': return value.map(text);
    case 'range': case 'number': return Number(value);
    case 'list': return Array.isArray(value) ? value : value.split('\n').map((line) => line.trim()).filter(Boolean);
    case 'group': {
      const inner = body(document, schema, value, text);
      return Object.keys(inner).length ? inner : undefined;
    }
    case 'groups': return value.map((entry) => body(document, plain(document, schema.items), entry, text));
    case 'json': try { return JSON.parse(value); } catch { return value; }
    default: return value;
  }
}

// Fields that differ from `before`. Cleared fields are sent as empty values, because absent ones stay unchanged.
export function changes(before, after) {
  const differs = (name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(differs);
  return Object.fromEntries(names.map((name) => [name, name in after ? after[name] : emptyOf(before[name])]));
}

function emptyOf(value) {
  if (Array.isArray(value)) return [];
  return typeof value === 'boolean' ? false : '';
}

// Values of an existing resource for an edit form.
export function valuesOf(document, schema, thing) {
  const values = {};
  for (const { name, kind } of fields(document, schema)) {
    const value = thing?.[name];
    if (value === undefined) continue;
    values[name] = kind === 'json' ? JSON.stringify(value, null, 2) : value;
  }
  return values;
}

// Describes the limits of a field.
export function describeLimits({ schema, kind }) {
  const told = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) told.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) told.push(`${schema.minimum} or more`);
  else if (schema.maximum !== undefined) told.push(`${schema.maximum} or less`);
  if (schema.maxLength) told.push(`at most ${schema.maxLength} ${kind === 'url' ? 'bytes' : 'characters'}`);
  const of = kind === 'pictures' ? 'picture' : 'entry';
  if (schema.minItems || schema.maxItems) told.push(describeCount(schema.minItems ?? 0, schema.maxItems, of));
  return told.join(', ');
}

// Describes a number of entries.
function describeCount(least, most, one) {
  const many = (number) => (number === 1 ? `1 ${one}` : `${number} ${one.replace(/y$/, 'ie')}s`);
  if (most === undefined) return `${many(least)} or more`;
  if (least === most) return many(most);
  return least > 0 ? `${least} to ${many(most)}` : `at most ${many(most)}`;
}
