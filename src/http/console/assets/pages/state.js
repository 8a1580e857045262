// Service status: log, read models, queues, storage, vendors, their history, and signed checkpoints.
import { html, useState } from '../core/dom.js';
import { get } from '../core/api.js';
import { bytes, count, number, toWords } from '../core/format.js';
import { useInterval, useLoad } from '../core/load.js';
import { to, useTitle } from '../core/router.js';
import { Code, DefinitionList, Icon, Loaded, Page, Skeleton, State, Time } from '../parts/basic.js';
import { ServiceHistory } from '../parts/service_history.js';

const REFRESH_MS = 3000;
// Events that the read models and the index may lag behind without a warning.
const READ_MODELS_LAG_MAX = 1000;
const INDEX_LAG_MAX = 100000;
const CIRCUITS = { closed: 'In service', open: 'Paused', half_open: 'Trial call', held: 'Paused by vendor' };

export function StatePage({ query }) {
  useTitle('Status');
  const state = useLoad(async (signal) => ({ ...await get('/admin/state', {}, signal), seen: new Date().toISOString() }), []);
  const ready = useLoad((signal) => fetch(new URL('ready', document.baseURI), { signal }).then((response) => response.ok), []);
  useInterval(REFRESH_MS, () => { state.refresh(); ready.refresh(); });
  const [word, readyTone] = readiness(ready);
  return html`<${Page} title="Status" lead="Current state of the service, refreshed every few seconds.">
    <${Loaded} from=${state} skeleton=${html`<${Skeleton} kind="cards" lines=${6} />`}>${(now) => html`
      ${state.error && html`<p class="muted">Last update: <${Time} at=${now.seen} />.</p>`}
      <div class="gauges">
        <${Gauge} name="Service" of=${word} tone=${readyTone}>started <${Time} at=${now.start.at} /></${Gauge}>
        <${Gauge} name="Log" of=${number(now.log.head)}>events recorded, signed up to ${number(now.log.signed)}</${Gauge}>
        <${Gauge} name="Verification" of=${verificationLabel(now.verification)} tone=${tone(now.verification)}>${verificationDetail(now.verification)}</${Gauge}>
        <${Gauge} name="Read models" of=${lagLabel(now.read_models.lag)} tone=${now.read_models.lag > READ_MODELS_LAG_MAX ? 'warn' : 'good'}>at position ${number(now.read_models.position)}</${Gauge}>
        <${Gauge} name="Log index" of=${lagLabel(now.index.lag)} tone=${now.index.lag > INDEX_LAG_MAX ? 'warn' : 'good'}>at position ${number(now.index.position)}</${Gauge}>
        <${Gauge} name="Storage" of=${now.storage.state === 'ok' ? bytes(now.storage.free_bytes ?? 0) : toWords(now.storage.state)} tone=${now.storage.state === 'ok' ? 'good' : 'bad'}>
          ${now.storage.reason ?? `free; changes stop below ${bytes(now.storage.reserve_bytes)}`}</${Gauge}>
      </div>
      <section class="panel"><h2>Vendors</h2><ul class="plain-list vendors">${now.vendors.map((vendor) => html`<li key=${vendor.name}><strong>
        ${vendor.name}</strong><${State} of=${vendor.circuit}>${CIRCUITS[vendor.circuit] ?? vendor.circuit}</${State}>
        <span class="muted small">${vendor.medium}, ${vendor.profile}; ${count(vendor.tasks, 'task')}${vendor.slots.total && `, ${number(vendor.slots.used)} of ${count(vendor.slots.total, 'slot')}`}
          ${vendor.circuit !== 'closed' && html`${' '}<a href=${to('audit', { type: 'SubmissionUndelivered' })}>Undelivered submissions</a>`}</span>
        </li>`)}</ul></section>
      <section class="panel"><h2>Queues</h2>
        <${DefinitionList} name="ledger" of=${[['Changes to write', number(now.queues.appends)], ['Unfinished tasks', number(now.queues.tasks)], ['Pending webhooks', number(now.queues.deliveries)]]} /></section>
      ${now.start.mended.length > 0 && html`<section class="panel"><h2>Repaired at startup</h2><ul>${now.start.mended.map((sentence) => html`<li>
        ${sentence}</li>`)}</ul></section>`}`}</${Loaded}>
    ${(state.data || state.error) && html`<${ServiceHistory} query=${query} /><${Checkpoint} />`}
  </${Page}>`;
}

// Returns a word for the readiness, and its tone. After a failed request, the previous value is not shown as current.
function readiness({ data, error }) {
  if (error) return ['No response', 'bad'];
  if (data === undefined) return ['Checking'];
  return data ? ['Ready', 'good'] : ['Not ready', 'bad'];
}

const TONES = { sound: 'good', checking: 'warn', damaged: 'bad' };

// Returns a short text about the verification of the log, which never calls unverified parts verified.
function verificationLabel({ state, position, until }) {
  if (state === 'damaged') return 'Damaged';
  if (state === 'unverified' || position === 0) return 'Not verified yet';
  return state === 'sound' ? 'Verified' : `${Math.floor((100 * position) / until)} % verified`;
}

const tone = ({ state }) => TONES[state];

function verificationDetail({ state, position, until, since, reason }) {
  if (state === 'damaged') return html`${reason}. Found <${Time} at=${since} />`;
  if (state === 'unverified') return 'new log; the next start verifies it';
  if (state === 'checking') return html`in progress up to ${number(until)}, started <${Time} at=${since} />`;
  return html`up to position ${number(position)}, verified <${Time} at=${since} />; later events were written since the start`;
}

const lagLabel = (lag) => (lag === 0 ? 'Up to date' : `${number(lag)} behind`);

const Gauge = ({ name, of, tone, children }) => html`<div class="gauge ${tone ?? ''}"><span class="name">${name}</span><strong>${of}</strong>
  <span class="muted small">${children}</span></div>`;

function Checkpoint() {
  // Number of clicks; each requests another checkpoint.
  const [clicks, setClicks] = useState(0);
  const taken = useLoad((signal) => (clicks ? get('/admin/checkpoint', {}, signal) : Promise.resolve(null)), [clicks]);
  return html`<section class="panel"><h2>Checkpoints</h2>
    <p class="muted">A checkpoint is a signed hash of the log. Kept elsewhere, it proves later that the history up to it was not rewritten: <code>mediary audit verify --since FILE</code>.${' '}
      <code>mediary audit verify</code> verifies the hash chain and the files, even while the service runs.</p>
    <p><button type="button" class="button quiet" onClick=${() => setClicks(clicks + 1)}><${Icon} name="moderation" />Create checkpoint</button></p>
    <${Loaded} from=${taken} skeleton=${null}>
      ${(checkpoint) => checkpoint && html`<${DefinitionList} name="wide" of=${[['Position', number(checkpoint.position)], ['Taken', html`<${Time} at=${checkpoint.at} />`], ['Chain', html`<code>${checkpoint.chain}</code>`], ['Key', html`<code>${checkpoint.public_key}</code>`]]} />
      <${Code} label="Checkpoint" text=${JSON.stringify(checkpoint)} />`}</${Loaded}></section>`;
}
