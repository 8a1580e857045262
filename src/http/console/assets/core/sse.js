// Server-sent events over fetch, because EventSource cannot send a token. Broken connections resume with
// `Last-Event-ID`.
import { send, Problem } from './api.js';

const RETRY_MS = 2000;
const RETRY_MAX_MS = 30000;

// 'lost', why)`, where a connection that only ended has no reason. | Reads until the stream ends or is aborted.
// Calls `onEvent({ id, event, data })` and `onState('live' or 'lost', why)`; `why` is null if the connection only
// ended. | 'lost', why)`, where a connection that only ended has no reason.
export async function follow(path, { query, onEvent, onState = () => {}, signal, ended = () => false }) {
  const resume = { id: undefined, wait: RETRY_MS };
  for (let failures = 0; !signal.aborted; ) {
    let reason = null;
    try {
      const headers = resume.id === undefined ? {} : { 'Last-Event-ID': resume.id };
      const answer = await send('GET', path, { query, headers, signal });
      if (answer.status === 204) return;
      onState('live');
      failures = 0;
      await read(answer.body, resume, onEvent);
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
    const [name, value] = split(line);
    if (name === 'data') fields.data.push(value);
    else if (name === 'retry' && /^\d+$/.test(value)) resume.wait = Number(value);
    else fields[name] = value;
  }
  if (fields.id !== undefined) resume.id = fields.id;
  if (!fields.data.length) return;
  const data = JSON.parse(fields.data.join('\n'));
  // A `failed` event states why the stream ends; reconnect.
  if (fields.event === 'failed') throw new Problem(data);
  onEvent({ id: fields.id, event: fields.event, data });
}

function split(line) {
  const colon = line.indexOf(':');
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
