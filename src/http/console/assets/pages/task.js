// Page of a task: live state, results, request, history, webhooks.
import { html } from '../core/dom.js';
import { at, get } from '../core/api.js';
import { idSuffix, flatten, duration, stateName, toWords } from '../core/format.js';
import { inputAddress, jobOfTask, kindName, useKinds } from '../core/jobs.js';
import { useInterval, useLoad } from '../core/load.js';
import { useNames } from '../core/names.js';
import { jobDocument } from '../core/openapi.js';
import { to, useTitle } from '../core/router.js';
import { BackLink, DefinitionList, Icon, Id, Loaded, Page, Skeleton, State, Time, ErrorMessage } from '../parts/basic.js';
import { CancelTask } from '../parts/cancel.js';
import { Delivery } from '../parts/delivery.js';
import { ReuseActions } from '../parts/gallery.js';
import { describePrice, hasEnded, useTask } from '../parts/live.js';
import { Results } from '../parts/media.js';
import { TaskState } from '../parts/task_state.js';

const PENDING_MS = 5000;

export function TaskPage({ parts: [id], user }) {
  const { task, connection, problem } = useTask(id);
  const deliveries = useDeliveries(task);
  const document = useLoad(jobDocument, []);
  const kinds = useKinds();
  const name = task && kinds ? kindName(kinds, task.kind) : 'Task';
  useTitle(name);
  const back = html`<${BackLink} href=${to('tasks')}>Tasks</${BackLink}>`;
  if (!task) {
    return html`<${Page} title="Task" before=${back}><${ErrorMessage} problem=${problem} />
      ${connection === 'lost' && html`<p class="muted" role="status">Retrying…</p>`}
      ${!problem && html`<${Skeleton} lines=${6} />`}</${Page}>`;
  }
  return html`<${Page} before=${back} title=${name} lead=${html`<${Id}>${task.task_id}</${Id}>${task.owner && html` by <${Owner} id=${task.owner} />`}`} actions=${html`<${Actions} task=${task} user=${user} />`}>
    <${TaskState} task=${task} connection=${connection} />
    ${hasEnded(task) && document.data && html`<${Reuse} ...${{ task, user }} document=${document.data} />`}
    ${task.kind === 'music' && task.state === 'success' && task.generated.length === 0 && html`<p class="muted">The files of this music were not stored.</p>`}
    ${task.generated.length > 0 && html`<section><h2>Result</h2><${Results} task=${task} before=${inputAddress(task)} /></section>`}
    ${task.request && html`<section><h2>Request</h2><${DefinitionList} name="wide" of=${requestFields(task.request)} /></section>`}
    <section><h2>Timeline</h2><${Timeline} task=${task} deliveries=${deliveries.data?.deliveries} /></section>
    <section><h2>Webhook deliveries</h2><${Deliveries} deliveries=${deliveries} /></section>
  </${Page}>`;
}

// Returns the request parameters with their full paths; list entries are numbered.
const requestFields = (request) => flatten(request).map(([path, value]) => [nameOf(path), typeof value === 'object' ? undefined : formatParameter(value)]);
const isIndex = (name) => /^\d+$/.test(name ?? '');
const nameOf = (path) => path.map((name, index) => {
  if (isIndex(name)) return ` ${Number(name) + 1}`;
  const word = toWords(name);
  return `${index ? ', ' : ''}${isIndex(path[index + 1]) ? word.replace(/s$/, '') : word}`;
}).join('');
const formatParameter = (value) => (typeof value === 'boolean' ? (value ? 'Yes' : 'No') : String(value));

// Owner, visible to administrators only.
function Owner({ id }) {
  const name = useNames([`user/${id}`])(`user/${id}`);
  return html`<a href=${to('audit', 'user', id)} title=${id}>${name && `${name} `}<code class="end">${idSuffix(id)}</code></a>`;
}

// Buttons that run the task again, tweak it, or send its result to another job.
function Reuse({ document, task, user }) {
  const job = jobOfTask(document, task);
  return job && html`<div class="task-reuse"><${ReuseActions} ...${{ document, task, job, user }} /></div>`;
}

function Actions({ task, user }) {
  return html`<${CancelTask} task=${task} />
    ${user?.isAdmin && html`<a class="button quiet" href=${to('audit', 'task', task.task_id)}><${Icon} name="audit" />History</a>`}`;
}

