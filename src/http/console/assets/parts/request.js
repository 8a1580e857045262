// The request of an operation: as a program, and in a form that sends it, which is loaded when it is opened.
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
  const bodySpec = bodyOf(document, operation);
  // User input: parameters by place, and the body as fields, text or file.
  const [values, setValues] = useState({ inUrl: {}, headers: {}, form: bodySpec?.example ?? {}, text: JSON.stringify(bodySpec?.example ?? {}, null, 2), file: null });
  const [isOpened, setIsOpened] = useState(false);
  const request = buildRequest(document, operation, parameters, bodySpec, values);
  return html`<h3>Request</h3>
    <${ProgramTabs} address=${request.address} request=${{ method: request.method, token: !allowsAnonymous(operation) || request.method !== 'GET', ...request.content.program }} />
    <details class="more try" onToggle=${() => setIsOpened(true)}><summary>Try it</summary>
      ${isOpened && html`<${TryRequest} ...${{ document, operation, bodySpec, values, request }} onChange=${setValues} />`}</details>`;
}

// Returns the request: method, path, query, whole URL and body. Parameters of the path without a value stay `{name}`.
function buildRequest(document, operation, parameters, bodySpec, values) {
  const groups = { inUrl: schemaOf(parameters, ['path', 'query']), headers: schemaOf(parameters, ['header']) };
  const sent = body(document, groups.inUrl, values.inUrl, String);
  const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
  const query = Object.fromEntries(Object.entries(sent).filter(([name]) => !inPath.includes(name)));
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (whole, name) => (sent[name] === undefined ? whole : encodeURIComponent(sent[name])));
  const missing = groups.inUrl.required.filter((name) => sent[name] === undefined).map((name) => ({ pointer: `/${name}`, reason: 'is required' }));
  const address = new URL(path.slice(1), root).href.replaceAll('%7B', '{').replaceAll('%7D', '}') + search(query);
  return { method: operation.method.toUpperCase(), path, query, address, groups, missing, content: buildContent(document, bodySpec, values) };
}

// Returns an object schema whose fields are the parameters in these places.
function schemaOf(parameters, places) {
  const selected = parameters.filter((parameter) => places.includes(parameter.in));
  return {
    type: 'object',
    properties: Object.fromEntries(selected.map(({ name, schema, description }) => [name, { ...schema, description }])),
    required: selected.filter(({ required }) => required).map(({ name }) => name),
  };
}

// Returns the body: what the console sends (`options`, and the content type of a file), the `program` that sends the same,
// and the `faults` that prevent it.
function buildContent(document, bodySpec, { text, form: values, file }) {
  if (!bodySpec) return { options: {}, program: {}, faults: [] };
  if (bodySpec.mediaType === FORM) {
    const form = body(document, bodySpec.schema, values, String);
    const faults = (bodySpec.schema.required ?? []).filter((name) => form[name] === undefined).map((name) => ({ pointer: `/${name}`, reason: 'is required' }));
    const data = new FormData();
    for (const [name, value] of Object.entries(form)) data.append(name, value);
    return { options: { form: data }, program: { form }, faults };
  }
  if (bodySpec.mediaType !== JSON_TYPE) {
    const type = bodySpec.mediaType;
    return { options: { form: file }, type, program: { file: { name: file?.name ?? 'file', type } }, faults: file ? [] : [{ pointer: '/body', reason: 'is required' }] };
  }
  try {
    const json = JSON.parse(text);
    return { options: { body: json }, program: { json }, faults: [] };
  } catch (failure) {
    return { options: {}, program: { json: {} }, faults: [{ pointer: '/body', reason: `is not JSON: ${failure.message}` }] };
  }
}
