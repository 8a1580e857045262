// Tokens: the form that creates one, the dialog that shows it once, and lists.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { call, remove } from '../core/api.js';
import { newIdempotencyKey, useElementId } from '../core/identity.js';
import { useMutation } from '../core/load.js';
import { Copy, Dialog, Empty, Icon, Id, Time, notify } from './basic.js';
import { Confirm } from './confirm.js';
import { focusFirst } from './dialog.js';
import { FormTrouble } from './form.js';

const DAY_MS = 86400000;
const LIFETIMES = [['', 'Never'], [7, 'In 7 days'], [30, 'In 30 days'], [90, 'In 90 days'], [365, 'In a year']];
// Pointers of fields whose name differs in the request.
const POINTERS = { days: '/expiresAt' };
const SCOPES = [['all', 'Everything'], ['read_only', 'Read only']];

// Button, form and display of a new token.
export function NewToken({ path, onMade, label = 'Create token' }) {
  const [open, setOpen] = useState(false);
  const [newToken, setNewToken] = useState(null);
  const done = (created) => { setOpen(false); setNewToken(created.token); };
  const close = () => { setNewToken(null); onMade(); };
  return html`<p><button type="button" class="button quiet" onClick=${() => setOpen(true)}><${Icon} name="plus" />${label}</button></p>
    ${open && html`<${Dialog} title=${label} onClose=${() => setOpen(false)}><${TokenForm} path=${path} onDone=${done} onCancel=${() => setOpen(false)} /></${Dialog}>`}
    ${newToken && html`<${ShownOnce} title="New token" label="Token" text=${newToken} onClose=${close}>the service stores only a hash</${ShownOnce}>`}`;
}

// Secret that is shown only once; only its button closes the dialog.
export function ShownOnce({ title, label, text, onClose, children }) {
  return html`<${Dialog} title=${title}><div class="form"><p><strong>Copy it now.</strong> It is shown only once: ${children}.</p>
    <div class="code"><pre tabindex="0" aria-label=${label}><code class="secret">${text}</code></pre></div>
    <footer><${Copy} text=${text} label=${`Copy ${label.toLowerCase()}`} shown="Copy" /><button type="button" class="button" onClick=${onClose}>Done</button></footer></div></${Dialog}>`;
}

function TokenForm({ path, onDone, onCancel }) {
  const [values, setValues] = useState({ name: '', description: '', scope: 'all', days: '' });
  const work = useMutation();
  const form = useRef(null);
  const key = useRef(null);
  useEffect(() => focusFirst(form.current.closest('dialog')), []);
  const fill = (name) => (event) => {
    key.current = null;
    work.drop((pointer) => pointer === (POINTERS[name] ?? `/${name}`));
    setValues({ ...values, [name]: event.target.value });
  };
  const send = async (event) => {
    event.preventDefault();
    // A retry sends the same expiry, because the body must not change under an idempotency key.
    key.current ??= { 'Idempotency-Key': newIdempotencyKey(), now: Date.now() };
    const { now, ...headers } = key.current;
    const expiresAt = values.days ? new Date(now + values.days * DAY_MS).toISOString() : undefined;
    const body = { name: values.name, description: values.description || undefined, scope: values.scope, expiresAt };
    const { problem, done } = await work.run(() => call('POST', path, { body, headers }));
    if (!problem || problem.isFinal) key.current = null;
    if (!problem) onDone(done);
  };
  const field = { values, fill, problem: work.problem };
  return html`<form ref=${form} class="form" onSubmit=${send} novalidate>
    <${FormTrouble} problem=${work.problem} />
    <${TokenField} ...${field} name="name" label="Name" required hint="What uses the token." />
    <${TokenField} ...${field} name="description" label="Description" />
    <${TokenField} ...${field} name="scope" label="Scope" choices=${SCOPES} hint="A read-only token can change nothing." />
    <${TokenField} ...${field} name="days" label="Expires" choices=${LIFETIMES} hint="At the latest when the token of this session expires." />
    <footer><button class="button" disabled=${work.busy}>${work.busy ? 'Please wait' : 'Create'}</button>
      <button type="button" class="button quiet" onClick=${onCancel}>Cancel</button></footer>
  </form>`;
}

function TokenField({ values, fill, problem, name, label, required, choices, hint }) {
  const id = useElementId('field');
  const fault = problem?.at?.(POINTERS[name] ?? `/${name}`);
  const about = [fault && `${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(' ') || undefined;
  return html`<div class="field ${fault ? 'faulty' : ''}">
    <label for=${id}>${label}${required && html`<span class="required">required</span>`}</label>
    ${choices ? html`<div class="select"><select id=${id} aria-describedby=${about} onChange=${fill(name)}>${choices.map(([value, text]) => html`
        <option key=${value} value=${value} selected=${String(value) === String(values[name])}>${text}</option>`)}</select></div>`
      : html`<input id=${id} type="text" autocomplete="off" aria-required=${required ? 'true' : undefined} aria-invalid=${fault ? 'true' : undefined} aria-describedby=${about} value=${values[name]} onInput=${fill(name)} />`}
    ${fault && html`<p class="fault" id=${`${id}-fault`}><${Icon} name="warn" />${fault}</p>`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;
}

const isExpired = ({ expiresAt }) => Boolean(expiresAt) && Date.parse(expiresAt) <= Date.now();

export function TokenTable({ tokens, path, reload }) {
  // The token whose revocation is to be confirmed.
  const [revoked, setRevoked] = useState(null);
  if (tokens.length === 0) return html`<${Empty} icon="key" title="No tokens">A new token is shown only once.</${Empty}>`;
  return html`<table class="table"><thead><tr><th>Name</th><th>Scope</th><th>Created</th><th>Last used</th><th>Expires</th><th><span class="unseen">Actions</span></th></tr></thead>
    <tbody>${tokens.map((token) => html`<tr key=${token.id}>
      <td data-label="Name"><div><strong>${token.name}</strong>${token.description && html`<br /><span class="muted">${token.description}</span>`}<br />
        <${Id}>${token.id}</${Id}></div></td>
      <td data-label="Scope">${token.scope === 'read_only' ? 'Read only' : 'Everything'}</td>
      <td data-label="Created"><${Time} at=${token.createdAt} /></td>
      <td data-label="Last used">${token.lastUsedAt ? html`<${Time} at=${token.lastUsedAt} />` : html`<span class="muted">Never</span>`}</td>
      <td data-label="Expires">${isExpired(token) ? html`<span class="state warn">Expired</span>` : token.expiresAt ? html`<${Time} at=${token.expiresAt} due />` : html`<span class="muted">Never</span>`}</td>
      <td><button type="button" class="button quiet small" onClick=${() => setRevoked(token)}>Revoke</button></td></tr>`)}</tbody></table>
    ${revoked && html`<${Confirm} title=${`Revoke ${revoked.name}?`} action="Revoke" onClose=${() => setRevoked(null)} work=${() => remove(path(revoked.id))} onDone=${() => { setRevoked(null); notify('Revoked'); reload(); }}>
      Programs that use it lose access immediately. This cannot be undone.</${Confirm}>`}`;
}
