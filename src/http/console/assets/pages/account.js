// The caller's account: usage and credits, tokens, webhook secret, export and erasure.
import { html, useState } from '../core/dom.js';
import { at, get, post, remove, send } from '../core/api.js';
import { count, displayName, exact, number } from '../core/format.js';
import { useLoad, useMutation } from '../core/load.js';
import { go, to, useTitle } from '../core/router.js';
import { endSession } from '../core/session.js';
import { DefinitionList, Dialog, EmailAddress, ErrorMessage, Icon, Id, Loaded, Page, Skeleton, State, Tabs, notify } from '../parts/basic.js';
import { BudgetUse } from '../parts/budget.js';
import { Confirm } from '../parts/confirm.js';
import { FormTrouble } from '../parts/form.js';
import { saveFile } from '../parts/save.js';
import { NewToken, ShownOnce, TokenTable } from '../parts/token.js';
import { Usage } from '../parts/usage.js';

const TABS = [['usage', 'Usage'], ['tokens', 'Tokens'], ['webhooks', 'Webhooks'], ['data', 'Data']];
const CONTENTS = { usage: UsageTab, tokens: TokensTab, webhooks: WebhooksTab, data: DataTab };

export function AccountPage({ parts: [tab = 'usage'], query, user }) {
  useTitle('Account');
  const current = Object.hasOwn(CONTENTS, tab) ? tab : 'usage';
  const Content = CONTENTS[current];
  return html`<${Page} title="Account" lead=${displayName(user)}>
    <section class="panel"><${DefinitionList} of=${[
      ['Name', user.name], ['E-mail', user.email && html`<${EmailAddress} of=${user.email} />`], ['User id', html`<${Id}>${user.id}</${Id}>`],
      ['Permissions', html`<span class="row">${user.isAdmin && html`<span class="state calm">Administrator</span>`}${user.isApproved && html`<span class="state good">Approved</span>`}${user.status && html`<${State} of=${user.status} />`}${!user.isAdmin && !user.isApproved && !user.status && 'Standard'}</span>`],
      ['Reason for the ban', user.statusReason],
    ]} /></section>
    <${Tabs} tabs=${TABS} current=${current} address=${(tab) => to('account', tab)} />
    <${Content} key=${current} user=${user} query=${query} />
  </${Page}>`;
}

function UsageTab({ user, query }) {
  const credits = useLoad((signal) => get('/users/credits', { limit: 1 }, signal), [user.id]);
  return html`<div class="stack"><${Loaded} from=${credits} skeleton=${html`<${Skeleton} kind="gauge-row" lines=${3} />`}>${({ charged, held, refunded, budgets }) => html`
      <div class="gauges"><${Gauge} name="Charged" of=${charged}>credits of completed tasks</${Gauge}><${Gauge} name="Held" of=${held}>credits of unfinished tasks</${Gauge}>
        <${Gauge} name="Refunded" of=${refunded}>credits of failed and cancelled tasks</${Gauge}></div>
      ${budgets.length > 0 && html`<section class="panel"><h2>Budgets</h2><ul class="plain-list budgets">${budgets.map((budget) => html`<li key=${`${budget.subject.kind} ${budget.subject.id}`}>
        <h3>${budgetName(budget.subject, user)}</h3><${BudgetUse} budget=${budget} /></li>`)}</ul></section>`}`}</${Loaded}></div>
    ${(credits.data || credits.error) && html`<section class="panel"><h2>Usage</h2><${Usage} query=${query} user=${user.id} groupings=${[['day', 'Day'], ['job', 'Job']]} /></section>`}`;
}

const Gauge = ({ name, of, children }) => html`<div class="gauge"><span class="name">${name}</span><strong>${number(of)}</strong><span class="muted small">${children}</span></div>`;

function budgetName({ kind, id }, user) {
  if (kind === 'publisher') return html`Publisher <a href=${to('publishers', id)}>${id}</a>`;
  if (kind === 'token') return 'This token';
  return id === user.id ? 'Your tasks' : 'Tasks of your former account';
}

function TokensTab({ user }) {
  const tokens = useLoad((signal) => get('/users/tokens', {}, signal), [user.id]);
  return html`<p class="muted">A token signs in as you, here and in programs. A new token cannot have more permissions or a later expiry than the token of this session.</p>
    <${NewToken} path="/users/tokens" onMade=${tokens.reload} />
    <${Loaded} from=${tokens}>${(list) => html`<${TokenTable} tokens=${list} path=${(id) => at`/users/tokens/${id}`} reload=${tokens.reload} />`}</${Loaded}>`;
}

