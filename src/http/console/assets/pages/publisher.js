// One publisher: its nodes, its members, its access tokens.
import { html, useState } from '../core/dom.js';
import { at, get, put, remove } from '../core/api.js';
import { called, words } from '../core/format.js';
import { useLoad, useWork } from '../core/load.js';
import { go, to, useTitle } from '../core/router.js';
import {
  Back, Dialog, Empty, Facts, Icon, Id, Loaded, LoadedPage, Monogram, Out, Page, Pager, Skeleton, Tabs, tell, Time, Trouble,
} from '../parts/basic.js';
import { BanButton } from '../parts/ban.js';
import { Confirm } from '../parts/confirm.js';
import { OperationForm } from '../parts/form.js';
import { Prose } from '../parts/prose.js';
import { NewToken } from '../parts/token.js';
import { NodeCard } from './nodes.js';

const PAGE_SIZE = 24;

export function PublisherPage({ parts: [id, tab = 'nodes'], query, user }) {
  const loaded = useLoad((signal) => get(at`/publishers/${id}`, {}, signal), [id, user?.id]);
  const rights = useLoad((signal) => (user ? get(at`/publishers/${id}/permissions`, {}, signal).catch(() => ({})) : Promise.resolve({})), [id, user?.id]);
  useTitle(loaded.data?.name || id);
  const back = html`<${Back} href=${to('publishers')}>Publishers</${Back}>`;
  return html`<${LoadedPage} from=${loaded} title=${id} before=${back}>${(publisher) => {
    const role = publisher.members?.find((member) => member.id === user?.id)?.role;
    const tabs = [['nodes', 'Nodes'], ['members', 'Members', publisher.members?.length], ...(role || user?.isAdmin ? [['tokens', 'Access tokens']] : [])];
    return html`<${Page} before=${back} title=${html`<${Monogram} id=${publisher.id} name=${publisher.name} large />
      ${publisher.name || publisher.id}`}
        lead=${html`<${Id}>${publisher.id}</${Id}>`}
        actions=${html`<${Actions} ...${{ publisher, user }} mayEdit=${rights.data?.canEdit} isMember=${Boolean(role) || user?.isAdmin} reload=${loaded.reload} />`}>
      ${publisher.status !== 'PublisherStatusActive' && html`<div class="trouble"><${Icon} name="warn" /><div><strong>Banned</strong><p>
        ${publisher.status_detail || 'No reason was given.'}</p></div></div>`}
      <${Prose} text=${publisher.description} name="lead-text" />
      <${Facts} of=${[['Website', publisher.website && html`<${Out} href=${publisher.website} />`], ['Source code', publisher.source_code_repo && html`<${Out} href=${publisher.source_code_repo} />`],
        ['Support', publisher.support && html`<${Out} href=${publisher.support} />`], ['Since', html`<${Time} at=${publisher.createdAt} />`]]} />
      <${Tabs} tabs=${tabs} current=${tab} address=${(key) => to('publishers', publisher.id, key)} />
      ${tab === 'members' ? html`<${Members} ...${{ publisher, user }} mayEdit=${role === 'owner' || user?.isAdmin} reload=${loaded.reload} />`
        : tab === 'tokens' ? html`<${Tokens} publisher=${publisher} mayManage=${role === 'owner' || user?.isAdmin} />` : html`<${Nodes} ...${{ publisher, user, query }} isMember=${Boolean(role)} />`}
    </${Page}>`;
  }}</${LoadedPage}>`;
}

