// The form that sends the request of an operation, and the response.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { Problem, request as sendRequest } from '../core/api.js';
import { bytes } from '../core/format.js';
import { useElementId } from '../core/identity.js';
import { allowsAnonymous } from '../core/openapi.js';
import { applyChange, body } from '../core/schema.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Code, ErrorMessage } from './basic.js';
import { Confirm } from './confirm.js';
import { Fields } from './fields.js';
import { FormTrouble } from './form.js';
import { askToSignIn } from './login.js';

// Maximum number of characters of a response that are shown.
const SHOWN_MAX = 100_000;

export function TryRequest({ document, operation, bodySpec, values, request, onChange }) {
  const { user } = useStore(session);
  const isOpen = allowsAnonymous(operation);
  const [problem, setProblem] = useState(null);
  const [isConfirming, setIsConfirming] = useState(false);
  const { result, isBusy, send, stop } = useRequest();
  const { method, path, query, groups, content } = request;
  const change = (name) => (change) => onChange((before) => ({ ...before, [name]: applyChange(change, before[name]) }));
  const fieldsOf = (group) => html`<${Fields} ...${{ document, problem }} schema=${groups[group]} values=${values[group]} onChange=${change(group)} />`;

  const submit = (event) => {
    event.preventDefault();
    const faults = [...request.missing, ...content.faults];
    setProblem(faults.length > 0 ? new Problem({ title: 'Incomplete request', detail: 'The request is incomplete.', errors: faults }) : null);
    if (faults.length > 0) return;
    if (!user && !isOpen) askToSignIn();
    else if (method === 'GET') run();
    else setIsConfirming(true);
  };
  const run = () => {
    setIsConfirming(false);
    const headers = { ...body(document, groups.headers, values.headers, String), ...(content.type && { 'Content-Type': content.type }) };
    send(method, path, { query, headers, ...content.options });
  };
  return html`<form class="form" onSubmit=${submit} novalidate aria-label="Try it">
      <${FormTrouble} problem=${problem} />
      ${fieldsOf('inUrl')}
      ${bodySpec && html`<${BodyInput} ...${{ document, bodySpec, values, change, problem }} />`}
      ${Object.keys(groups.headers.properties).length > 0 && html`<details class="field more"><summary>Headers</summary><div class="form">${fieldsOf('headers')}</div></details>`}
      <footer><button class="button" disabled=${isBusy}>${isBusy ? 'Please wait' : user || isOpen ? 'Send request' : 'Sign in and send'}</button>
        ${isBusy && html`<button type="button" class="button quiet" onClick=${stop}>Stop</button>`}
        <span class="muted small">${user ? 'Sent to this service with your token.' : isOpen ? 'Sent to this service without a token.' : 'Needs a token.'}</span></footer>
    </form>
    <${RequestResult} result=${result} />
    ${isConfirming && html`<${Confirm} title=${`Send ${method} request?`} action="Send" onClose=${() => setIsConfirming(false)} work=${async () => {}} onDone=${run}>
      ${method === 'DELETE' ? 'This deletes from' : 'This can change'} the data of this service: <code class="path">${method} ${decodeURI(path)}</code></${Confirm}>`}`;
}

function BodyInput({ document, bodySpec, values, change, problem }) {
  const id = useElementId('body');
  if (bodySpec.mediaType === 'multipart/form-data') return html`<${Fields} ...${{ document, problem }} schema=${bodySpec.schema} values=${values.form} onChange=${change('form')} />`;
  const fault = problem?.at('/body');
  const shared = { id, 'aria-invalid': fault ? 'true' : undefined, 'aria-describedby': fault ? `${id}-fault` : undefined };
  return html`<div class="field ${fault ? 'faulty' : ''}"><label for=${id}>Body <span class="muted small">${bodySpec.mediaType}</span></label>
    ${bodySpec.mediaType === 'application/json'
      ? html`<textarea class="json" ...${shared} rows=${Math.min(values.text.split('\n').length + 1, 16)} spellcheck="false" value=${values.text} onInput=${(event) => change('text')(event.target.value)}></textarea>`
      : html`<input type="file" ...${shared} onChange=${(event) => change('file')(event.target.files[0] ?? null)} />`}
    ${fault && html`<p class="fault" id=${`${id}-fault`}>${fault}</p>`}</div>`;
}

// Sends one request at a time. `result` is the response so far, which grows while the body of a stream arrives, or the
// `problem` that prevented a response.
function useRequest() {
  const [state, setState] = useState({ result: null, isBusy: false });
  const abort = useRef(null);
  const stop = () => abort.current?.abort();
  useEffect(() => stop, []);
  const send = async (method, path, options) => {
    stop();
    const { signal } = abort.current = new AbortController();
    const start = performance.now();
    const show = (result, isBusy) => { if (abort.current.signal === signal) setState({ result, isBusy }); };
    let result = null;
    show(result, true);
    try {
      const response = await sendRequest(method, path, { ...options, signal });
      const { status, statusText } = response;
      result = { status, statusText, ms: Math.round(performance.now() - start), headers: [...response.headers], text: '' };
      show(result, true);
      const onText = (text) => { result = { ...result, text }; show(result, true); };
      const content = await readContent(response, onText);
      result = { ...result, ...content };
    } catch (failure) {
      if (!signal.aborted) result = { problem: Problem.of(failure) };
    }
    show(result, false);
  };
  return { ...state, send, stop };
}

// Reads a response: its text as it arrives, or the type and size of a body that is not text.
async function readContent(response, onText) {
  const type = response.headers.get('Content-Type') ?? '';
  if (!response.body) return { text: '' };
  if (type && !/json|text|xml|svg/.test(type)) return { type, size: (await response.blob()).size };
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return { text: /json$|json;/.test(type) && !/ndjson/.test(type) ? indented(text) : text };
    text += value;
    onText(text);
    if (text.length > SHOWN_MAX) {
      await reader.cancel();
      return { text: text.slice(0, SHOWN_MAX), isCut: true };
    }
  }
}

function indented(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function RequestResult({ result }) {
  if (!result) return null;
  if (result.problem) return html`<${ErrorMessage} problem=${result.problem} />`;
  const { status, statusText, ms, headers, text, type, size, isCut } = result;
  return html`<section class="response" aria-label="Response">
    <div role="status"><h4><span class="state ${status < 400 ? 'good' : 'bad'}">${status}</span> ${statusText} <span class="muted small">after ${ms} ms</span></h4></div>
    <details class="more"><summary>Response headers</summary><${Code} label="Response headers" text=${headers.map(([name, value]) => `${name}: ${value}`).join('\n')} /></details>
    ${type ? html`<p class="muted">${type}, ${bytes(size)}</p>` : text ? html`<${Code} label="Response body" text=${text} />` : html`<p class="muted">The response has no body.</p>`}
    ${isCut && html`<p class="muted small">Only the beginning is shown.</p>`}</section>`;
}
