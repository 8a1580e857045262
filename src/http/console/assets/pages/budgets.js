// Budgets of users, tokens and publishers, and the usage of the whole service, for administrators.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { at, call, get, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { useElementId } from '../core/identity.js';
import { useLoad, useMutation } from '../core/load.js';
import { useNames } from '../core/names.js';
import { to, useTitle } from '../core/router.js';
import { Dialog, Empty, Icon, Loaded, Page, Pager, Skeleton, Tabs, notify } from '../parts/basic.js';
import { BudgetUse, PERIOD_NAMES } from '../parts/budget.js';
import { Confirm } from '../parts/confirm.js';
import { focusFirst } from '../parts/dialog.js';
import { FormTrouble } from '../parts/form.js';
import { PagedSection } from '../parts/more.js';
import { Usage } from '../parts/usage.js';

const PAGE_SIZE = 20;
const TABS = [['list', 'Budgets'], ['usage', 'Usage']];
const KINDS = [['user', 'User'], ['publisher', 'Publisher'], ['token', 'Token of a user']];
const GROUPINGS = [['day', 'Day'], ['user', 'User'], ['vendor', 'Vendor'], ['job', 'Job']];

export function BudgetsPage({ parts: [tab = 'list'], query }) {
  useTitle('Budgets');
  const [open, setOpen] = useState(null);
  // Each change of the number loads the list again.
  const [changes, setChanges] = useState(0);
  const done = () => { setOpen(null); notify('Saved'); setChanges(changes + 1); };
  const current = tab === 'usage' ? 'usage' : 'list';
  return html`<${Page} title="Budgets" lead="What submissions may cost, and what they have cost."
      actions=${html`<button type="button" class="button" onClick=${() => setOpen({})}><${Icon} name="plus" />Set budget</button>`}>
    <${Tabs} tabs=${TABS} current=${current} address=${(tab) => to('budgets', tab)} />
    ${current === 'usage' ? html`<${ServiceUsage} key="usage" query=${query} />` : html`<${Budgets} key="list" query=${query} changes=${changes} onEdit=${setOpen} onDone=${() => setChanges(changes + 1)} />`}
    ${open && html`<${Dialog} title=${open.subject ? 'Change budget' : 'Set budget'} onClose=${() => setOpen(null)}><${BudgetForm} budget=${open} onDone=${done} onCancel=${() => setOpen(null)} /></${Dialog}>`}
  </${Page}>`;
}

const resourceOf = ({ kind, id }) => `${kind}/${id}`;

function Budgets({ query, changes, onEdit, onDone }) {
  const page = Number(query.get('page')) || 1;
  const budgets = useLoad((signal) => get('/admin/budgets', { page, limit: PAGE_SIZE }, signal), [page, changes]);
  const nameOf = useNames((budgets.data?.budgets ?? []).map(({ subject }) => resourceOf(subject)));
  // The budget whose removal is to be confirmed.
  const [removed, setRemoved] = useState(null);
  return html`<div class="stack"><${Loaded} from=${budgets} skeleton=${html`<${Skeleton} lines=${5} />`}>${(list) => (list.total === 0
    ? html`<${Empty} icon="budgets" title="No budgets">A budget limits what the tasks of a user, a token or a publisher may cost in a day, a month or in total.</${Empty}>`
    : html`<${PagedSection} page=${list.page} label="Budgets"><p class="summary">${count(list.total, 'budget')}</p>
      <ul class="versions">${list.budgets.map((budget) => html`<li key=${resourceOf(budget.subject)} class="release">
        <header><${Subject} subject=${budget.subject} name=${nameOf(resourceOf(budget.subject))} /><span class="spread"></span>
          <span class="row"><button type="button" class="button quiet small" onClick=${() => onEdit(budget)}>Change</button>
            <button type="button" class="button quiet small" onClick=${() => setRemoved(budget)}>Remove</button>
            <a class="button quiet small" href=${to('audit', 'budget', `${budget.subject.kind}.${budget.subject.id}`)}>History</a></span></header>
        <${BudgetUse} budget=${budget} /></li>`)}</ul>
      <${Pager} page=${list.page} pages=${list.totalPages} address=${(page) => to('budgets', { page })} /></${PagedSection}>`)}</${Loaded}>
    ${removed && html`<${Confirm} title=${`Remove the budget of ${nameOf(resourceOf(removed.subject)) ?? removed.subject.id}?`} action="Remove" onClose=${() => setRemoved(null)}
      work=${() => remove(at`/admin/budgets/${removed.subject.kind}/${removed.subject.id}`)} onDone=${() => { setRemoved(null); notify('Removed'); onDone(); }}>
      Tasks of this ${removed.subject.kind} are no longer limited to ${count(removed.limit, 'credit')} ${PERIOD_NAMES[removed.period]}.</${Confirm}>`}</div>`;
}

