// Webhooks of a publisher: create, change, test, delete, and their deliveries.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { at, call, get, post, put, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { newIdempotencyKey, useElementId } from '../core/identity.js';
import { useInterval, useLoad, useMutation } from '../core/load.js';
import { to } from '../core/router.js';
import { Dialog, Empty, ErrorMessage, Icon, Loaded, Skeleton, State, Time, notify } from './basic.js';
import { Confirm } from './confirm.js';
import { Delivery } from './delivery.js';
import { focusFirst } from './dialog.js';
import { FormTrouble } from './form.js';

const WEBHOOKS_MAX = 5;
const PENDING_MS = 5000;
const PAGE_SIZE = 20;
const EVENTS = [
  ['version.published', 'Version published'], ['version.approved', 'Version approved'], ['version.flagged', 'Version flagged'],
  ['version.banned', 'Version banned'], ['version.deleted', 'Version deleted'],
  ['node.approved', 'Node approved'], ['node.banned', 'Node banned'], ['node.deleted', 'Node deleted'],
];
const NAMES = new Map([...EVENTS, ['webhook.test', 'Test event']]);
const HOUR_MS = 3600000;
const PERIODS = [[1, 'The last hour'], [24, 'The last 24 hours'], [168, 'The last 7 days'], [720, 'The last 30 days']];

const pathOf = (publisher, webhook) => at`/publishers/${publisher.id}/webhooks/${webhook.id}`;

export function Webhooks({ publisher }) {
  const [open, setOpen] = useState(false);
  const webhooks = useLoad((signal) => get(at`/publishers/${publisher.id}/webhooks`, {}, signal), [publisher.id]);
  const done = () => { setOpen(false); notify('Webhook created'); webhooks.reload(); };
  return html`<section><p class="muted">A webhook receives the events of this publisher's nodes as signed requests. See <a href=${to('docs')}>the API reference</a> for their content and signatures.</p>
    <${Loaded} from=${webhooks}>${(list) => html`
      ${list.length < WEBHOOKS_MAX && html`<p><button type="button" class="button quiet" onClick=${() => setOpen(true)}><${Icon} name="plus" />Create webhook</button></p>`}
      ${list.length === 0 ? html`<${Empty} icon="out" title="No webhooks">Create one to receive events.</${Empty}>`
        : html`<ul class="deliveries">${list.map((webhook) => html`<${Webhook} key=${webhook.id} ...${{ publisher, webhook }} reload=${webhooks.reload} />`)}</ul>`}`}</${Loaded}>
    ${open && html`<${Dialog} title="Create webhook" onClose=${() => setOpen(false)}>
      <${WebhookForm} publisher=${publisher} onDone=${done} onCancel=${() => setOpen(false)} /></${Dialog}>`}</section>`;
}

