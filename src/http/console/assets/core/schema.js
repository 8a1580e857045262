// Forms follow from schemas: what kind of field a property is, what it begins with, what is sent of it.
import { plain } from './openapi.js';

// The properties of a body as fields, those that are required first.
export function fields(document, schema) {
  const required = schema.required ?? [];
  const all = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const form = plain(document, property);
    return { name, schema: form, required: required.includes(name), kind: kindOf(document, form, name) };
  });
  const order = { picture: 0, pictures: 0, long: 1, group: 3, url: 4 };
  const named = ({ name }) => /^(id|name)$/.test(name);
  const rank = (field) => (field.required ? 0 : 10) + (named(field) ? -1 : order[field.kind] ?? 2);
  return all.map((field, at) => [field, at]).sort(([a, at], [b, bt]) => rank(a) - rank(b) || at - bt).map(([field]) => field);
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
  if (schema.format === 'uri' || /(_url|_repo|^website|^repository|^logo|^icon)$/.test(name) && /https\?/.test(schema.pattern ?? '')) return 'url';
  if (schema.maxLength > LONG_FROM || /^(prompt|changelog|description)$/.test(name)) return 'long';
  return 'text';
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

// What is sent: what was given and is not the default anyway. `text(picture)` says how a picture is written.
export function body(document, schema, values, text) {
  const sent = {};
  for (const field of fields(document, schema)) {
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
export function allowed({ schema }) {
  const told = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) told.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) told.push(`${schema.minimum} or more`);
  else if (schema.maximum !== undefined) told.push(`${schema.maximum} or less`);
  if (schema.maxLength) told.push(`at most ${schema.maxLength} characters`);
  if (schema.minItems || schema.maxItems) told.push(`${schema.minItems ?? 0} to ${schema.maxItems ?? 'any number of'} entries`);
  return told.join(', ');
}
