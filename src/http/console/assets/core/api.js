// Client of the public API. All requests of the console go through this module.
import * as session from './session.js';

// Base URL of the console, which may be below a path prefix of a proxy.
export const root = new URL('.', document.baseURI);

// Builds a path with encoded segments: at`/nodes/${id}`.
export const at = (texts, ...parts) =>
  texts.reduce((path, text, index) => path + encodeURIComponent(parts[index - 1]) + text);

// Rewrites a media or archive URL of this service to the base URL of the page; null for other URLs.
export function toLocalUrl(address) {
  if (!URL.canParse(address)) return null;
  const { pathname, search } = new URL(address);
  const match = /\/((?:media|nodes)\/.*)$/.exec(pathname);
  return match ? new URL(match[1] + search, root).href : null;
}

// Returns the URL of a small version of a picture of this service. `size` is `small` for rows or `large` for cards.
export function thumbnailOf(address, size) {
  const url = new URL(address);
  url.searchParams.set('thumbnail', size);
  return url.href;
}

// Error of a request: a problem response (RFC 9457) or a network failure.
export class Problem extends Error {
  constructor({ status = 0, error = 'unreachable', title, detail, errors = [], retryAfter, request, ...others }) {
    super(detail || title || 'Something went wrong.');
    // Members that only some error codes have, such as the budget of `budget_exceeded`.
    this.others = others;
    Object.assign(this, { status, code: error, title: title || 'Service unreachable', errors, retryAfter, request });
  }

  // Wraps any exception as a Problem.
  static of(failure) {
    return failure instanceof Problem ? failure : new Problem({ error: 'unknown', title: 'Something went wrong', detail: failure?.message });
  }

  // `true` if the outcome of the request is known. Otherwise it may have been executed, and a retry must use the same
  // idempotency key.
  get isFinal() {
    return this.status >= 400 && this.status < 500 && this.code !== 'idempotency_key_in_use';
  }

  // Returns the problem without the errors of fields that the user has changed since; null if no error is left. The
  // result has `isRest`, so that a form does not move the focus to it again.
  without(isChanged) {
    const errors = this.errors.filter(({ pointer }) => !isChanged(pointer));
    if (errors.length === this.errors.length) return this;
    if (errors.length === 0) return null;
    const { status, code: error, title, message: detail, retryAfter, request, others } = this;
    return Object.assign(new Problem({ ...others, status, error, title, detail, errors, retryAfter, request }), { isRest: true });
  }

  // Returns the errors of the field at a JSON pointer as one text; empty if there is none.
  at(pointer) {
    return this.errors.filter((error) => error.pointer === pointer).map((error) => error.reason).join('; ');
  }
}

// Returns the query string of the parameters that have a value, with `?`; an array repeats its parameter.
export function search(query = {}) {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((item) => [name, item]));
  const present = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return present.length ? `?${new URLSearchParams(present)}` : '';
}

// Sends a request and returns the raw response, even if it is an error; throws a Problem if there is none.
export async function request(method, path, { query, body, form, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (session.token()) sent.Authorization = `Bearer ${session.token()}`;
  if (body !== undefined) sent['Content-Type'] = 'application/json';
  const address = new URL(path.replace(/^\//, '') + search(query), root);
  try {
    const content = form ?? (body === undefined ? undefined : JSON.stringify(body));
    return await fetch(address, { method, headers: sent, body: content, signal, credentials: 'omit' });
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new Problem({ detail: 'The service does not respond. Check that it is running, then try again.' });
  }
}

// Sends a request and returns the raw response; throws a Problem for errors.
export async function send(method, path, options) {
  const response = await request(method, path, options);
  if (response.status >= 400) throw await problemOf(response);
  return response;
}

// Returns the error of a response. If the service no longer accepts the token, the session ends.
async function problemOf(response) {
  const details = await response.json().catch(() => ({}));
  if (response.status === 401 && session.token() && session.session.get().user) session.endSession();
  const [retryAfter, request] = [response.headers.get('Retry-After'), response.headers.get('X-Request-Id')];
  return new Problem({ title: `The service responded with ${response.status}`, ...details, status: response.status, retryAfter, request });
}

// Sends a request and returns the JSON of the response; null for 204.
export async function call(method, path, options) {
  const response = await send(method, path, options);
  return response.status === 204 ? null : response.json().catch((failure) => {
    if (options?.signal?.aborted) throw failure;
    throw new Problem({ error: 'broken', title: 'Unreadable response', detail: 'The response is incomplete or not from the service. Try again.' });
  });
}

export const get = (path, query, signal) => call('GET', path, { query, signal });
export const post = (path, body = {}) => call('POST', path, { body });
export const put = (path, body) => call('PUT', path, { body });
export const remove = (path) => call('DELETE', path);