function Webhook({ publisher, webhook, reload }) {
  const [open, setOpen] = useState(null);
  const [isListed, setIsListed] = useState(false);
  // Number of sent tests and redeliveries; each reloads the deliveries.
  const [sent, setSent] = useState(0);
  const work = useMutation();
  const close = () => setOpen(null);
  const show = (message) => { close(); setIsListed(true); setSent((number) => number + 1); notify(message); };
  const test = async () => {
    const { problem } = await work.run(() => post(`${pathOf(publisher, webhook)}/test`));
    if (!problem) show('Test event sent');
  };
  const receivesAll = webhook.events.length === EVENTS.length;
  return html`<li class="release"><header><${State} of=${webhook.enabled ? 'active' : 'disabled'}>${webhook.enabled ? 'Enabled' : 'Disabled'}</${State}>
      <strong><code>${webhook.url}</code></strong></header>
    <p class="muted small">${receivesAll ? 'All events' : webhook.events.map((name) => NAMES.get(name) ?? name).join(', ')}. Created <${Time} at=${webhook.created_at} />.</p>
    <${ErrorMessage} problem=${work.problem} />
    <div class="actions">
      <button type="button" class="button quiet small" disabled=${work.busy || !webhook.enabled} onClick=${test}>Send test</button>
      <button type="button" class="button quiet small" aria-expanded=${isListed ? 'true' : 'false'} onClick=${() => setIsListed(!isListed)}>Deliveries</button>
      <button type="button" class="button quiet small" onClick=${() => setOpen('redeliver')}>Redeliver…</button>
      <button type="button" class="button quiet small" onClick=${() => setOpen('edit')}>Edit</button>
      <button type="button" class="button quiet small" onClick=${() => setOpen('delete')}>Delete</button></div>
    ${isListed && html`<${WebhookDeliveries} ...${{ publisher, webhook, sent }} />`}
    ${open === 'edit' && html`<${Dialog} title="Edit webhook" onClose=${close}>
      <${WebhookForm} ...${{ publisher, webhook }} onDone=${() => { close(); notify('Saved'); reload(); }} onCancel=${close} /></${Dialog}>`}
    ${open === 'redeliver' && html`<${Redeliver} ...${{ publisher, webhook }} onClose=${close} onDone=${show} />`}
    ${open === 'delete' && html`<${Confirm} title="Delete this webhook?" action="Delete" onClose=${close} work=${() => remove(pathOf(publisher, webhook))}
      onDone=${() => { close(); notify('Deleted'); reload(); }}>Pending deliveries to ${webhook.url} are not sent, and the list of its deliveries is lost.</${Confirm}>`}
  </li>`;
}

// Form of a new webhook, or of an existing one.
function WebhookForm({ publisher, webhook, onDone, onCancel }) {
  const [values, setValues] = useState(webhook ?? { url: '', events: EVENTS.map(([name]) => name), enabled: true });
  const work = useMutation();
  const form = useRef(null);
  const key = useRef(null);
  const id = useElementId('webhook');
  useEffect(() => focusFirst(form.current.closest('dialog')), []);
  const fill = (change) => {
    key.current = null;
    work.drop((pointer) => Object.hasOwn(change, pointer.split('/')[1]));
    setValues({ ...values, ...change });
  };
  const toggle = (name) => ({ target }) => fill({ events: target.checked ? [...values.events, name] : values.events.filter((event) => event !== name) });
  const send = async (event) => {
    event.preventDefault();
    key.current ??= newIdempotencyKey();
    const { url, events, enabled } = values;
    const body = { url: url.trim(), events, enabled };
    const { problem, done } = await work.run(() => (webhook ? put(pathOf(publisher, webhook), body)
      : call('POST', at`/publishers/${publisher.id}/webhooks`, { body, headers: { 'Idempotency-Key': key.current } })));
    if (!problem || problem.isFinal) key.current = null;
    if (!problem) onDone(done);
  };
  const fault = (pointer) => work.problem?.at?.(pointer);
  const faultText = (pointer, name) => (fault(pointer) ? html`<p class="fault" id=${`${id}-${name}-fault`}><${Icon} name="warn" />${fault(pointer)}</p>` : null);
  return html`<form ref=${form} class="form" onSubmit=${send} novalidate>
    <${FormTrouble} problem=${work.problem} />
    <div class="field ${fault('/url') ? 'faulty' : ''}"><label for=${`${id}-url`}>URL <span class="required">required</span></label>
      <input id=${`${id}-url`} type="url" placeholder="https://…" autocomplete="off" aria-required="true" aria-invalid=${fault('/url') ? 'true' : undefined}
        aria-describedby=${fault('/url') ? `${id}-url-fault` : undefined} value=${values.url} onInput=${(event) => fill({ url: event.target.value })} />${faultText('/url', 'url')}</div>
    <fieldset class="field group"><legend>Events</legend>${faultText('/events', 'events')}
      ${EVENTS.map(([name, text]) => html`<div key=${name} class="field flag"><label><input type="checkbox" checked=${values.events.includes(name)} onChange=${toggle(name)} /><span>${text}</span></label></div>`)}</fieldset>
    <div class="field flag"><label><input type="checkbox" checked=${values.enabled} onChange=${(event) => fill({ enabled: event.target.checked })} /><span>Enabled</span></label>
      <p class="hint">While it is disabled, events are skipped and pending deliveries wait.</p></div>
    <footer><button class="button" disabled=${work.busy}>${work.busy ? 'Please wait' : webhook ? 'Save' : 'Create'}</button>
      <button type="button" class="button quiet" onClick=${onCancel}>Cancel</button></footer></form>`;
}

