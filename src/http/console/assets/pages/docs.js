// API reference: the list of operations, and the parts of the OpenAPI document for the chosen one.
import { html, useEffect, useMemo, useRef, useState } from '../core/dom.js';
import { root } from '../core/api.js';
import { count } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { allowsAnonymous, fieldNames, operationDocument, operationList, operations, plain, pointer } from '../core/openapi.js';
import { to, useTitle } from '../core/router.js';
import { describeLimits } from '../core/schema.js';
import { Code, Copy, Empty, Icon, Loaded, LoadedPage, Page, Skeleton } from '../parts/basic.js';
import { focusSection } from '../parts/more.js';
import { Markdown } from '../parts/markdown.js';

// Levels of nested fields that can be opened.
const DEPTH_MAX = 4;

export function DocsPage({ parts: [id] }) {
  const list = useLoad(operationList, []);
  return html`<${LoadedPage} from=${list} title="API reference" lines=${10}>${(document) => html`
    <${Page} name="docs" title="API reference" lead=${html`<${Introduction} document=${document} />`}
        actions=${html`<a class="button quiet" href=${new URL('openapi.json', root).href} download="openapi.json">
          <${Icon} name="download" />openapi.json</a>`}>
      <${Reference} document=${document} id=${id} /></${Page}>`}</${LoadedPage}>`;
}

const Introduction = ({ document: { openapi, info } }) => html`The HTTP API of this service: a registry of nodes, and a gateway to the generation of images, videos and music.${' '}
  Base URL: <span class="id"><code>${root.href}</code><${Copy} text=${root.href} label="Copy the base URL" /></span>${' '}
  Authentication: send <code>Authorization: Bearer …</code> with a token from your <a href=${to('account')}>account</a>.${' '}
  Errors are <code>application/problem+json</code> with a stable code in <code>error</code>; each operation lists its codes.${' '}
  OpenAPI ${openapi}, version ${info.version}.`;

function Reference({ document, id }) {
  const all = useMemo(() => operations(document), [document]);
  const [text, setText] = useState('');
  const shown = all.find((operation) => operation.operationId === id);
  const needles = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = all.filter((operation) => needles.every((needle) => `${operation.method} ${operation.path} ${operation.summary} ${operation.operationId}`.toLowerCase().includes(needle)));
  const groups = Map.groupBy(matching, (operation) => operation.tags[0]);
  useTitle(shown ? shown.summary : 'API reference');
  const content = useRef(null);
  const previousId = useRef(id);
  // Scrolls to the chosen operation; the list keeps its scroll position.
  useEffect(() => {
    if (previousId.current === id) return;
    previousId.current = id;
    focusSection(content.current);
  }, [id]);
  return html`<div class="bench reference">
    <nav class="panel index" aria-label="Operations">
      <div class="search"><${Icon} name="search" />
        <input type="search" aria-label="Search operations" placeholder="Search operations" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
      ${matching.length === 0 && html`<p class="muted">No matching operations.</p>`}
      ${[...groups].map(([tag, operations]) => html`<section key=${tag}><h2>${tag}</h2><ul>
        ${operations.map((operation) => html`<li key=${operation.operationId}>
        <a href=${to('docs', operation.operationId)} aria-current=${operation === shown ? 'page' : undefined}>
          <span class="method ${operation.method}">${operation.method}</span>
          <span>${operation.summary}<code class="path"><${Path} of=${operation.path} /></code></span></a></li>`)}</ul></section>`)}
    </nav>
    <article ref=${content} class="panel" tabindex="-1">
      ${shown ? html`<${Operation} key=${shown.operationId} entry=${shown} />` : id ? html`<${Empty} icon="docs" title="Operation not found">Choose one from the list.</${Empty}>`
      : html`<${Markdown} text=${document.info.description} /><p class="muted">${count(all.length, 'operation')}. Choose one from the list.</p>`}
        </article>
  </div>`;
}

// Allows line breaks between segments.
const Path = ({ of }) => of.split(/(?=\/)/).map((part, index) => html`${index > 0 && html`<wbr />`}${part}`);

// The operation, once both its document and the code of its form are loaded, so that the layout does not move.
function Operation({ entry }) {
  const needed = useLoad(async () => {
    const [document, { RequestSection }] = await Promise.all([operationDocument(entry.operationId), import('../parts/request.js')]);
    return { document, RequestSection };
  }, []);
  return html`<header class="operation"><h2>${entry.summary}</h2>
      <p><span class="method ${entry.method}">${entry.method}</span> <code class="path">${entry.path}</code></p></header>
    <${Loaded} from=${needed} skeleton=${html`<${Skeleton} lines=${10} />`}>${({ document, RequestSection }) => {
    const [operation] = operations(document);
    return html`<${Details} ...${{ document, operation, RequestSection }} />`;
  }}</${Loaded}>`;
}

