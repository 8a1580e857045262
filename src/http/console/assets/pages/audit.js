// Audit log: events newest first, filters, live updates.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { get } from '../core/api.js';
import { count, toWords } from '../core/format.js';
import { useLoad, usePagedList } from '../core/load.js';
import { operationDocument, operations, plain } from '../core/openapi.js';
import { refine, to, useTitle } from '../core/router.js';
import { follow } from '../core/sse.js';
import { Empty, Icon, Loaded, Page, Skeleton, notify, ErrorMessage } from '../parts/basic.js';
import { IdempotencyKeySwitch, isIdempotencyKey, Timeline } from '../parts/events.js';
import { LoadMore } from '../parts/more.js';

// The API lists events oldest first. The page reads windows backwards from the end and widens them if few events match.
const WINDOW = 50;
const WINDOW_MAX = 50000;
// Number of events after which a page is complete.
const PAGE_TARGET = 25;
// Maximum number of visible events; older ones are loaded on request.
const VISIBLE_MAX = 2000;
const KINDS = ['user', 'publisher', 'token', 'node', 'task', 'delivery'];
const TEXTS = ['stream', 'actor', 'request', 'from', 'to'];
const LABELS = { type: 'Type', stream: 'Resource', actor: 'Actor', request: 'Request', from: 'From', to: 'To' };

export function AuditPage({ query }) {
  useTitle('Audit log');
  const filter = { type: query.getAll('type'), ...Object.fromEntries(TEXTS.map((name) => [name, query.get(name) ?? ''])) };
  const showsKeys = query.get('idempotency_keys') === 'true';
  // A filter by type also shows idempotency keys.
  const all = showsKeys || filter.type.length > 0;
  const list = usePagedList(({ next, signal }) => loadOlder(filter, all, next, signal), [filter, all]);
  const [tail, setTail] = useState(false);
  const live = useLiveEvents(tail, filter, all, list, () => setTail(false));
  const fresh = new Set(list.data?.entries.map((event) => event.position).filter((position) => position > list.data.head));
  return html`<${Page} title="Audit log" lead="All changes, with time, actor and cause."
      actions=${html`<button type="button" class="button ${tail ? '' : 'quiet'}" aria-pressed=${tail ? 'true' : 'false'} onClick=${() => setTail(!tail)}><span class="pulse ${tail ? live.connection : ''}"></span>${tail ? 'Live' : 'Follow live'}</button>`}>
    <${Filters} filter=${filter}>${filter.type.length === 0 && html`<${IdempotencyKeySwitch} shown=${showsKeys} />`}</${Filters}>
    <${ErrorMessage} problem=${live.problem} labels=${LABELS} />
    <p class="unseen" role="status">${fresh.size > 0 ? count(fresh.size, 'new event') : ''}</p>
    <${Loaded} from=${list.error ? { ...list, data: undefined } : list} labels=${LABELS} skeleton=${html`<${Skeleton} lines=${10} />`}>${({ entries, head }) => html`
      <p class="summary">${count(head, 'event')} in the log${!all && '; idempotency keys hidden'}</p>
      ${entries.length === 0 ? html`<${Empty} icon="audit" title="No matching events" action=${html`<a class="button quiet" href=${to('audit')}>Clear filters</a>`}>No event in the searched part of the log matches these filters.</${Empty}>`
        : html`<${Timeline} events=${entries} fresh=${fresh} />`}
      <${LoadMore} of=${list}>Older events</${LoadMore}>`}</${Loaded}>
  </${Page}>`;
}

// Returns the parameters of the API for a filter.
const parametersOf = ({ stream, type, actor, request, from, to }) => ({ stream, type, actor, request, from, to });

// Returns matching events, newest first: those before position `before`, or from the end of the log. `next` is the
// position from which older ones can be loaded.
async function loadOlder(filter, all, before, signal) {
  // Ranges and the events of a single resource are read as a whole.
  if (filter.from || filter.to || /\/./.test(filter.stream)) {
    return newestIn({ ...parametersOf(filter), to: before ? before - 1 : filter.to }, all, signal);
  }
  const { head } = await get('/admin/events', { limit: 1 }, signal);
  const found = { entries: [], head, next: before ?? head + 1 };
  for (let width = WINDOW; found.next > 1 && found.entries.length < PAGE_TARGET && found.looked !== WINDOW_MAX; width = Math.min(width * 4, WINDOW_MAX)) {
    const from = Math.max(1, found.next - width);
    const { entries, next = from } = await newestIn({ ...parametersOf(filter), from, to: found.next - 1 }, all, signal);
    found.entries.push(...entries);
    Object.assign(found, { next, looked: width });
  }
  return { ...found, next: found.next > 1 ? found.next : undefined };
}