// Dialog that repeats the deliveries of a period. The service handles some deliveries with each request, and returns where
// to continue.
function Redeliver({ publisher, webhook, onClose, onDone }) {
  const [hours, setHours] = useState(24);
  const work = useMutation();
  const id = useElementId('period');
  const send = async (event) => {
    event.preventDefault();
    const { problem, done } = await work.run(async () => {
      let queued = 0;
      let refused = 0;
      for (let body = { since: new Date(Date.now() - hours * HOUR_MS).toISOString() }; body;) {
        const { redelivered, exhausted, next_after: after } = await post(`${pathOf(publisher, webhook)}/redeliver`, body);
        queued += redelivered;
        refused += exhausted;
        body = after === undefined ? null : { after };
      }
      return { queued, refused };
    });
    if (problem) return;
    const left = done.refused > 0 ? `; ${count(done.refused, 'delivery', 'deliveries')} not queued: already redelivered ten times today` : '';
    onDone(`${count(done.queued, 'delivery', 'deliveries')} queued again${left}`);
  };
  return html`<${Dialog} title="Redeliver events" onClose=${onClose}><form class="form" onSubmit=${send}>
    <${FormTrouble} problem=${work.problem} />
    <div class="field"><label for=${id}>Events of</label><div class="select"><select id=${id} onChange=${(event) => setHours(Number(event.target.value))}>
      ${PERIODS.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === hours}>${text}</option>`)}</select></div>
      <p class="hint">Deliveries are repeated with their old ids, so a receiver can ignore those that it knows.</p></div>
    <footer><button class="button" disabled=${work.busy}>${work.busy ? 'Please wait' : 'Redeliver'}</button>
      <button type="button" class="button quiet" onClick=${onClose}>Cancel</button></footer></form></${Dialog}>`;
}

function WebhookDeliveries({ publisher, webhook, sent }) {
  const [page, setPage] = useState(1);
  const path = `${pathOf(publisher, webhook)}/deliveries`;
  const loaded = useLoad((signal) => get(path, { page, limit: PAGE_SIZE }, signal), [path, page, sent]);
  const isPending = loaded.data?.deliveries.some(({ state }) => state === 'pending');
  useInterval(isPending ? PENDING_MS : 0, loaded.refresh);
  return html`<${Loaded} from=${loaded} skeleton=${html`<${Skeleton} lines=${2} />`}>${({ deliveries, totalPages }) => html`
    ${deliveries.length === 0 ? html`<p class="muted">Nothing was sent yet.</p>`
      : html`<ul class="deliveries" aria-label="Deliveries">${deliveries.map((delivery) => html`<${Delivery} key=${delivery.id} title=${titleOf(delivery)} delivery=${delivery} reload=${loaded.reload} />`)}</ul>`}
    ${totalPages > 1 && html`<div class="actions">
      <button type="button" class="button quiet small" disabled=${page <= 1} onClick=${() => setPage(page - 1)}>Newer</button>
      <span class="muted small">Page ${page} of ${totalPages}</span>
      <button type="button" class="button quiet small" disabled=${page >= totalPages} onClick=${() => setPage(page + 1)}>Older</button></div>`}`}</${Loaded}>`;
}

const titleOf = ({ event, node_id: node, version }) => [NAMES.get(event) ?? event, node && `: ${node}`, version && ` ${version}`].filter(Boolean).join('');
