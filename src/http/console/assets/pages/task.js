// Page of a task: live state, results, request, history, webhooks.
import { html } from '../core/dom.js';
import { at, get, post } from '../core/api.js';
import { count, idSuffix, flatten, number, duration, stateName, toWords } from '../core/format.js';
import { kindName, useKinds } from '../core/jobs.js';
import { useInterval, useLoad, useMutation } from '../core/load.js';
import { useNames } from '../core/names.js';
import { to, useTitle } from '../core/router.js';
import { BackLink, DefinitionList, Icon, Id, Loaded, Page, Progress, Skeleton, State, Time, ErrorMessage, notify } from '../parts/basic.js';
import { CancelTask } from '../parts/cancel.js';
import { finalCost, hasEnded, useTask } from '../parts/live.js';
import { Results } from '../parts/media.js';

const PENDING_MS = 5000;

export function TaskPage({ parts: [id], user }) {
  const { task, line, problem } = useTask(id);
  const kinds = useKinds();
  const name = task && kinds ? kindName(kinds, task.kind) : 'Task';
  useTitle(name);
  const back = html`<${BackLink} href=${to('tasks')}>Tasks</${BackLink}>`;
  if (!task) {
    return html`<${Page} title="Task" before=${back}><${ErrorMessage} problem=${problem} />
      ${line === 'lost' && html`<p class="muted" role="status">Retrying…</p>`}
      ${!problem && html`<${Skeleton} lines=${6} />`}</${Page}>`;
  }
  return html`<${Page} before=${back} title=${name} lead=${html`<${Id}>${task.task_id}</${Id}>${task.owner && html` by <${Owner} id=${task.owner} />`}`} actions=${html`<${Actions} task=${task} user=${user} />`}>
    <${TaskState} task=${task} line=${line} />
    ${task.kind === 'music' && task.state === 'success' && html`<p class="muted">Music is streamed to the client and not stored.</p>`}
    ${task.generated.length > 0 && html`<section><h2>Result</h2><${Results} task=${task} /></section>`}
    ${task.request && html`<section><h2>Request</h2><${DefinitionList} name="wide" of=${requestFields(task.request)} /></section>`}
    <section><h2>History</h2><${TaskHistory} task=${task} /></section>
    <section><h2>Webhook deliveries</h2><${Deliveries} task=${task} /></section>
  </${Page}>`;
}

// Request parameters with their full path; list entries are numbered.
const requestFields = (request) => flatten(request).map(([way, value]) => [nameOf(way), typeof value === 'object' ? undefined : formatParameter(value)]);
const isIndex = (name) => /^\d+$/.test(name ?? '');
const nameOf = (way) => way.map((name, at) => {
  if (isIndex(name)) return ` ${Number(name) + 1}`;
  const word = toWords(name);
  return `${at ? ', ' : ''}${isIndex(way[at + 1]) ? word.replace(/s$/, '') : word}`;
}).join('');
const formatParameter = (value) => (typeof value === 'boolean' ? (value ? 'Yes' : 'No') : String(value));

// Owner, visible to administrators only.
function Owner({ id }) {
  const name = useNames([`user/${id}`])(`user/${id}`);
  return html`<a href=${to('audit', 'user', id)} title=${id}>${name && `${name} `}<code class="end">${idSuffix(id)}</code></a>`;
}

function Actions({ task, user }) {
  return html`<${CancelTask} task=${task} />
    ${user?.isAdmin && html`<a class="button quiet" href=${to('audit', 'task', task.task_id)}><${Icon} name="audit" />History</a>`}`;
}

