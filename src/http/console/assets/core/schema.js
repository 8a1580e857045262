// Forms follow from schemas: what kind of field a property is, what it begins with, what is sent of it.
import { plain } from './openapi.js';

// What most people fill in, in the order in which they think of it; all else comes after.
const FIRST = ['id', 'name', 'email', 'version', 'image', 'images', 'start_image', 'image_settings', 'video_creation_id', 'video_url',
  'reference_image', 'prompt', 'description', 'changelog', 'model', 'duration', 'resolution', 'aspect_ratio', 'scale_factor', 'engine',
  'style', 'flavor', 'repository', 'tags', 'supported_os'];
// What has a place of its own elsewhere in these pages; what counts from administrators only, the document says.
const ELSEWHERE = ['latest_version', 'personal_access_token', 'translations'];
const KINDS = { picture: -1, pictures: -1, group: 1, url: 2 };

// The properties of a body as fields, those that are required first. `either` names those of which one is required.
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

// Details of the watermark stay with the watermark, of whatever kind they are.
function rank({ name, required, kind }) {
  const place = FIRST.indexOf(name);
  return [required ? 0 : 1, place < 0 ? FIRST.length : place, name.startsWith('wm_') ? 0 : KINDS[kind] ?? 0];
}

function inOrder(one, other) {
  const at = one.findIndex((part, at) => part !== other[at]);
  return at < 0 ? 0 : one[at] - other[at];
}

// From so many characters on a text gets several lines.
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

// What a pattern takes tells whether it is one of addresses: how it is written may change.
function isAddress(pattern) {
  if (!pattern) return false;
  const form = new RegExp(pattern);
  const takes = (scheme) => form.test(`${scheme}://example.org/a`);
  return takes('http') && takes('https') && !takes('ftp') && !form.test('a');
}

function kindOfList(document, schema, name) {
  const item = plain(document, schema.items);
  if (item.type === 'object') return 'groups';
  return isPicture(item) || isPicture(schema) || name === 'images' ? 'pictures' : 'list';
}

// A picture comes as base64 or from an address; the document says so in words.
const isPicture = (schema) => /base64/i.test(schema.description ?? '');

// What a field shows before anybody touched it.
export const initial = (field) => field.schema.default;

export const isUntouched = (value) => value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

// What a value becomes: a new one, or one that follows from the one before. A picture takes a moment to read, in which other
// fields change: so what is changed is always what is there by then.
export const become = (change, before) => (typeof change === 'function' ? change(before) : change);

// What is sent: what was given and is not the default anyway. `text(picture)` says how a picture is written.
export function body(document, schema, values, text, skip = []) {
  const sent = {};
  for (const field of fields(document, schema).filter(({ name }) => !skip.includes(name))) {
    const value = valueOf(document, field, values?.[field.name], text);
    if (value !== undefined && (field.required || value !== field.schema.default)) sent[field.name] = value;
  }
  return sent;
}

function valueOf(document, { schema, kind }, value, text) {
  if (isUntouched(value)) return undefined;
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

// What of a body differs from the one that was there. What is gone is sent as empty, or it would stay as it was.
export function changes(before, after) {
  const differs = (name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(differs);
  return Object.fromEntries(names.map((name) => [name, name in after ? after[name] : emptyOf(before[name])]));
}

function emptyOf(value) {
  if (Array.isArray(value)) return [];
  return typeof value === 'boolean' ? false : '';
}

// What a thing has already, as the values of a form that changes it.
export function valuesOf(document, schema, thing) {
  const values = {};
  for (const { name, kind } of fields(document, schema)) {
    const value = thing?.[name];
    if (value === undefined) continue;
    values[name] = kind === 'json' ? JSON.stringify(value, null, 2) : value;
  }
  return values;
}

// What a field allows, in words.
export function allowed({ schema, kind }) {
  const told = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) told.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) told.push(`${schema.minimum} or more`);
  else if (schema.maximum !== undefined) told.push(`${schema.maximum} or less`);
  if (schema.maxLength) told.push(`at most ${schema.maxLength} characters`);
  const of = kind === 'pictures' ? 'picture' : 'entry';
  if (schema.minItems || schema.maxItems) told.push(some(schema.minItems ?? 0, schema.maxItems, of));
  return told.join(', ');
}

// How many there may be of something.
function some(least, most, one) {
  const many = (number) => (number === 1 ? `1 ${one}` : `${number} ${one.replace(/y$/, 'ie')}s`);
  if (most === undefined) return `${many(least)} or more`;
  if (least === most) return many(most);
  return least > 0 ? `${least} to ${many(most)}` : `at most ${many(most)}`;
}
