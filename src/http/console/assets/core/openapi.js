// The document of the interface: what there is, and of what form.
import { get } from './api.js';

let asked;

// Asked for once; after a failure again.
export function openapi() {
  asked ??= get('/openapi.json').catch((failure) => { asked = undefined; throw failure; });
  return asked;
}

const METHODS = ['get', 'post', 'put', 'delete'];

// Every operation, in the order of the document.
export function operations(document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method, ...item[method] })));
}

// The jobs that a studio can offer: what is submitted to a vendor, and is about nothing that is there already.
export function jobs(document) {
  return operations(document).filter(({ method, path, requestBody }) =>
    method === 'post' && path.startsWith('/proxy/') && !path.includes('{') && requestBody);
}

export function pointer(document, reference) {
  return reference.replace(/^#\//, '').split('/').reduce((value, part) => value?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], document);
}

// A schema without references, and without the alternative of being null, which means absent.
export function plain(document, schema = {}) {
  if (schema.$ref) return { ...plain(document, pointer(document, schema.$ref)), ...rest(schema) };
  if (schema.anyOf || schema.oneOf) {
    const choices = (schema.anyOf ?? schema.oneOf).filter((choice) => choice.type !== 'null' && choice.maxLength !== 0);
    if (choices.length === 1) return { ...plain(document, choices[0]), ...rest(schema) };
    // One enumeration or another is one of all their values.
    const forms = choices.map((choice) => plain(document, choice));
    if (forms.every((form) => form.enum)) return { type: forms[0].type, enum: forms.flatMap((form) => form.enum), ...rest(schema) };
  }
  const types = [schema.type].flat().filter((type) => type && type !== 'null');
  const enumeration = schema.enum?.filter((value) => value !== null);
  return { ...schema, type: types.length > 1 ? undefined : types[0], ...(enumeration && { enum: enumeration }) };
}

function rest({ $ref, anyOf, oneOf, ...others }) {
  return others;
}

export function bodyOf(document, operation) {
  const [mediaType, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  return mediaType && { mediaType, schema: plain(document, content.schema), example: content.example };
}
