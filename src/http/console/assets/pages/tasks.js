// List of tasks, newest first.
import { html } from '../core/dom.js';
import { get } from '../core/api.js';
import { idSuffix, duration, stateName } from '../core/format.js';
import { kindName, useKinds } from '../core/jobs.js';
import { mergePages, useInterval, useLoad, usePagedList } from '../core/load.js';
import { Thumbnail } from '../parts/gallery.js';
import { describePrice, hasEnded } from '../parts/live.js';
import { useNames } from '../core/names.js';
import { jobDocument, plain, pointer } from '../core/openapi.js';
import { refine, to, useTitle } from '../core/router.js';
import { Empty, Icon, Id, Loaded, Page, Progress, Skeleton, State, Time } from '../parts/basic.js';
import { LoadMore } from '../parts/more.js';

const PAGE_SIZE = 25;
// Maximum number of tasks that a refresh covers.
const REFRESH_MAX = 100;
const REFRESH_MS = 4000;

export function TasksPage({ query, user }) {
  useTitle('Tasks');
  const filter = { kind: query.getAll('kind'), state: query.getAll('state'), owner: query.get('mine') ? user.id : undefined,
    created_from: time(query.get('from')), created_to: time(query.get('to')) };
  const list = usePagedList(async ({ next, shown, signal }) => {
    // A refresh covers all listed tasks, up to the maximum.
    const limit = Math.min(Math.max(shown?.entries.length ?? 0, PAGE_SIZE), REFRESH_MAX);
    const page = await get('/tasks', { ...filter, limit, cursor: next }, signal);
    return { entries: page.tasks, next: page.next_cursor };
  }, [filter, user.id], mergePages);
  const states = useLoad(async () => statesOf(await jobDocument()), []);
  const kinds = useKinds();
  const nameOf = useNames(user.isAdmin ? (list.data?.entries ?? []).flatMap((task) => (task.owner ? [`user/${task.owner}`] : [])) : []);
  const tasks = list.data?.entries ?? [];
  const running = tasks.slice(0, REFRESH_MAX).some((task) => !hasEnded(task));
  useInterval(running ? REFRESH_MS : 0, list.refresh);
  return html`<${Page} title="Tasks" lead=${user.isAdmin ? 'Tasks of all users.' : 'Your tasks.'}
      actions=${html`<a class="button" href=${to('studio')}><${Icon} name="studio" />Open studio</a>`}>
    <form class="filters task-filters" onSubmit=${(event) => event.preventDefault()}>
      <${FilterSelect} label="Kind" name="kind" all=${[...kinds?.keys() ?? []]} chosen=${filter.kind} nameOf=${(kind) => kindName(kinds, kind)} />
      <${FilterSelect} label="State" name="state" all=${states.data ?? []} chosen=${filter.state} nameOf=${stateName} />
      <${Range} from=${query.get('from')} to=${query.get('to')} />
      <label class="order"><span>From</span>
        <input type="date" value=${query.get('from') ?? ''} onChange=${(event) => refine({ from: event.target.value })} /></label>
      <label class="order"><span>Before</span>
        <input type="date" value=${query.get('to') ?? ''} onChange=${(event) => refine({ to: event.target.value })} /></label>
      ${user.isAdmin && html`<label class="chip">
        <input type="checkbox" checked=${Boolean(filter.owner)} onChange=${(event) => refine({ mine: event.target.checked ? 'true' : undefined })} />
        <span>Only my tasks</span></label>`}
    </form>
    <${Loaded} from=${kinds ? list : { reload: list.reload }} skeleton=${html`<${Skeleton} lines=${8} />`}>${() => tasks.length === 0
      ? html`<${Empty} icon="tasks" title=${query.toString() ? 'No matching tasks' : 'No tasks yet'} action=${html`<a class="button" href=${to('studio')}>Open studio</a>`}>
          ${query.toString() ? 'No task matches these filters.' : 'Tasks from the studio and the API appear here.'}</${Empty}>`
      : html`<table class="table tasks"><thead><tr><th>Task</th>${user.isAdmin && html`<th>Owner</th>`}<th>State</th><th>Vendor</th><th>Submitted</th><th>Duration</th><th>Price</th></tr></thead>
        <tbody>${tasks.map((task) => html`<tr key=${task.task_id}>
          <td data-label="Task"><div class="task-cell"><${Thumbnail} task=${task} alt="" /><div><a href=${to('tasks', task.task_id)}><strong>${kindName(kinds, task.kind)}</strong></a><br /><${Id}>${task.task_id}</${Id}></div></div></td>
          ${user.isAdmin && html`<td data-label="Owner"><${OwnerCell} task=${task} user=${user} nameOf=${nameOf} /></td>`}
          <td data-label="State"><div><${State} of=${task.state} />
            ${!hasEnded(task) && html`<${Progress} value=${task.progress} label=${`Progress of ${task.task_id}`} />`}${task.error && html`<br />
            <span class="muted small">${task.error.code}</span>`}</div></td>
          <td data-label="Vendor">${task.vendor?.name ?? html`<span class="muted">–</span>`}</td>
          <td data-label="Submitted"><${Time} at=${task.created_at} /></td>
          <td data-label="Duration">${hasEnded(task) ? duration(task.created_at, task.updated_at) : html`<span class="muted">–</span>`}</td>
          <td data-label="Price">${describePrice(task)}</td></tr>`)}</tbody></table>
        <${LoadMore} of=${list}>Older tasks</${LoadMore}>`}</${Loaded}>
  </${Page}>`;
}

// Owner column; the API returns owners to administrators only.
function OwnerCell({ task: { owner }, user, nameOf }) {
  if (!owner) return html`<span class="muted">Anonymous</span>`;
  const name = nameOf(`user/${owner}`);
  // The style of the cell reserves two lines until the name is loaded.
  return html`<div class="owner" title=${owner}>${name !== undefined && html`${name && html`<span class="name">${name}</span>`}
    ${owner === user.id ? html`<span class="muted">(you)</span>` : html`<code class="end muted small">${idSuffix(owner)}</code>`}`}</div>`;
}

const DAY_MS = 86400000;
const RANGES = [['Today', 0], ['7 days', 6], ['30 days', 29]];
const dayBefore = (days) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

// Common ranges of days, in UTC like the other dates.
function Range({ from, to }) {
  return html`<fieldset class="chips"><legend>Range</legend>${RANGES.map(([name, days]) => {
    const isChosen = from === dayBefore(days) && !to;
    return html`<label key=${name} class="chip"><input type="checkbox" checked=${isChosen} onChange=${() => refine({ from: isChosen ? undefined : dayBefore(days), to: undefined })} /><span>${name}</span></label>`;
  })}</fieldset>`;
}

const time = (day) => (day ? `${day}T00:00:00Z` : undefined);

// Returns the states of tasks. States of images and videos that mean the same are listed once; the API matches both.
function statesOf(document) {
  const { state } = plain(document, pointer(document, '#/components/schemas/Task')).properties;
  return (plain(document, state).enum ?? []).filter((name, index, all) => all.findIndex((state) => stateName(state) === stateName(name)) === index);
}

function FilterSelect({ label, name, all, chosen, nameOf }) {
  const isChosen = (value) => chosen.length > 0 && nameOf(value) === nameOf(chosen[0]);
  return html`<label class="order"><span>${label}</span><div class="select">
    <select value=${all.find(isChosen) ?? ''} onChange=${(event) => refine({ [name]: event.target.value })}>
    <option value="">All</option>${all.map((value) => html`<option key=${value} value=${value} selected=${isChosen(value)}>${nameOf(value)}
      </option>`)}</select></div></label>`;
}
