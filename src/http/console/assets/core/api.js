// The public interface, and nothing else: every page asks through here.
import * as session from './session.js';

// The page is at the root of the service or behind a prefix of a proxy; everything is found from where it is.
export const root = new URL('.', document.baseURI);

// A path with its parts encoded: at`/nodes/${id}`.
export const at = (texts, ...parts) =>
  texts.reduce((path, text, index) => path + encodeURIComponent(parts[index - 1]) + text);

// What an address of the service's own results is from here, whatever name the service gives itself.
export function here(address) {
  const found = /\/((?:media|nodes)\/.*)$/.exec(URL.canParse(address) ? new URL(address).pathname : '');
  return found ? new URL(found[1], root).href : null;
}

// A failure as the service tells it (RFC 9457), or as the network does.
export class Problem extends Error {
  constructor({ status = 0, error = 'unreachable', title, detail, errors = [], retryAfter, request }) {
    super(detail || title || 'Something went wrong.');
    Object.assign(this, { status, code: error, title: title || 'Service unreachable', errors, retryAfter, request });
  }

  // Any failure as one of these, so that it can be shown like them.
  static of(failure) {
    return failure instanceof Problem ? failure : new Problem({ error: 'unknown', title: 'Something went wrong', detail: failure?.message });
  }

  // Whether it tells what became of the request. Otherwise that may have been carried out all the same, and coming again it must be known again.
  get isFinal() {
    return this.status >= 400 && this.status < 500 && this.code !== 'idempotency_key_in_use';
  }

  // What is wrong with a field, by its JSON pointer.
  at(pointer) {
    return this.errors.filter((fault) => fault.pointer === pointer).map((fault) => fault.reason).join('; ');
  }
}

export function search(query = {}) {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const given = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

// The answer as it comes; failures are thrown as problems.
export async function open(method, path, { query, body, form, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (session.token()) sent.Authorization = `Bearer ${session.token()}`;
  if (body !== undefined) sent['Content-Type'] = 'application/json';
  const address = new URL(path.replace(/^\//, '') + search(query), root);
  let answer;
  try {
    const content = form ?? (body === undefined ? undefined : JSON.stringify(body));
    answer = await fetch(address, { method, headers: sent, body: content, signal, credentials: 'omit' });
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new Problem({ detail: 'No response. Is the service running? Try again.' });
  }
  if (answer.status >= 400) throw await problem(answer);
  return answer;
}

async function problem(answer) {
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && session.token() && session.session.get().user) session.end();
  const [retryAfter, request] = [answer.headers.get('Retry-After'), answer.headers.get('X-Request-Id')];
  return new Problem({ title: `The service responded with ${answer.status}`, ...told, status: answer.status, retryAfter, request });
}

// The JSON of an answer, with its total where the answer tells it apart; null where there is nothing.
export async function call(method, path, options) {
  const answer = await open(method, path, options);
  return answer.status === 204 ? null : answer.json().catch((failure) => {
    if (options?.signal?.aborted) throw failure;
    throw new Problem({ error: 'broken', title: 'Unreadable response', detail: 'The response is incomplete or not from the service. Try again.' });
  });
}

export const get = (path, query, signal) => call('GET', path, { query, signal });
export const post = (path, body = {}) => call('POST', path, { body });
export const put = (path, body) => call('PUT', path, { body });
export const remove = (path) => call('DELETE', path);
