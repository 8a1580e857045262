// Recorded events, as a timeline.
import { html, useState } from '../core/dom.js';
import { clock, count, day, endOf, exact, leaves, number, words } from '../core/format.js';
import { namesIn, useNames } from '../core/names.js';
import { refine, to } from '../core/router.js';
import { Code, Facts } from './basic.js';

const thingLink = (thing) => {
  const [kind, ...id] = thing.split('/');
  return to('audit', kind, id.join('/'));
};

export const sentence = (type) => words(type).toLowerCase().replace(/^./, (first) => first.toUpperCase());

// Those who act and are no user and no token.
const NOBODY = { system: 'the service', anonymous: 'anonymous' };

// Who, in short: by name where there is one, and by the end of the id in any case, as names may be alike.
function Who({ of, nameOf }) {
  if (NOBODY[of]) return NOBODY[of];
  const [kind, id] = of.split('/');
  return html`${nameOf(of) ? html`<span class="name">${nameOf(of)}</span>` : kind} <code class="end">${endOf(id)}</code>`;
}

// The same, leading to what became of them; the whole id is told where one looks.
export function Actor({ of, nameOf }) {
  if (NOBODY[of]) return html`<span class="muted">${NOBODY[of]}</span>`;
  return html`<a href=${thingLink(of)} title=${of}><${Who} of=${of} nameOf=${nameOf} /></a>`;
}

// What keeps requests from being carried out twice, and says nothing of the thing in whose stream it stands.
const BOOKKEEPING = ['KeyClaimed'];
export const isBookkeeping = ({ type }) => BOOKKEEPING.includes(type);

// Whether that is shown is in the address.
export function Bookkeeping({ shown }) {
  return html`<label class="chip" title="Idempotency keys, which change no resource">
    <input type="checkbox" checked=${shown} onChange=${(event) => refine({ bookkeeping: event.target.checked ? 'true' : undefined }, { quiet: true })} />
    <span>Show bookkeeping</span></label>`;
}

export function Timeline({ events, fresh = new Set() }) {
  const days = Map.groupBy(events, (event) => event.at.slice(0, 10));
  // Each token that is not on the page itself would be a request: only those that act are asked for.
  const about = events.flatMap(({ stream, actor }) => (stream.startsWith('token/') ? [actor] : [stream, actor]));
  const nameOf = useNames(about, namesIn(events));
  return html`<div class="timeline">${[...days].map(([date, events]) => html`<section key=${date}><h2 class="day">${day(`${date}T00:00:00Z`)}</h2>
    <ol>${events.map((event) => html`<${Event} key=${event.position} event=${event} fresh=${fresh.has(event.position)} nameOf=${nameOf} />`)}</ol></section>`)}</div>`;
}

// What is inside is made when it is looked at: a long timeline stays light.
function Event({ event, fresh, nameOf }) {
  const [open, set] = useState(false);
  const [kind, ...id] = event.stream.split('/');
  return html`<li class="event ${fresh ? 'fresh' : ''}"><details onToggle=${({ target }) => set(target.open)}>
    <summary><time datetime=${event.at} title=${exact(event.at)}>${clock(event.at)}</time>
      <span class="what"><strong>${sentence(event.type)}</strong> <span class="kind">${kind}</span> ${nameOf(event.stream) && html`<span class="name">${nameOf(event.stream)}</span> `}<code>${id.join('/')}</code></span>
      <span class="muted small" title=${event.actor}><${Who} of=${event.actor} nameOf=${nameOf} /></span><span class="muted small position">#${number(event.position)}</span></summary>
    ${open && html`<${Inside} event=${event} nameOf=${nameOf} />`}</details></li>`;
}

function Inside({ event, nameOf }) {
  const request = event.request && html`<a href=${to('audit', { request: event.request })}><code>${event.request}</code></a>`;
  return html`<div class="inside">
    <${Facts} name="wide" of=${[
      ['Resource', html`<a href=${thingLink(event.stream)}>${event.stream}</a>${nameOf(event.stream) && ` (${nameOf(event.stream)})`}, version ${event.version}`],
      ['Actor', html`<${Actor} of=${event.actor} nameOf=${nameOf} />${!NOBODY[event.actor] && html` <code class="muted small">${event.actor}</code>`}`],
      ['Time', html`<code>${exact(event.at)}</code>`],
      ['Request', request],
      ['Caused by', event.causation && html`<code>${event.causation}</code>`],
      ['Event', html`<code>${event.id}</code>`],
    ]} />
    <${Code} label="Recorded data" text=${JSON.stringify(event.data, null, 2)} />
  </div>`;
}

// What changed, each with what was and what is.
export function Changes({ of }) {
  if (of.length === 0) return html`<p class="muted">No visible change.</p>`;
  return html`<dl class="changes">${of.flatMap(apart).map((change) => html`<div key=${change.path}><dt><code>${change.path ? breakable(change.path) : 'whole resource'}</code></dt>
    <dd>${change.before !== undefined && html`<del><span class="unseen">before: </span>${shown(change.before)}</del>`}
      ${change.after !== undefined && html`<ins><span class="unseen">after: </span>${shown(change.after)}</ins>`}</dd></div>`)}</dl>`;
}

// A name breaks where its parts do.
const breakable = (path) => path.split(/(?<=[/_])/).map((part) => html`${part}<wbr />`);

// What came or went with all that is in it is told field by field, as far as there is something in them.
function apart(change) {
  const side = change.before === undefined ? 'after' : change.after === undefined ? 'before' : null;
  if (!side || isList(change[side])) return [change];
  const filled = leaves(change[side]).filter(([, value]) => value !== '' && typeof value !== 'object');
  return filled.length ? filled.map(([way, value]) => ({ path: [change.path, ...way].join('/'), [side]: value })) : [change];
}

const isList = (value) => Array.isArray(value) && value.every((entry) => typeof entry === 'string');

const LINES_MAX = 9;

function shown(value) {
  if (value === '') return '(empty)';
  if (isList(value) && value.length === 0) return '(none)';
  const text = isList(value) ? value.join('\n') : typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  const lines = text.split('\n').length;
  return lines > LINES_MAX ? html`<details><summary>${count(lines, 'line')}</summary>${text}</details>` : text;
}
