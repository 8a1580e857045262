// Server-sent events over fetch, because EventSource cannot send a token. Broken connections resume with
// `Last-Event-ID`.
import { send, Problem } from './api.js';

// First pause before a reconnection, unless the service sends another (`retry`). It doubles with each failure.
const RETRY_MS = 2000;
const RETRY_MAX_MS = 30000;

// Reads a stream, and reconnects until the service has no more events (204), `ended()` is true or `signal` aborts.
// Throws on a final error (4xx except 429). Calls `onEvent({ id, event, data })`, and `onState(state, problem)` with
// the state 'live' or 'lost'; `problem` is the reason of the service for a lost connection, if it gave one.
export async function follow(path, { query, onEvent, onState = () => {}, signal, ended = () => false }) {
  const resume = { id: undefined, wait: RETRY_MS };
  for (let failures = 0; !signal.aborted; ) {
    let reason = null;
    try {
      const headers = resume.id === undefined ? {} : { 'Last-Event-ID': resume.id };
      const response = await send('GET', path, { query, headers, signal });
      if (response.status === 204) return;
      onState('live');
      failures = 0;
      await read(response.body, resume, onEvent);
      if (ended()) return;
    } catch (failure) {
      if (signal.aborted) return;
      if (failure instanceof Problem && failure.status >= 400 && failure.status < 500 && failure.status !== 429) throw failure;
      reason = failure instanceof Problem ? failure : null;
    }
    onState('lost', reason);
    await pause(Math.min(resume.wait * 2 ** failures++, RETRY_MAX_MS), signal);
  }
}

async function read(body, resume, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (buffer + value.replaceAll('\r\n', '\n')).split('\n\n');
    buffer = blocks.pop();
    blocks.forEach((block) => parseBlock(block, resume, onEvent));
  }
}

function parseBlock(block, resume, onEvent) {
  const fields = { event: 'message', data: [] };
  for (const line of block.split('\n').filter((line) => line && !line.startsWith(':'))) {
    const [name, value] = splitField(line);
    if (name === 'data') fields.data.push(value);
    else if (name === 'retry' && /^\d+$/.test(value)) resume.wait = Number(value);
    else fields[name] = value;
  }
  if (fields.id !== undefined) resume.id = fields.id;
  if (!fields.data.length) return;
  const data = JSON.parse(fields.data.join('\n'));
  // A `failed` event says why the service ends the stream. The caller reconnects.
  if (fields.event === 'failed') throw new Problem(data);
  onEvent({ id: fields.id, event: fields.event, data });
}

function splitField(line) {
  const colon = line.indexOf(':');
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