function WebhooksTab() {
  const [confirming, setConfirming] = useState(null);
  const [newSecret, setNewSecret] = useState(null);
  const close = () => setConfirming(null);
  return html`<section class="panel"><h2>Webhook secret</h2>
    <p>Webhooks of your tasks carry a signature of the service. With a secret of your own they carry a second one, which your receiver can check without the service's key.</p>
    <p class="row"><button type="button" class="button quiet" onClick=${() => setConfirming('rotate')}><${Icon} name="refresh" />Create a new secret</button>
      <button type="button" class="button quiet" onClick=${() => setConfirming('revoke')}>Revoke all secrets</button></p>
    ${confirming === 'rotate' && html`<${Confirm} title="Create a new webhook secret?" action="Create" onClose=${close} work=${() => post('/users/webhook-secret')} onDone=${(secret) => { close(); setNewSecret(secret); }}>
      The new secret signs from now on. The secret that it replaces also signs for 24 hours, so that you can change your receivers.</${Confirm}>`}
    ${confirming === 'revoke' && html`<${Confirm} title="Revoke all webhook secrets?" action="Revoke" onClose=${close} work=${() => remove('/users/webhook-secret')} onDone=${() => { close(); notify('Revoked'); }}>
      From the next webhook on, only the service signs. Receivers that check your secret will reject webhooks.</${Confirm}>`}
    ${newSecret && html`<${ShownOnce} title="New webhook secret" label="Secret" text=${newSecret.secret} onClose=${() => setNewSecret(null)}>
      no request returns it again${newSecret.previous_until && html`. The previous secret signs until ${exact(newSecret.previous_until).slice(0, 16)} UTC`}</${ShownOnce}>`}
  </section>`;
}

function DataTab({ user }) {
  const work = useMutation();
  const [open, setOpen] = useState(false);
  const load = async () => {
    const { problem, done } = await work.run(async () => (await send('GET', '/users/export')).blob());
    if (problem) return;
    saveFile(done, 'account.json');
    notify('Saved');
  };
  return html`<section class="panel"><h2>Download</h2>
      <p>Everything that the service stores about your account as one JSON file: account, tokens, publishers, reviews, input files, credits, all tasks with their requests and webhooks, and all events that you caused.</p>
      <${ErrorMessage} problem=${work.problem} />
      <p><button type="button" class="button quiet" disabled=${work.busy} onClick=${load}><${Icon} name="download" />${work.busy ? 'Please wait' : 'Download'}</button></p></section>
    <section class="panel"><h2>Erase</h2>
      <p>Permanently erases your account. Your name and e-mail address become unreadable everywhere, including the event log.</p>
      <p><button type="button" class="button danger" onClick=${() => setOpen(true)}>Erase the account</button></p>
      ${open && html`<${Erase} user=${user} onClose=${() => setOpen(false)} />`}</section>`;
}

// Dialog that lists what the user will lose before anything is erased.
function Erase({ user, onClose }) {
  const owned = useLoad(async (signal) => {
    const [tokens, publishers] = await Promise.all([get('/users/tokens', {}, signal), get('/users/publishers', {}, signal)]);
    return { tokens, publishers };
  }, [user.id]);
  const [isConfirmed, setIsConfirmed] = useState(false);
  const work = useMutation();
  const send = async (event) => {
    event.preventDefault();
    const { problem } = await work.run(() => remove('/users'));
    if (problem) return;
    endSession();
    go(to('nodes'));
    notify('Your account was erased');
  };
  return html`<${Dialog} title=${`Erase ${displayName(user)}?`} onClose=${onClose}><form class="form" onSubmit=${send}>
    <${FormTrouble} problem=${work.problem} />
    <${Loaded} from=${owned} skeleton=${html`<${Skeleton} lines=${3} />`}>${({ tokens, publishers }) => html`<p>This cannot be undone. You lose:</p>
      <ul class="losses"><li>your name and e-mail address, which nobody can restore</li>
        <li>${count(tokens.length, 'token')} of yours, and every token that you created for a publisher</li>
        <li>your webhook secrets and input files</li>
        <li>${publishers.length === 0 ? 'access to your tasks and their results' : html`access to your tasks, their results and ${count(publishers.length, 'publisher')}: ${publishers.map(({ id }) => id).join(', ')}`}</li></ul>
      <p class="muted">Past changes stay in the event log under your user id. Running tasks finish.</p>
      <div class="field flag"><label><input type="checkbox" checked=${isConfirmed} onChange=${(event) => setIsConfirmed(event.target.checked)} />I understand that this is permanent</label></div>`}</${Loaded}>
    <footer><button class="button danger" disabled=${!isConfirmed || work.busy}>${work.busy ? 'Please wait' : 'Erase'}</button>
      <button type="button" class="button quiet" onClick=${onClose}>Cancel</button></footer></form></${Dialog}>`;
}
