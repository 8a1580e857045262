// The audit log: what happened, newest first, with filters, and live.
import { html, useEffect, useState } from '../core/dom.js';
import { get } from '../core/api.js';
import { count, words } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { openapi, operations, plain } from '../core/openapi.js';
import { refine, to, useTitle } from '../core/router.js';
import { follow } from '../core/sse.js';
import { Empty, Icon, Loaded, Page, Skeleton, Trouble } from '../parts/basic.js';
import { Timeline } from '../parts/events.js';

// The log is read forwards; the newest come first by asking for windows of it from its end, wider where little fits.
const WINDOW = 100;
const WINDOW_MAX = 50000;
const ENOUGH = 60;
const KINDS = ['user', 'publisher', 'token', 'node', 'task', 'delivery'];

export function AuditPage({ query }) {
  useTitle('Audit log');
  const filter = { stream: query.get('stream') ?? '', type: query.getAll('type'), actor: query.get('actor') ?? '', request: query.get('request') ?? '', from: query.get('from') ?? '', to: query.get('to') ?? '' };
  const key = query.toString();
  const first = useLoad((signal) => backwards(filter, null, signal), [key]);
  const [older, setOlder] = useState([]);
  const [problem, setProblem] = useState(null);
  const [tail, setTail] = useState(false);
  const live = useTail(tail && first.data ? filter : null, first.data?.head, key);
  useEffect(() => { setOlder([]); }, [key]);
  const last = older.at(-1) ?? first.data;
  const goOn = () => backwards(filter, last.before).then((more) => setOlder([...older, more]), setProblem);
  const events = [...live.events, ...(first.data?.events ?? []), ...older.flatMap((page) => page.events)];
  return html`<${Page} title="Audit log" lead="Every change there ever was: what, when, who, and because of what."
      actions=${html`<button type="button" class="button ${tail ? '' : 'quiet'}" aria-pressed=${tail ? 'true' : 'false'} onClick=${() => setTail(!tail)}><span class="pulse ${tail ? live.line : ''}"></span>${tail ? 'Live' : 'Follow live'}</button>`}>
    <${Filters} filter=${filter} key=${key} />
    <${Trouble} problem=${live.problem ?? problem} />
    <p class="unseen" role="status">${live.events.length > 0 ? count(live.events.length, 'new event') : ''}</p>
    <${Loaded} from=${first.error ? { ...first, data: undefined } : first} bones=${html`<${Skeleton} lines=${10} />`}>${(page) => html`
      <p class="summary">${count(page.head, 'event')} in the log</p>
      ${events.length === 0 ? html`<${Empty} icon="audit" title="Nothing fits" action=${html`<a class="button quiet" href=${to('audit')}>Clear the filters</a>`}>No event in the part of the log that was looked at fits these filters.</${Empty}>`
        : html`<${Timeline} events=${events} fresh=${new Set(live.events.map((event) => event.position))} />`}
      ${last.before > 0 && html`<p class="more-row"><button type="button" class="button quiet" onClick=${goOn}>Older events</button></p>`}`}
        </${Loaded}>
  </${Page}>`;
}

// Events that fit, newest first, from position `before` (not included) or the end backwards; `before` tells where to go on.
async function backwards(filter, before, signal) {
  const asked = { stream: filter.stream || undefined, type: filter.type, actor: filter.actor || undefined, request: filter.request || undefined };
  const bounds = { from: filter.from || undefined, to: filter.to || undefined };
  if (bounds.from || bounds.to || /\/./.test(filter.stream)) {
    const { events, head } = await whole({ ...asked, ...bounds }, signal);
    return { events: events.reverse(), head, before: 0 };
  }
  const { head } = await get('/admin/events', { limit: 1 }, signal);
  const found = { events: [], head, before: before ?? head + 1 };
  for (let width = WINDOW; found.before > 1 && found.events.length < ENOUGH && found.looked !== WINDOW_MAX; width = Math.min(width * 4, WINDOW_MAX)) {
    const from = Math.max(1, found.before - width);
    const { events } = await whole({ ...asked, from: String(from), to: String(found.before - 1) }, signal);
    found.events.push(...events.reverse());
    found.before = from;
    found.looked = width;
  }
  if (found.before <= 1) found.before = 0;
  return found;
}

// All events of a part of the log, page after page; at most so many, the last of them.
const WHOLE_MAX = 2000;
async function whole(asked, signal) {
  let events = [];
  for (let after; ; ) {
    const page = await get('/admin/events', { ...asked, after, limit: 1000 }, signal);
    events = [...events, ...page.events].slice(-WHOLE_MAX);
    after = page.next;
    if (after === undefined) return { events, head: page.head };
  }
}

function useTail(filter, head, key) {
  const [state, set] = useState({ events: [], line: 'lost', problem: null });
  const active = Boolean(filter);
  useEffect(() => {
    set({ events: [], line: 'lost', problem: null });
    if (!active) return undefined;
    const abort = new AbortController();
    follow('/admin/events/stream', {
      query: { stream: filter.stream, type: filter.type, actor: filter.actor, request: filter.request, after: head }, signal: abort.signal,
      onState: (line) => set((before) => ({ ...before, line })),
      onEvent: ({ data }) => set((before) => ({ ...before, events: [data, ...before.events].slice(0, 500) })),
    }).catch((problem) => set((before) => ({ ...before, problem, line: 'lost' })));
    return () => abort.abort();
  }, [active, head, key]);
  return state;
}

function Filters({ filter }) {
  const types = useLoad(async () => typesOf(await openapi()), []);
  const [typed, set] = useState(filter);
  const text = (name, label, hint) => html`<label class="order"><span>${label}</span>
    <input type="text" spellcheck="false" autocomplete="off" placeholder=${hint} value=${typed[name]} onInput=${(event) => set({ ...typed, [name]: event.target.value.trim() })} /></label>`;
  const send = (event) => { event.preventDefault(); refine({ ...typed, type: filter.type }); };
  return html`<form class="filters audit-filters" onSubmit=${send}>
    <label class="order"><span>Kind</span><div class="select">
      <select value=${filter.stream.endsWith('/') ? filter.stream : ''} onChange=${(event) => refine({ stream: event.target.value })}>
      <option value="">All</option>${KINDS.map((kind) => html`<option key=${kind} value=${`${kind}/`} selected=${filter.stream === `${kind}/`}>
        ${words(kind)}</option>`)}</select></div></label>
    <label class="order"><span>Type</span><div class="select">
      <select value=${filter.type[0] ?? ''} onChange=${(event) => refine({ type: event.target.value })}>
      <option value="">All</option>${(types.data ?? []).map((type) => html`<option key=${type} value=${type} selected=${type === filter.type[0]}>
        ${words(type)}</option>`)}</select></div></label>
    ${text('stream', 'Thing', 'node/face-tools')}${text('actor', 'Who', 'user/… or system')}${text('request', 'Request', 'its id')}
    ${text('from', 'From', 'time, position')}${text('to', 'To', 'time, position')}
    <button class="button quiet"><${Icon} name="search" />Filter</button>
  </form>`;
}

function typesOf(document) {
  const asked = operations(document).find((operation) => operation.operationId === 'listEvents').parameters.find((parameter) => parameter.name === 'type');
  const items = plain(document, plain(document, asked.schema).items);
  return items.enum ?? [];
}