function Details({ document, operation, RequestSection }) {
  const parameters = (operation.parameters ?? []).map((parameter) => (parameter.$ref ? pointer(document, parameter.$ref) : parameter));
  const open = allowsAnonymous(operation);
  const content = operation.requestBody?.content ?? {};
  return html`<p class="row"><span class="state ${open ? 'good' : 'calm'}">${open ? 'No token required' : 'Token required'}</span><code class="muted">
      ${operation.operationId}</code></p>
    <${Markdown} text=${operation.description} />
    <${RequestSection} ...${{ document, operation, parameters }} />
    ${parameters.length > 0 && html`<h3>Parameters</h3><${Table} head=${['Name', 'Description']}>
      ${parameters.map((parameter) => html`<tr key=${parameter.in + parameter.name}>
      <td data-label="Name"><code>${parameter.name}</code><br /><span class="muted small">${parameter.in}${parameter.required ? ', required' : ''}
        </span></td>
      <td data-label="Description"><div><${Markdown} text=${parameter.description} />
        <${Limits} document=${document} schema=${plain(document, parameter.schema)} /></div></td></tr>`)}</${Table}>`}
    ${Object.entries(content).map(([type, { schema, example }]) => html`<h3>Body <code class="muted small">${type}</code></h3>
      <${Schema} document=${document} schema=${schema} />
        ${example !== undefined && html`<${Example} value=${example} label="Example body" />`}`)}
    <h3>Responses</h3>
    ${Object.entries(operation.responses).filter(([status]) => status < '400').map(([status, response]) => html`<section class="response" key=${status}>
      <h4><span class="state good">${status}</span> ${response.description}</h4>
      ${Object.entries(response.content ?? {}).map(([type, { schema, example }]) => html`<p class="muted small">${type}</p>
        <${Schema} document=${document} schema=${schema} />
        ${example !== undefined && html`<${Example} value=${example} label="Example response" />`}`)}</section>`)}
    <h3>Errors</h3>
    <${Table} head=${['Status', 'Codes']}>
      ${Object.entries(operation.responses).filter(([status]) => status >= '400').map(([status, response]) => html`<tr key=${status}>
      <td data-label="Status"><strong>${status}</strong></td>
      <td data-label="Codes"><${Markdown} text=${errorList(response)} /></td></tr>`)}</${Table}>`;
}

// Returns the error codes in the description of a response, one a line, as a list.
const errorList = (response) => response.description.split(/\s*\n/).map((line) => `- ${line}`).join('\n');

const Table = ({ head, children }) => html`<table class="table small"><thead><tr>${head.map((name) => html`<th key=${name}>${name}</th>`)}</tr>
  </thead><tbody>${children}</tbody></table>`;

const Example = ({ value, label }) => html`<details class="more"><summary>Example</summary>
  <${Code} label=${label} text=${typeof value === 'string' ? value : JSON.stringify(value, null, 2)} /></details>`;

function Limits({ document, schema }) {
  const items = schema.items && plain(document, schema.items);
  const choices = schema.enum ?? items?.enum;
  const form = [schema.format, items && `list of ${items.type ?? 'values'}`].filter(Boolean);
  const facts = [schema.type, ...form, describeLimits({ schema }), schema.default !== undefined && `default ${JSON.stringify(schema.default)}`].filter(Boolean);
  return html`<p class="muted small">${facts.join(' · ')}</p>
    ${choices && html`<p class="choices">${choices.map((choice) => html`<code key=${choice}>${String(choice)}</code> `)}</p>`}
    ${schema.pattern && schema.pattern.length < 90 && html`<p class="muted small">pattern <code>${schema.pattern}</code></p>`}`;
}

function Schema({ document, schema, depth = 0 }) {
  const form = plain(document, schema);
  const inner = form.type === 'array' ? plain(document, form.items) : form;
  if (!inner.properties) return depth ? null : html`<${Limits} document=${document} schema=${form} />`;
  const required = inner.required ?? [];
  return html`<ul class="schema">
    ${form.type === 'array' && html`<li class="muted small">a list, each entry with:</li>`}${fieldNames(inner).map((name) => {
    const field = plain(document, inner.properties[name]);
    const deep = field.properties ?? (field.items && plain(document, field.items).properties);
    return html`<li key=${name}><div class="row"><code>${name}</code>${required.includes(name) && html`<span class="required">required</span>`}</div>
      <${Markdown} text=${field.description} /><${Limits} document=${document} schema=${field} />
      ${deep && depth < DEPTH_MAX && html`<details class="more"><summary>Fields</summary>
        <${Schema} document=${document} schema=${field} depth=${depth + 1} /></details>`}</li>`;
  })}</ul>`;
}
