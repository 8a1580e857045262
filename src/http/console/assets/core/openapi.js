// Access to the OpenAPI document of the service.
import { at, get } from './api.js';

// Returns a function that loads a document once; a failure is not cached.
function loadOnce(path) {
  let loading;
  return () => {
    loading ??= get(path).catch((failure) => { loading = undefined; throw failure; });
    return loading;
  };
}

// The list of all operations, with their paths and summaries only.
export const operationList = loadOnce('/console/reference.json');

const operationDocuments = new Map();

// Loads the document of one operation, with the components that it refers to.
export function operationDocument(id) {
  if (!operationDocuments.has(id)) operationDocuments.set(id, loadOnce(at`/console/reference/${id}.json`));
  return operationDocuments.get(id)();
}

// Id, name and tag of each job; by path, as in the document.
export const jobList = loadOnce('/console/job-list.json');

// The operations that submit jobs, with the schemas of their bodies: much smaller than the whole document.
export const jobDocument = loadOnce('/console/jobs.json');

// Every job with its price and parameters.
export const modelList = loadOnce('/models');

const METHODS = ['get', 'post', 'put', 'delete'];

// Returns all operations in document order.
export function operations(document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method, ...item[method] })));
}

// Returns the operations that submit a job: POST below /proxy/ without path parameters.
export function jobs(document) {
  return operations(document).filter(({ method, path, requestBody }) =>
    method === 'post' && path.startsWith('/proxy/') && !path.includes('{') && requestBody);
}

// Returns `true` if a job can be submitted without a token.
export const allowsAnonymous = (operation) => Boolean(operation.security?.some((scheme) => Object.keys(scheme).length === 0));

// Returns the value at a JSON pointer such as `#/components/schemas/Task`.
export function pointer(document, reference) {
  const parts = reference.replace(/^#\//, '').split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return parts.reduce((value, part) => value?.[part], document);
}

// Resolves the references of a schema, and removes the alternatives `null` and empty text, which mean that a value is absent.
export function plain(document, schema = {}) {
  if (schema.$ref) return { ...plain(document, pointer(document, schema.$ref)), ...annotationsOf(schema) };
  if (schema.anyOf || schema.oneOf) {
    const choices = (schema.anyOf ?? schema.oneOf).filter((choice) => choice.type !== 'null' && choice.maxLength !== 0);
    if (choices.length === 1) return { ...plain(document, choices[0]), ...annotationsOf(schema) };
    // Alternatives that are all enumerations are merged.
    const forms = choices.map((choice) => plain(document, choice));
    if (forms.every((form) => form.enum)) return { type: forms[0].type, enum: forms.flatMap((form) => form.enum), ...annotationsOf(schema) };
  }
  const types = [schema.type].flat().filter((type) => type && type !== 'null');
  const enumeration = schema.enum?.filter((value) => value !== null);
  return { ...schema, type: types.length > 1 ? undefined : types[0], ...(enumeration && { enum: enumeration }) };
}

// Returns the keywords of a schema beside the reference or the alternatives, such as its description.
function annotationsOf({ $ref, anyOf, oneOf, ...others }) {
  return others;
}

// Returns the media type, schema and example of the body of an operation; undefined if it has none.
export function bodyOf(document, operation) {
  const [mediaType, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  return mediaType && { mediaType, schema: plain(document, content.schema), example: content.example };
}

// Returns the names of the fields of an object: required ones first, then in the order that the schema states.
export function fieldNames({ properties = {}, required = [], 'x-order': order = Object.keys(properties) }) {
  return [...order.filter((name) => required.includes(name)), ...order.filter((name) => !required.includes(name))];
}