// State of a task, announced to screen readers.
export function TaskState({ task, line }) {
  const over = hasEnded(task);
  return html`<div class="task-state">
    <div aria-live="polite" aria-atomic="true" class="row"><${State} of=${task.state} />
      ${!over && task.queue_position && html`<span class="muted">position ${task.queue_position} in the queue</span>`}
      ${over && html`<span class="muted">after ${duration(task.created_at, task.updated_at)}</span>`}
      ${!over && line === 'lost' && html`<span class="state warn">Connection lost, reconnecting</span>`}</div>
    ${!over && html`<${Progress} value=${task.progress} label="Task progress" />`}
    ${!over && task.blocked_by && html`<p class="muted">Blocked: ${task.blocked_by.message}. Last attempt <${Time} at=${task.blocked_by.since} />,
      the next attempt is <${Time} at=${task.blocked_by.next_attempt_at} due />.</p>`}
    ${task.prompt_report && html`<${PromptReport} of=${task.prompt_report} />`}
    ${task.error && html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${toWords(task.error.code)}</strong><p>
      ${task.error.message}</p></div></div>`}
  </div>`;
}

// Words of the prompt that the built-in engine understood and ignored.
function PromptReport({ of: { understood, ignored } }) {
  const named = (list) => list.map((word, at) => html`${at > 0 && ', '}<q>${word}</q>`);
  return html`<p class="muted">${understood.length === 0 ? 'Nothing in the prompt was understood' : html`Understood: ${named(understood)}`}.
    ${ignored.length > 0 && html` Ignored: ${named(ignored)}.`}</p>`;
}

function TaskHistory({ task }) {
  const { cost, back } = finalCost(task);
  return html`<ol class="course">${task.history.map((step, index) => html`<li key=${index}><${State} of=${step.state} /><span class="muted">
    <${Time} at=${step.at} /></span>
      ${index > 0 && html`<span class="muted small">+${duration(task.history[index - 1].at, step.at)}</span>`}</li>`)}</ol>
    <${DefinitionList} of=${[['Submitted', html`<${Time} at=${task.created_at} />`], ['Cost', `${count(cost, 'credit')}${back > 0 ? `, ${number(back)} refunded` : ''}`], ['Vendor', task.vendor && vendorSummary(task.vendor)], ['Results deleted', task.expires_at && html`<${Time} at=${task.expires_at} due=${!task.expired} />`]]} />`;
}

// Vendor of the task, its id there, and the cost there in the unit of the operator.
const vendorSummary = ({ name, reference, cost }) => html`${name}${reference && html` <code>${reference}</code>`}${cost > 0 && `, costs ${cost} there`}`;

function Deliveries({ task }) {
  const deliveries = useLoad((signal) => get(at`/tasks/${task.task_id}/deliveries`, {}, signal), [task.task_id, task.state]);
  const pending = deliveries.data?.deliveries.some((delivery) => delivery.state === 'pending');
  useInterval(pending ? PENDING_MS : 0, deliveries.refresh);
  return html`<${Loaded} from=${deliveries} skeleton=${html`<${Skeleton} lines=${2} />`}>${({ deliveries: list }) => list.length === 0
    ? html`<p class="muted">No webhook: the task was submitted without one.</p>`
    : html`<ul class="deliveries">
      ${list.map((delivery) => html`<${Delivery} key=${delivery.id} delivery=${delivery} reload=${deliveries.reload} />`)}</ul>`}</${Loaded}>`;
}

function Delivery({ delivery, reload }) {
  const work = useMutation();
  const again = async () => {
    const { problem } = await work.run(() => post(at`/deliveries/${delivery.id}/redeliver`));
    if (problem && problem.status !== 409) return;
    // A 409 means that the delivery was already queued.
    work.clear();
    notify(problem ? 'Already queued' : 'Queued again');
    reload();
  };
  return html`<li class="release"><header><${State} of=${delivery.state} /><strong>${stateName(delivery.status)}</strong>
      <span class="muted">to <code>${delivery.url}</code></span><span class="spread"></span>
      ${delivery.state !== 'pending' && html`<button type="button" class="button quiet small" disabled=${work.busy} onClick=${again}>
        <${Icon} name="refresh" />Redeliver</button>`}</header>
    <${ErrorMessage} problem=${work.problem} />
    ${delivery.waits_for && html`<p class="muted small">Waits for the previous delivery.</p>`}
    <table class="table small"><thead><tr><th>Attempt</th><th>Response</th><th>When</th></tr></thead><tbody>
      ${delivery.attempts.map((attempt) => html`<tr key=${attempt.number}><td data-label="Attempt">${attempt.number}</td>
        <td data-label="Response">${attempt.status_code ?? attempt.reason ?? 'none'}</td><td data-label="When"><${Time} at=${attempt.at} /></td></tr>`)}
      ${delivery.attempts.length === 0 && html`<tr><td colspan="3" class="muted">No attempt yet.</td></tr>`}</tbody></table>
    ${delivery.next_attempt_at && html`<p class="muted small">The next attempt is <${Time} at=${delivery.next_attempt_at} due />.</p>`}
  </li>`;
}