function Actions({ publisher, user, mayEdit, isMember, reload }) {
  const [open, set] = useState(null);
  const close = () => set(null);
  return html`
    ${isMember && html`<button type="button" class="button" onClick=${() => set('node')}><${Icon} name="plus" />Create a node</button>`}
    ${mayEdit && html`<button type="button" class="button quiet" onClick=${() => set('edit')}>Edit</button>`}
    ${user?.isAdmin && html`<a class="button quiet" href=${to('audit', 'publisher', publisher.id)}><${Icon} name="audit" />History</a>
      <${BanButton} kind="publishers" id=${publisher.id} banned=${publisher.status === 'PublisherStatusBanned'} onDone=${reload} />`}
    ${open === 'node' && html`<${Dialog} title="Create a node" onClose=${close}>
      <${OperationForm} id="createNode" path=${at`/publishers/${publisher.id}/nodes`} submit="Create"
      onDone=${(node) => { tell(`${node.name} is there`); go(to('nodes', node.id)); }} onCancel=${close} /></${Dialog}>`}
    ${open === 'edit' && html`<${Dialog} title=${`Edit ${publisher.name}`} onClose=${close}>
      <${OperationForm} id="updatePublisher" path=${at`/publishers/${publisher.id}`} start=${publisher} submit="Save"
      onDone=${() => { close(); tell('Saved'); reload(); }} onCancel=${close} /></${Dialog}>`}`;
}

// The list of a publisher's own route is for whoever is signed in; everybody may search by the publisher's name.
function Nodes({ publisher, user, query, isMember }) {
  const page = Number(query.get('page')) || 1;
  const nodes = useLoad(async (signal) => {
    if (user) return { nodes: await get(at`/publishers/${publisher.id}/nodes`, { page, limit: PAGE_SIZE, include_banned: user.isAdmin || undefined }, signal) };
    const found = await get('/nodes/search', { search: publisher.id, limit: 100 }, signal);
    return { nodes: found.nodes.filter((node) => node.publisher.id === publisher.id) };
  }, [publisher.id, page, user?.id]);
  return html`<${Loaded} from=${nodes} bones=${html`<${Skeleton} kind="cards" lines=${3} />`}>${({ nodes }) => nodes.length === 0
    ? html`<${Empty} icon="nodes" title=${page > 1 ? 'There is no such page' : 'No nodes yet'}>
      ${isMember ? 'Create the first one, then publish a version of it.' : 'This publisher has nothing to offer yet.'}</${Empty}>`
    : html`<ul class="cards">${nodes.map((node) => html`<li key=${node.id}><${NodeCard} node=${node} /></li>`)}</ul>
      <${Pager} page=${page} pages=${nodes.length === PAGE_SIZE ? page + 1 : page} address=${(page) => to('publishers', publisher.id, { page })} />`}</${Loaded}>`;
}

function Members({ publisher, user, mayEdit, reload }) {
  const [leaving, set] = useState(null);
  // Addresses are for members and administrators.
  const sees = user?.isAdmin || publisher.members.some((member) => member.id === user?.id);
  const [open, setOpen] = useState(false);
  const work = useWork();
  const change = async (member, role) => {
    const { problem } = await work.run(() => put(at`/publishers/${publisher.id}/members/${member.id}`, { role }));
    if (!problem) { tell('Saved'); reload(); }
  };
  return html`<section>
    ${mayEdit && html`<p><button type="button" class="button quiet" onClick=${() => setOpen(true)}><${Icon} name="plus" />Add a member</button></p>`}
    <${Trouble} problem=${work.problem} />
    <table class="table"><thead><tr><th>Member</th><th>E-mail</th><th>Role</th>${mayEdit && html`<th><span class="unseen">Actions</span></th>`}</tr>
      </thead>
      <tbody>${publisher.members.map((member) => html`<tr key=${member.id}>
        <td data-label="Member"><strong>${called(member.user)}</strong> ${member.id === user?.id && html`<span class="muted">(you)</span>`}<br /><${Id}>${member.id}</${Id}></td>
        <td data-label="E-mail">${member.user.email || html`<span class="muted">${sees ? 'none' : 'Not shown'}</span>`}</td>
        <td data-label="Role">${mayEdit ? html`<div class="select small">
          <select aria-label=${`Role of ${called(member.user)}`} value=${member.role} disabled=${work.busy} onChange=${(event) => change(member, event.target.value)}>
          ${['owner', 'member'].map((role) => html`<option key=${role} value=${role} selected=${role === member.role}>${words(role)}</option>`)}
            </select></div>` : member.role}</td>
        ${mayEdit && html`<td><button type="button" class="button quiet small" onClick=${() => set(member)}>Remove</button></td>`}
      </tr>`)}</tbody></table>
    ${leaving && html`<${Confirm} title=${`Remove ${called(leaving.user)}?`} action="Remove" onClose=${() => set(null)} work=${() => remove(at`/publishers/${publisher.id}/members/${leaving.id}`)}
      onDone=${() => { set(null); tell('Removed'); reload(); }}>Who is removed changes nothing of this publisher any more. The tokens of the publisher stay.</${Confirm}>`}
    ${open && html`<${AddMember} publisher=${publisher} onClose=${() => setOpen(false)} onDone=${() => { setOpen(false); tell('Added'); reload(); }} />`}
  </section>`;
}

