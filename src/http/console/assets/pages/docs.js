// API reference, generated from the OpenAPI document.
import { html, useEffect, useMemo, useRef, useState } from '../core/dom.js';
import { root } from '../core/api.js';
import { count } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { openapi, operations, plain, pointer } from '../core/openapi.js';
import { to, useTitle } from '../core/router.js';
import { describeLimits } from '../core/schema.js';
import { Code, Empty, Icon, LoadedPage, Page } from '../parts/basic.js';
import { focusSection } from '../parts/more.js';
import { Markdown } from '../parts/markdown.js';

const DEEPEST = 4;

export function DocsPage({ parts: [id] }) {
  const document = useLoad(openapi, []);
  return html`<${LoadedPage} from=${document} title="API reference" lines=${10}>${(document) => html`
    <${Page} name="docs" title="API reference" lead=${`OpenAPI ${document.openapi}, version ${document.info.version}: generated from the document of this service.`}
        actions=${html`<a class="button quiet" href=${new URL('openapi.json', root).href} download="openapi.json">
          <${Icon} name="download" />openapi.json</a>`}>
      <${Reference} document=${document} id=${id} /></${Page}>`}</${LoadedPage}>`;
}

function Reference({ document, id }) {
  const all = useMemo(() => operations(document), [document]);
  const [text, set] = useState('');
  const shown = all.find((operation) => operation.operationId === id);
  const needles = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((operation) => needles.every((needle) => `${operation.method} ${operation.path} ${operation.summary} ${operation.operationId}`.toLowerCase().includes(needle)));
  const groups = Map.groupBy(found, (operation) => operation.tags[0]);
  useTitle(shown ? shown.summary : 'API reference');
  const place = useRef(null);
  const before = useRef(id);
  // Scrolls to the chosen operation; the list keeps its scroll position.
  useEffect(() => {
    if (before.current === id) return;
    before.current = id;
    focusSection(place.current);
  }, [id]);
  return html`<div class="bench reference">
    <nav class="panel index" aria-label="Operations">
      <div class="search"><${Icon} name="search" />
        <input type="search" aria-label="Search operations" placeholder="Search operations" value=${text} onInput=${(event) => set(event.target.value)} /></div>
      ${found.length === 0 && html`<p class="muted">No matching operations.</p>`}
      ${[...groups].map(([tag, operations]) => html`<section key=${tag}><h2>${tag}</h2><ul>
        ${operations.map((operation) => html`<li key=${operation.operationId}>
        <a href=${to('docs', operation.operationId)} aria-current=${operation === shown ? 'page' : undefined}>
          <span class="method ${operation.method}">${operation.method}</span><span>${operation.summary}</span></a></li>`)}</ul></section>`)}
    </nav>
    <article ref=${place} class="panel" tabindex="-1">
      ${shown ? html`<${Operation} key=${shown.operationId} document=${document} operation=${shown} />` : id ? html`<${Empty} icon="docs" title="Operation not found">Choose one from the list.</${Empty}>`
      : html`<${Markdown} text=${document.info.description} /><p class="muted">${count(all.length, 'operation')}. Choose one from the list.</p>`}
        </article>
  </div>`;
}

function Operation({ document, operation }) {
  const parameters = (operation.parameters ?? []).map((parameter) => (parameter.$ref ? pointer(document, parameter.$ref) : parameter));
  const open = operation.security?.some((way) => Object.keys(way).length === 0);
  const content = operation.requestBody?.content ?? {};
  return html`<header class="operation"><h2>${operation.summary}</h2>
      <p><span class="method ${operation.method}">${operation.method}</span> <code class="path">${operation.path}</code></p>
      <p class="row"><span class="state ${open ? 'good' : 'calm'}">${open ? 'No token required' : 'Token required'}</span><code class="muted">
        ${operation.operationId}</code></p></header>
    <${Markdown} text=${operation.description} />
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
    ${Object.entries(operation.responses).filter(([status]) => status < '400').map(([status, answer]) => html`<section class="answer" key=${status}>
      <h4><span class="state good">${status}</span> ${answer.description}</h4>
      ${Object.entries(answer.content ?? {}).map(([type, { schema, example }]) => html`<p class="muted small">${type}</p>
        <${Schema} document=${document} schema=${schema} />
        ${example !== undefined && html`<${Example} value=${example} label="Example response" />`}`)}</section>`)}
    <h3>Errors</h3>
    <${Table} head=${['Status', 'Codes']}>
      ${Object.entries(operation.responses).filter(([status]) => status >= '400').map(([status, answer]) => html`<tr key=${status}>
      <td data-label="Status"><strong>${status}</strong></td>
      <td data-label="Codes"><${Markdown} text=${failures(document, answer)} /></td></tr>`)}</${Table}>`;
}

const failures = (document, answer) => (answer.description ?? pointer(document, answer.$ref)?.description ?? '').split(/\s*\n/).map((line) => `- ${line}`).join('\n');

const Table = ({ head, children }) => html`<table class="table small"><thead><tr>${head.map((name) => html`<th key=${name}>${name}</th>`)}</tr>
  </thead><tbody>${children}</tbody></table>`;

const Example = ({ value, label }) => html`<details class="more"><summary>Example</summary>
  <${Code} label=${label} text=${typeof value === 'string' ? value : JSON.stringify(value, null, 2)} /></details>`;

function Limits({ document, schema }) {
  const items = schema.items && plain(document, schema.items);
  const choices = schema.enum ?? items?.enum;
  const form = [schema.format, items && `list of ${items.type ?? 'values'}`].filter(Boolean);
  const told = [schema.type, ...form, describeLimits({ schema }), schema.default !== undefined && `default ${JSON.stringify(schema.default)}`].filter(Boolean);
  return html`<p class="muted small">${told.join(' · ')}</p>
    ${choices && html`<p class="choices">${choices.map((choice) => html`<code key=${choice}>${String(choice)}</code> `)}</p>`}
    ${schema.pattern && schema.pattern.length < 90 && html`<p class="muted small">pattern <code>${schema.pattern}</code></p>`}`;
}

function Schema({ document, schema, depth = 0 }) {
  const form = plain(document, schema);
  const inner = form.type === 'array' ? plain(document, form.items) : form;
  if (!inner.properties) return depth ? null : html`<${Limits} document=${document} schema=${form} />`;
  const required = inner.required ?? [];
  return html`<ul class="schema">
    ${form.type === 'array' && html`<li class="muted small">a list, each entry with:</li>`}${Object.entries(inner.properties).map(([name, property]) => {
    const field = plain(document, property);
    const deep = field.properties ?? (field.items && plain(document, field.items).properties);
    return html`<li key=${name}><div class="row"><code>${name}</code>${required.includes(name) && html`<span class="required">required</span>`}</div>
      <${Markdown} text=${field.description} /><${Limits} document=${document} schema=${field} />
      ${deep && depth < DEEPEST && html`<details class="more"><summary>Fields</summary>
        <${Schema} document=${document} schema=${field} depth=${depth + 1} /></details>`}</li>`;
  })}</ul>`;
}