// Names of the steps of a task, by state.
const STEPS = { created: 'Submitted', queueing: 'Queued', processing: 'At the vendor', in_progress: 'At the vendor', success: 'Results stored', completed: 'Results stored', failed: 'Failed' };
// Returns the name of a step. Built-in music has no vendor.
const nameOfStep = (task, key) => (STEPS[key] === STEPS.processing && !task.vendor ? 'Running' : STEPS[key]);
// Activity of a task during a state, for the sentence "queued for 3 s". A state lasts until the next one.
const ACTIVITIES = { created: (next) => (next === 'queueing' ? 'fetching inputs' : 'queued'), queueing: () => 'queued', processing: () => 'running', in_progress: () => 'running' };

// Returns the steps of a task, and the delivery of its last webhook after its end.
function stepsOf(task, deliveries) {
  const steps = task.history.map(({ state, at }, index) => {
    const next = task.history[index + 1];
    const key = state.toLowerCase();
    return { state, at, name: nameOfStep(task, key) ?? stateName(state), until: next?.at, during: next && ACTIVITIES[key]?.(next.state.toLowerCase()) };
  });
  const last = task.history.at(-1);
  const arrived = (deliveries ?? []).filter(({ state, attempts }) => state === 'delivered' && attempts.length > 0).map(({ attempts }) => attempts.at(-1).at).sort().at(-1);
  if (!hasEnded(task) || !arrived || arrived < last.at) return steps;
  Object.assign(steps.at(-1), { until: arrived, during: 'delivering' });
  return [...steps, { state: 'delivered', at: arrived, name: 'Webhook delivered' }];
}

function Timeline({ task, deliveries }) {
  const steps = stepsOf(task, deliveries);
  const spans = steps.filter(({ until }) => until).map((step) => ({ ...step, length: Math.max(Date.parse(step.until) - Date.parse(step.at), 1) }));
  return html`${spans.length > 0 && html`<div class="spans" aria-hidden="true">${spans.map((step) => html`<div key=${step.at} class="span ${step.during?.split(' ')[0]}" style=${{ flexGrow: step.length }} title=${`${step.during}: ${duration(step.at, step.until)}`}></div>`)}</div>`}
    <ol class="course">${steps.map((step) => html`<li key=${step.at + step.state}><${State} of=${step.state} /><strong>${step.name}${step.name === 'At the vendor' && task.vendor ? html`: ${task.vendor.name}` : ''}</strong>
      <span class="muted"><${Time} at=${step.at} /></span>
      ${step.until && html`<span class="muted small">${step.during} for ${duration(step.at, step.until)}</span>`}</li>`)}</ol>
    <${DefinitionList} of=${[['Submitted', html`<${Time} at=${task.created_at} />`], ['Price', describePrice(task)], ['Vendor', task.vendor && vendorSummary(task.vendor)], ['Results deleted', task.expires_at && html`<${Time} at=${task.expires_at} due=${!task.expired} />`]]} />`;
}

// Describes the vendor of a task: its name, the id of the job at the vendor, and its cost there in the unit that the
// operator chose.
const vendorSummary = ({ name, reference, cost }) => html`${name}${reference && html` <code>${reference}</code>`}${cost > 0 && `, costs ${cost} there`}`;

function useDeliveries(task) {
  const deliveries = useLoad(async (signal) => (task ? get(at`/tasks/${task.task_id}/deliveries`, {}, signal) : undefined), [task?.task_id, task?.state]);
  const pending = deliveries.data?.deliveries.some((delivery) => delivery.state === 'pending');
  useInterval(pending ? PENDING_MS : 0, deliveries.refresh);
  return deliveries;
}

function Deliveries({ deliveries }) {
  return html`<${Loaded} from=${deliveries} skeleton=${html`<${Skeleton} lines=${2} />`}>${({ deliveries: list }) => list.length === 0
    ? html`<p class="muted">No webhook: the task was submitted without one.</p>`
    : html`<ul class="deliveries">
      ${list.map((delivery) => html`<${Delivery} key=${delivery.id} title=${stateName(delivery.status)} delivery=${delivery} reload=${deliveries.reload} />`)}</ul>`}</${Loaded}>`;
}