function AddMember({ publisher, onClose, onDone }) {
  const [id, set] = useState('');
  return html`<${Dialog} title="Add a member" onClose=${onClose}>
    <div class="form"><div class="field"><label for="member">User id</label>
      <input id="member" type="text" autocomplete="off" spellcheck="false" value=${id} onInput=${(event) => set(event.target.value.trim())} />
      <p class="hint">A UUID; the user sees it in the console as the id of their account.</p></div></div>
    <${OperationForm} id="setMember" path=${at`/publishers/${publisher.id}/members/${id || '-'}`} submit="Add" onDone=${onDone} onCancel=${onClose} /></${Dialog}>`;
}

function Tokens({ publisher, mayManage }) {
  const tokens = useLoad((signal) => (mayManage ? get(at`/publishers/${publisher.id}/tokens`, {}, signal) : Promise.resolve([])), [publisher.id, mayManage]);
  if (!mayManage) return html`<${Empty} icon="key" title="For its owners">Access tokens are made and seen by owners of this publisher.</${Empty}>`;
  return html`<p class="muted">A personal access token publishes nodes and versions of this publisher, from a build for example, and does nothing else.</p>
    <${NewToken} operation="createPublisherToken" path=${at`/publishers/${publisher.id}/tokens`} onMade=${tokens.reload} />
    <${Loaded} from=${tokens}>
      ${(list) => html`<${TokenTable} tokens=${list} path=${(id) => at`/publishers/${publisher.id}/tokens/${id}`} reload=${tokens.reload} />`}
      </${Loaded}>`;
}

export function TokenTable({ tokens, path, reload }) {
  const [ending, set] = useState(null);
  if (tokens.length === 0) return html`<${Empty} icon="key" title="No tokens">Create one: it is shown once, then only its name is.</${Empty}>`;
  return html`<table class="table"><thead><tr><th>Name</th><th>Created</th><th>Last used</th><th><span class="unseen">Actions</span></th></tr></thead>
    <tbody>${tokens.map((token) => html`<tr key=${token.id}>
      <td data-label="Name"><strong>${token.name}</strong>${token.description && html`<br /><span class="muted">${token.description}</span>`}<br />
        <${Id}>${token.id}</${Id}></td>
      <td data-label="Created"><${Time} at=${token.createdAt} /></td><td data-label="Last used">
        ${token.lastUsedAt ? html`<${Time} at=${token.lastUsedAt} />` : html`<span class="muted">Never</span>`}</td>
      <td><button type="button" class="button quiet small" onClick=${() => set(token)}>Revoke</button></td></tr>`)}</tbody></table>
    ${ending && html`<${Confirm} title=${`Revoke ${ending.name}?`} action="Revoke" onClose=${() => set(null)} work=${() => remove(path(ending.id))} onDone=${() => { set(null); tell('Revoked'); reload(); }}>
      Whatever uses it is refused from now on. A revoked token never comes back.</${Confirm}>`}`;
}
