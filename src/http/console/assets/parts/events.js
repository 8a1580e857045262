// Recorded events, as a timeline.
import { html, useState } from '../core/dom.js';
import { clock, count, day, exact, leaves, number, words } from '../core/format.js';
import { to } from '../core/router.js';
import { Code, Facts } from './basic.js';

const thingLink = (thing) => {
  const [kind, ...id] = thing.split('/');
  return to('audit', kind, id.join('/'));
};

export const sentence = (type) => words(type).toLowerCase().replace(/^./, (first) => first.toUpperCase());

// Who: short, and whole where one looks.
export function Actor({ of }) {
  if (of === 'system') return html`<span class="muted">the service</span>`;
  const [kind, id] = of.split('/');
  return html`<a href=${thingLink(of)} title=${of}>${kind} <code>${id.slice(0, 8)}</code></a>`;
}

const shortActor = (actor) => (actor === 'system' ? 'the service' : actor.replace(/^(\w+\/.{8}).*$/, '$1'));

export function Timeline({ events, fresh = new Set() }) {
  const days = Map.groupBy(events, (event) => event.at.slice(0, 10));
  return html`<div class="timeline">${[...days].map(([date, events]) => html`<section key=${date}><h2 class="day">${day(`${date}T00:00:00Z`)}</h2>
    <ol>${events.map((event) => html`<${Event} key=${event.position} event=${event} fresh=${fresh.has(event.position)} />`)}</ol></section>`)}</div>`;
}

// What is inside is made when it is looked at: a long timeline stays light.
function Event({ event, fresh }) {
  const [open, set] = useState(false);
  const [kind, ...id] = event.stream.split('/');
  return html`<li class="event ${fresh ? 'fresh' : ''}"><details onToggle=${({ target }) => set(target.open)}>
    <summary><time datetime=${event.at} title=${exact(event.at)}>${clock(event.at)}</time>
      <span class="what"><strong>${sentence(event.type)}</strong> <span class="kind">${kind}</span> <code>${id.join('/')}</code></span>
      <span class="muted small">${shortActor(event.actor)}</span><span class="muted small position">#${number(event.position)}</span></summary>
    ${open && html`<${Inside} event=${event} />`}</details></li>`;
}

function Inside({ event }) {
  const request = event.request && html`<a href=${to('audit', { request: event.request })}><code>${event.request}</code></a>`;
  return html`<div class="inside">
    <${Facts} name="wide" of=${[
      ['What', html`<a href=${thingLink(event.stream)}>${event.stream}</a>, its event ${event.version}`],
      ['Who', html`<${Actor} of=${event.actor} />`],
      ['When', html`<code>${exact(event.at)}</code>`],
      ['Request', request],
      ['Because of', event.causation && html`<code>${event.causation}</code>`],
      ['Event', html`<code>${event.id}</code>`],
    ]} />
    <${Code} label="What is recorded" text=${JSON.stringify(event.data, null, 2)} />
  </div>`;
}

// What changed, each with what was and what is.
export function Changes({ of }) {
  if (of.length === 0) return html`<p class="muted">Nothing that is shown changed.</p>`;
  return html`<dl class="changes">${of.flatMap(apart).map((change) => html`<div key=${change.path}><dt><code>${change.path ? breakable(change.path) : 'all of it'}</code></dt>
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
