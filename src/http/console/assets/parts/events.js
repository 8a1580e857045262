// Timeline of recorded events.
import { html, useRef, useState } from '../core/dom.js';
import { clock, count, day, idSuffix, exact, flatten, number, toWords } from '../core/format.js';
import { isBatched, namesIn, useNames } from '../core/names.js';
import { refine, to } from '../core/router.js';
import { Code, DefinitionList } from './basic.js';

const resourceLink = (resource) => {
  const [kind, ...id] = resource.split('/');
  return to('audit', kind, id.join('/'));
};

export const typeLabel = (type) => toWords(type).toLowerCase().replace(/^./, (first) => first.toUpperCase());

// Actors other than users and tokens.
const OTHER_ACTORS = { system: 'the service', anonymous: 'anonymous' };

// Actor as its name and the end of its id, because names are not unique.
function ActorName({ of, nameOf }) {
  if (OTHER_ACTORS[of]) return OTHER_ACTORS[of];
  const [kind, id] = of.split('/');
  return html`${nameOf(of) ? html`<span class="name">${nameOf(of)}</span>` : kind} <code class="end">${idSuffix(id)}</code>`;
}

// Actor as a link to its history, with the full id as tooltip.
export function Actor({ of, nameOf }) {
  if (OTHER_ACTORS[of]) return html`<span class="muted">${OTHER_ACTORS[of]}</span>`;
  return html`<a href=${resourceLink(of)} title=${of}><${ActorName} of=${of} nameOf=${nameOf} /></a>`;
}

// Types of the events that record an idempotency key, which changes no resource.
const IDEMPOTENCY_KEYS = ['KeyClaimed'];
export const isIdempotencyKey = ({ type }) => IDEMPOTENCY_KEYS.includes(type);

// The switch is stored in the URL.
export function IdempotencyKeySwitch({ shown }) {
  return html`<label class="chip" title="Idempotency keys, which change no resource">
    <input type="checkbox" checked=${shown} onChange=${(event) => refine({ idempotency_keys: event.target.checked ? 'true' : undefined }, { quiet: true })} />
    <span>Show idempotency keys</span></label>`;
}

export function Timeline({ events, fresh = new Set() }) {
  const days = Map.groupBy(events, (event) => event.at.slice(0, 10));
  // Each name of a token takes a request, so only tokens that act are looked up.
  const about = events.flatMap(({ stream, actor }) => (stream.startsWith('token/') ? [actor] : [stream, actor]));
  const nameOf = useNames(about, namesIn(events));
  // Names make lines longer, so the timeline is hidden until the first names have arrived.
  const hasNames = useRef(false);
  if (about.every((resource) => !isBatched(resource) || nameOf(resource) !== undefined)) hasNames.current = true;
  return html`<div class="timeline" aria-busy=${hasNames.current ? undefined : 'true'}>${[...days].map(([date, events]) => html`<section key=${date}><h2 class="day">${day(`${date}T00:00:00Z`)}</h2>
    <ol>${events.map((event) => html`<${Event} key=${event.position} event=${event} fresh=${fresh.has(event.position)} nameOf=${nameOf} />`)}</ol></section>`)}</div>`;
}

// Details are rendered when opened, to keep long timelines light.
function Event({ event, fresh, nameOf }) {
  const [open, setOpen] = useState(false);
  const [kind, ...id] = event.stream.split('/');
  return html`<li class="event ${fresh ? 'fresh' : ''}"><details onToggle=${({ target }) => setOpen(target.open)}>
    <summary><time datetime=${event.at} title=${exact(event.at)}>${clock(event.at)}</time>
      <span class="what"><strong>${typeLabel(event.type)}</strong> <span class="kind">${kind}</span> ${nameOf(event.stream) && html`<span class="name">${nameOf(event.stream)}</span> `}<code>${id.join('/')}</code></span>
      <span class="muted small" title=${event.actor}><${ActorName} of=${event.actor} nameOf=${nameOf} /></span><span class="muted small position">#${number(event.position)}</span></summary>
    ${open && html`<${EventDetails} event=${event} nameOf=${nameOf} />`}</details></li>`;
}

function EventDetails({ event, nameOf }) {
  const request = event.request && html`<a href=${to('audit', { request: event.request })}><code>${event.request}</code></a>`;
  return html`<div class="inside">
    <${DefinitionList} name="wide" of=${[
      ['Resource', html`<a href=${resourceLink(event.stream)}>${event.stream}</a>${nameOf(event.stream) && ` (${nameOf(event.stream)})`}, version ${event.version}`],
      ['Actor', html`<${Actor} of=${event.actor} nameOf=${nameOf} />${!OTHER_ACTORS[event.actor] && html` <code class="muted small">${event.actor}</code>`}`],
      ['Time', html`<code>${exact(event.at)}</code>`],
      ['Request', request],
      ['Caused by', event.causation && html`<code>${event.causation}</code>`],
      ['Event', html`<code>${event.id}</code>`],
    ]} />
    <${Code} label="Recorded data" text=${JSON.stringify(event.data, null, 2)} />
  </div>`;
}

// Changed values before and after.
export function Changes({ of }) {
  if (of.length === 0) return html`<p class="muted">No visible change.</p>`;
  return html`<dl class="changes">${of.flatMap(splitByField).map((change) => html`<div key=${change.path}><dt><code>${change.path ? breakable(change.path) : 'whole resource'}</code></dt>
    <dd>${change.before !== undefined && html`<del><span class="unseen">before: </span>${formatValue(change.before)}</del>`}
      ${change.after !== undefined && html`<ins><span class="unseen">after: </span>${formatValue(change.after)}</ins>`}</dd></div>`)}</dl>`;
}

// Allows line breaks between the parts of a path.
const breakable = (path) => path.split(/(?<=[/_])/).map((part) => html`${part}<wbr />`);

// Shows an added or removed object field by field, without empty values.
function splitByField(change) {
  const side = change.before === undefined ? 'after' : change.after === undefined ? 'before' : null;
  if (!side || isList(change[side])) return [change];
  const filled = flatten(change[side]).filter(([, value]) => value !== '' && typeof value !== 'object');
  return filled.length ? filled.map(([path, value]) => ({ path: [change.path, ...path].join('/'), [side]: value })) : [change];
}

const isList = (value) => Array.isArray(value) && value.every((entry) => typeof entry === 'string');

// Number of lines up to which a value is not collapsed.
const LINES_MAX = 9;

function formatValue(value) {
  if (value === '') return '(empty)';
  if (isList(value) && value.length === 0) return '(none)';
  const text = isList(value) ? value.join('\n') : typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  const lines = text.split('\n').length;
  return lines > LINES_MAX ? html`<details><summary>${count(lines, 'line')}</summary>${text}</details>` : text;
}
