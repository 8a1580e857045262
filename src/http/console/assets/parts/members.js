// Members of a publisher and their roles.
import { html, useState } from '../core/dom.js';
import { at, put, remove } from '../core/api.js';
import { displayName, toWords } from '../core/format.js';
import { useMutation } from '../core/load.js';
import { EmailAddress, Dialog, Icon, Id, notify, ErrorMessage } from './basic.js';
import { Confirm } from './confirm.js';
import { FormTrouble } from './form.js';

const ROLES = ['owner', 'member'];

export function Members({ publisher, user, mayEdit, reload }) {
  const [leaving, setLeaving] = useState(null);
  // E-mail addresses are visible to members and administrators.
  const sees = user?.isAdmin || publisher.members.some((member) => member.id === user?.id);
  const [open, setOpen] = useState(false);
  const work = useMutation();
  const change = async (member, role) => {
    const { problem } = await work.run(() => put(at`/publishers/${publisher.id}/members/${member.id}`, { role }));
    if (!problem) { notify('Saved'); reload(); }
  };
  return html`<section>
    ${mayEdit && html`<p><button type="button" class="button quiet" onClick=${() => setOpen(true)}><${Icon} name="plus" />Add member</button></p>`}
    <${ErrorMessage} problem=${work.problem} />
    <table class="table"><thead><tr><th>Member</th><th>E-mail</th><th>Role</th>${mayEdit && html`<th><span class="unseen">Actions</span></th>`}</tr>
      </thead>
      <tbody>${publisher.members.map((member) => html`<tr key=${member.id}>
        <td data-label="Member"><strong>${displayName(member.user)}</strong> ${member.id === user?.id && html`<span class="muted">(you)</span>`}<br /><${Id}>${member.id}</${Id}></td>
        <td class="address" data-label="E-mail">${member.user.email ? html`<${EmailAddress} of=${member.user.email} />` : html`<span class="muted">${sees ? 'none' : 'Hidden'}</span>`}</td>
        <td data-label="Role">${mayEdit ? html`<div class="select small">
          <select aria-label=${`Role of ${displayName(member.user)}`} value=${member.role} disabled=${work.busy} onChange=${(event) => change(member, event.target.value)}>
          ${ROLES.map((role) => html`<option key=${role} value=${role} selected=${role === member.role}>${toWords(role)}</option>`)}
            </select></div>` : member.role}</td>
        ${mayEdit && html`<td><button type="button" class="button quiet small" onClick=${() => setLeaving(member)}>Remove</button></td>`}
      </tr>`)}</tbody></table>
    ${leaving && html`<${Confirm} title=${`Remove ${displayName(leaving.user)}?`} action="Remove" onClose=${() => setLeaving(null)} work=${() => remove(at`/publishers/${publisher.id}/members/${leaving.id}`)}
      onDone=${() => { setLeaving(null); notify('Removed'); reload(); }}>The member loses access to this publisher. Tokens of the publisher stay valid.</${Confirm}>`}
    ${open && html`<${AddMember} publisher=${publisher} onClose=${() => setOpen(false)} onDone=${() => { setOpen(false); notify('Added'); reload(); }} />`}
  </section>`;
}

function AddMember({ publisher, onClose, onDone }) {
  const [id, setId] = useState('');
  const [role, setRole] = useState('member');
  const work = useMutation();
  const send = async (event) => {
    event.preventDefault();
    const { problem } = await work.run(() => put(at`/publishers/${publisher.id}/members/${id.trim()}`, { role }));
    if (!problem) onDone();
  };
  return html`<${Dialog} title="Add member" onClose=${onClose}><form class="form" onSubmit=${send}>
    <${FormTrouble} problem=${work.problem} />
    <div class="field"><label for="member">User id <span class="required">required</span></label>
      <input id="member" type="text" autocomplete="off" spellcheck="false" autofocus value=${id} onInput=${(event) => setId(event.target.value)} />
      <p class="hint">The UUID below the user's name in the console.</p></div>
    <div class="field"><label for="role">Role</label><div class="select">
      <select id="role" value=${role} onChange=${(event) => setRole(event.target.value)}>${ROLES.map((name) => html`<option key=${name} value=${name} selected=${name === role}>${toWords(name)}</option>`)}</select></div>
      <p class="hint">Members can create and change nodes and versions; owners can do everything.</p></div>
    <footer><button class="button" disabled=${work.busy || !id.trim()}>${work.busy ? 'Please wait' : 'Add'}</button>
      <button type="button" class="button quiet" onClick=${onClose}>Cancel</button></footer></form></${Dialog}>`;
}
