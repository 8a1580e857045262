// Users, their permissions and tokens.
import { html, useState } from '../core/dom.js';
import { at, get } from '../core/api.js';
import { displayName, count } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { to, useTitle } from '../core/router.js';
import { EmailAddress, Dialog, Icon, Id, Loaded, Page, Pager, Skeleton, State, notify } from '../parts/basic.js';
import { BanButton, isProtected } from '../parts/ban.js';
import { OperationForm } from '../parts/form.js';
import { PagedSection } from '../parts/more.js';
import { NewToken, TokenTable } from '../parts/token.js';

const PAGE_SIZE = 25;

export function UsersPage({ query, user: own }) {
  useTitle('Users');
  const page = Number(query.get('page')) || 1;
  const users = useLoad((signal) => get('/admin/users', { page, limit: PAGE_SIZE }, signal), [page]);
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const done = () => { close(); notify('Saved'); users.reload(); };
  return html`<${Page} title="Users" lead="Accounts and their permissions." actions=${html`<button type="button" class="button" onClick=${() => setOpen({ make: true })}><${Icon} name="plus" />Create user</button>`}>
    <${Loaded} from=${users} skeleton=${html`<${Skeleton} lines=${6} />`}>${(list) => html`<${PagedSection} page=${list.page} label="Users"><p class="summary">${count(list.total, 'user')}</p>
      <table class="table"><thead><tr><th>User</th><th>E-mail</th><th>Permissions</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>
        ${list.users.map((user) => html`<tr key=${user.id}>
        <td data-label="User"><strong>${displayName(user)}</strong><br /><${Id}>${user.id}</${Id}></td>
        <td class="address" data-label="E-mail">${user.email ? html`<${EmailAddress} of=${user.email} />` : html`<span class="muted">none</span>`}</td>
        <td data-label="Permissions"><div>${!user.isAdmin && !user.isApproved && !user.status && !user.erased && html`<span class="muted">Standard</span>`}
          ${user.isAdmin && html`<span class="state calm">Administrator</span> `}${user.isApproved && html`<span class="state good">Approved</span> `}${user.status === 'UserStatusBanned' && html`<${State} of=${user.status} /> <span class="muted small">${user.statusReason}</span>`}</div></td>
        <td>${!user.erased && html`<div class="row">
          <button type="button" class="button quiet small" onClick=${() => setOpen({ edit: user })}>Edit</button>
            <button type="button" class="button quiet small" onClick=${() => setOpen({ tokens: user })}>Tokens</button>
          ${!isProtected(user.id, own) && html`<${BanButton} kind="users" id=${user.id} name=${displayName(user)} banned=${user.status === 'UserStatusBanned'} onDone=${users.reload} small />`}
            <a class="button quiet small" href=${to('audit', 'user', user.id)}>History</a></div>`}</td></tr>`)}</tbody></table>
      <${Pager} page=${list.page} pages=${list.totalPages} address=${(page) => to('users', { page })} /></${PagedSection}>`}</${Loaded}>
    ${open?.make && html`<${Dialog} title="Create user" onClose=${close}>
      <${OperationForm} id="createUser" path="/admin/users" submit="Create" onDone=${done} onCancel=${close} /></${Dialog}>`}
    ${open?.edit && html`<${Dialog} title=${`Edit ${displayName(open.edit)}`} onClose=${close}>
      <${OperationForm} id="updateUser" path=${at`/admin/users/${open.edit.id}`} start=${open.edit} submit="Save" onDone=${done} onCancel=${close} />
      </${Dialog}>`}
    ${open?.tokens && html`<${Dialog} title=${`Tokens of ${displayName(open.tokens)}`} onClose=${close}>
      <${UserTokens} user=${open.tokens} /></${Dialog}>`}
  </${Page}>`;
}

function UserTokens({ user }) {
  const tokens = useLoad((signal) => get(at`/admin/users/${user.id}/tokens`, {}, signal), [user.id]);
  return html`<div class="form"><${NewToken} path=${at`/admin/users/${user.id}/tokens`} onMade=${tokens.reload} />
    <${Loaded} from=${tokens}>
      ${(list) => html`<${TokenTable} tokens=${list} path=${(id) => at`/admin/users/${user.id}/tokens/${id}`} reload=${tokens.reload} />`}
      </${Loaded}></div>`;
}