// Returns the newest events of a range, which is read page by page; `next` is set if there were too many.
async function newestIn(parameters, all, signal) {
  let entries = [];
  let next;
  for (let after; ; ) {
    const page = await get('/admin/events', { ...parameters, after, limit: 1000 }, signal);
    entries.push(...page.events.filter((event) => all || !isIdempotencyKey(event)));
    if (entries.length > VISIBLE_MAX) {
      entries = entries.slice(-VISIBLE_MAX);
      next = entries[0].position;
    }
    after = page.next;
    if (after === undefined) return { entries: entries.reverse(), head: page.head, next };
  }
}

// Adds new events at the top of the list while live mode is on.
function useLiveEvents(on, filter, all, list, onEnd) {
  const [state, setState] = useState({ connection: 'lost', problem: null });
  const active = on && list.isCurrent && !list.error;
  useEffect(() => {
    setState({ connection: 'lost', problem: null });
    if (!active) return undefined;
    const abort = new AbortController();
    const merge = (changes) => { if (!abort.signal.aborted) setState((before) => ({ ...before, ...changes })); };
    const { head, entries } = list.data;
    follow('/admin/events/stream', {
      query: { ...parametersOf(filter), after: Math.max(head, entries[0]?.position ?? 0) }, signal: abort.signal,
      // A range with an end is complete when the stream ends.
      ended: () => Boolean(filter.to),
      onState: (connection, problem = null) => merge({ connection, problem }),
      onEvent: ({ data }) => { if (!abort.signal.aborted && (all || !isIdempotencyKey(data))) list.change((shown) => prepend(shown, data)); },
    }).then(() => {
      if (abort.signal.aborted) return;
      notify('No more events: the end of the range was reached');
      onEnd();
    }, (problem) => merge({ problem, connection: 'lost' }));
    return () => abort.abort();
  }, [active, JSON.stringify(filter), all]);
  return state;
}

// Drops the oldest event of a full list; it can be loaded again.
function prepend(shown, event) {
  const entries = [event, ...shown.entries];
  if (entries.length <= Math.max(VISIBLE_MAX, shown.entries.length)) return { ...shown, entries };
  entries.pop();
  return { ...shown, entries, next: entries.at(-1).position };
}

function Filters({ filter, children }) {
  const types = useLoad(async () => typesOf(await operationDocument('listEvents')), []);
  const [typed, setTyped] = useState(filter);
  const previousFilter = useRef(filter);
  // Typed text stays until it is submitted, unless the URL changes.
  useEffect(() => {
    const changed = TEXTS.filter((name) => filter[name] !== previousFilter.current[name]);
    previousFilter.current = filter;
    if (changed.length > 0) setTyped((typed) => ({ ...typed, ...Object.fromEntries(changed.map((name) => [name, filter[name]])) }));
  }, [JSON.stringify(filter)]);
  const text = (name, hint) => html`<label class="order"><span>${LABELS[name]}</span>
    <input type="text" spellcheck="false" autocomplete="off" placeholder=${hint} value=${typed[name]} onInput=${(event) => setTyped({ ...typed, [name]: event.target.value })} /></label>`;
  const send = (event) => {
    event.preventDefault();
    refine(Object.fromEntries(TEXTS.map((name) => [name, typed[name].trim()])));
  };
  return html`<form class="filters audit-filters" onSubmit=${send}>
    <label class="order"><span>Kind</span><div class="select">
      <select value=${filter.stream.endsWith('/') ? filter.stream : ''} onChange=${(event) => refine({ stream: event.target.value })}>
      <option value="">All</option>${KINDS.map((kind) => html`<option key=${kind} value=${`${kind}/`} selected=${filter.stream === `${kind}/`}>
        ${toWords(kind)}</option>`)}</select></div></label>
    <label class="order"><span>Type</span><div class="select">
      <select value=${filter.type[0] ?? ''} onChange=${(event) => refine({ type: event.target.value })}>
      <option value="">All</option>${(types.data ?? []).map((type) => html`<option key=${type} value=${type} selected=${type === filter.type[0]}>
        ${toWords(type)}</option>`)}</select></div></label>
    ${text('stream', 'node/face-tools')}${text('actor', 'user/… or system')}${text('request', 'request id')}
    ${text('from', 'time, position')}${text('to', 'time, position')}
    <button class="button quiet"><${Icon} name="search" />Filter</button>
    ${children}
  </form>`;
}

// Returns the event types that the parameter `type` of the operation allows.
function typesOf(document) {
  const parameter = operations(document)[0].parameters.find(({ name }) => name === 'type');
  const items = plain(document, plain(document, parameter.schema).items);
  return items.enum ?? [];
}