// Name and id of the subject. A placeholder keeps the line of the name until it is loaded.
function Subject({ subject: { kind, id }, name }) {
  const substitute = name === undefined ? '…' : kind === 'publisher' ? id : 'No name';
  return html`<div><h2 class="plain">${name ?? substitute}</h2><span class="tag">${kind}</span> <code class="muted small">${id}</code></div>`;
}

function BudgetForm({ budget, onDone, onCancel }) {
  const isNew = !budget.subject;
  const [values, setValues] = useState({ kind: budget.subject?.kind ?? 'user', id: budget.subject?.id ?? '', credits: budget.limit === undefined ? '' : String(budget.limit), period: budget.period ?? 'month' });
  const work = useMutation();
  const form = useRef(null);
  useEffect(() => focusFirst(form.current.closest('dialog')), []);
  const fill = (name) => (event) => {
    work.drop((pointer) => pointer === `/${name}`);
    setValues({ ...values, [name]: event.target.value });
  };
  const send = async (event) => {
    event.preventDefault();
    const credits = values.credits.trim() === '' ? undefined : Number(values.credits);
    const { problem } = await work.run(() => call('PUT', at`/admin/budgets/${values.kind}/${values.id.trim()}`, { body: { credits, period: values.period } }));
    if (!problem) onDone();
  };
  const field = { values, fill, problem: work.problem };
  return html`<form ref=${form} class="form" onSubmit=${send} novalidate>
    <${FormTrouble} problem=${work.problem} />
    ${isNew ? html`<${BudgetField} ...${field} name="kind" label="Subject" choices=${KINDS} />
      <${BudgetField} ...${field} name="id" label="Id" hint="Id of the user, publisher or token." />`
      : html`<p>Budget of the ${values.kind} <code>${values.id}</code>.</p>`}
    <${BudgetField} ...${field} name="credits" label="Credits" kind="number" hint="A budget below the credits already used rejects further submissions, and cancels nothing." />
    <${BudgetField} ...${field} name="period" label="Period" choices=${Object.entries(PERIOD_NAMES)} hint="Days and months begin at midnight UTC." />
    <footer><button class="button" disabled=${work.busy || !values.id.trim()}>${work.busy ? 'Please wait' : 'Save'}</button>
      <button type="button" class="button quiet" onClick=${onCancel}>Cancel</button></footer></form>`;
}

function BudgetField({ values, fill, problem, name, label, choices, kind = 'text', hint }) {
  const id = useElementId('field');
  const fault = problem?.at?.(`/${name}`);
  const about = [fault && `${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(' ') || undefined;
  return html`<div class="field ${fault ? 'faulty' : ''}"><label for=${id}>${label}</label>
    ${choices ? html`<div class="select"><select id=${id} aria-describedby=${about} onChange=${fill(name)}>${choices.map(([value, text]) => html`
        <option key=${value} value=${value} selected=${value === values[name]}>${text}</option>`)}</select></div>`
      : html`<input id=${id} type=${kind} min="0" autocomplete="off" spellcheck="false" aria-invalid=${fault ? 'true' : undefined} aria-describedby=${about} value=${values[name]} onInput=${fill(name)} />`}
    ${fault && html`<p class="fault" id=${`${id}-fault`}><${Icon} name="warn" />${fault}</p>`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;
}

// Usage of everyone. Users are shown by name, if they have one.
function ServiceUsage({ query }) {
  const [users, setUsers] = useState([]);
  const nameOf = useNames(users.map((id) => `user/${id}`));
  const onGroups = (ids) => { if (ids.join() !== users.join()) setUsers(ids); };
  return html`<section class="panel"><h2>Usage of the service</h2>
    <${Usage} query=${query} groupings=${GROUPINGS} onGroups=${query.get('by') === 'user' ? onGroups : undefined}
      nameOf=${(id) => (query.get('by') === 'user' ? nameOf(`user/${id}`) ?? id : id)} /></section>`;
}
