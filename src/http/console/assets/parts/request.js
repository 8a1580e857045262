// The request of an operation: as a program, and the form that sends it, which is loaded when it is opened.
import { html, useState } from '../core/dom.js';
import { root, search } from '../core/api.js';
import { allowsAnonymous, bodyOf } from '../core/openapi.js';
import { body } from '../core/schema.js';
import { ProgramTabs } from './code.js';
import { lazy } from './lazy.js';

const TryRequest = lazy(() => import('./try_request.js'), 'TryRequest');

const FORM = 'multipart/form-data';
const JSON_TYPE = 'application/json';

export function RequestSection({ document, operation, parameters }) {
  const given = bodyOf(document, operation);
  // What is filled in: parameters by place, and the body as fields, text or file.
  const [values, set] = useState({ inUrl: {}, headers: {}, form: given?.example ?? {}, text: JSON.stringify(given?.example ?? {}, null, 2), file: null });
  const [isOpened, open] = useState(false);
  const request = requestOf(document, operation, parameters, given, values);
  return html`<h3>Request</h3>
    <${ProgramTabs} address=${request.address} request=${{ method: request.method, token: !allowsAnonymous(operation) || request.method !== 'GET', ...request.content.program }} />
    <details class="more try" onToggle=${() => open(true)}><summary>Try it</summary>
      ${isOpened && html`<${TryRequest} ...${{ document, operation, given, values, request }} onChange=${set} />`}</details>`;
}

// Method, path and query, the whole URL, and the body. Missing parts of the path are left as they are.
function requestOf(document, operation, parameters, given, values) {
  const groups = { inUrl: schemaOf(parameters, ['path', 'query']), headers: schemaOf(parameters, ['header']) };
  const sent = body(document, groups.inUrl, values.inUrl, String);
  const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
  const query = Object.fromEntries(Object.entries(sent).filter(([name]) => !inPath.includes(name)));
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (whole, name) => (sent[name] === undefined ? whole : encodeURIComponent(sent[name])));
  const missing = groups.inUrl.required.filter((name) => sent[name] === undefined).map((name) => ({ pointer: `/${name}`, reason: 'is required' }));
  const address = new URL(path.slice(1), root).href.replaceAll('%7B', '{').replaceAll('%7D', '}') + search(query);
  return { method: operation.method.toUpperCase(), path, query, address, groups, missing, content: contentOf(document, given, values) };
}

// Object schema with the parameters in these places as its fields.
function schemaOf(parameters, places) {
  const found = parameters.filter((parameter) => places.includes(parameter.in));
  return {
    type: 'object',
    properties: Object.fromEntries(found.map(({ name, schema, description }) => [name, { ...schema, description }])),
    required: found.filter(({ required }) => required).map(({ name }) => name),
  };
}

// The body: what is sent (`options` and `type`), what a program sends, and what is missing.
function contentOf(document, given, { text, form: values, file }) {
  if (!given) return { options: {}, program: {}, faults: [] };
  if (given.mediaType === FORM) {
    const form = body(document, given.schema, values, String);
    const faults = (given.schema.required ?? []).filter((name) => form[name] === undefined).map((name) => ({ pointer: `/${name}`, reason: 'is required' }));
    const data = new FormData();
    for (const [name, value] of Object.entries(form)) data.append(name, value);
    return { options: { form: data }, program: { form }, faults };
  }
  if (given.mediaType !== JSON_TYPE) {
    const type = given.mediaType;
    return { options: { form: file }, type, program: { file: { name: file?.name ?? 'file', type } }, faults: file ? [] : [{ pointer: '/body', reason: 'is required' }] };
  }
  try {
    const json = JSON.parse(text);
    return { options: { body: json }, program: { json }, faults: [] };
  } catch (failure) {
    return { options: {}, program: { json: {} }, faults: [{ pointer: '/body', reason: `is not JSON: ${failure.message}` }] };
  }
}
