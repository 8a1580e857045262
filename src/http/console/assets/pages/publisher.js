// Page of a publisher: nodes, members, access tokens, webhooks.
import { html, useState } from '../core/dom.js';
import { at, get, send } from '../core/api.js';
import { never, useComplete, useLoad } from '../core/load.js';
import { go, to, useTitle } from '../core/router.js';
import {
  BackLink, Dialog, Empty, DefinitionList, Icon, Id, Loaded, LoadedPage, Monogram, ExternalLink, Page, Pager, Skeleton, Tabs, notify, Time,
} from '../parts/basic.js';
import { BanButton } from '../parts/ban.js';
import { DeletePublisher } from '../parts/delete.js';
import { OperationForm } from '../parts/form.js';
import { Members } from '../parts/members.js';
import { PagedSection } from '../parts/more.js';
import { Markdown } from '../parts/markdown.js';
import { NewToken, TokenTable } from '../parts/token.js';
import { Webhooks } from '../parts/webhooks.js';
import { NodeCard } from './nodes.js';

const PAGE_SIZE = 24;
// Page size and maximum number of pages of the search for anonymous visitors.
const SEARCH_PAGE_SIZE = 200;
const SEARCH_PAGES_MAX = 10;

export function PublisherPage({ parts: [id, tab = 'nodes'], query, user }) {
  const loaded = useLoad((signal) => get(at`/publishers/${id}`, {}, signal), [id, user?.id]);
  const rights = useLoad(async (signal) => (user === undefined ? never : user ? get(at`/publishers/${id}/permissions`, {}, signal).catch(() => ({})) : {}), [id, user?.id, user === undefined]);
  useTitle(loaded.data?.name || id);
  const back = html`<${BackLink} href=${to('publishers')}>Publishers</${BackLink}>`;
  return html`<${LoadedPage} from=${useComplete(loaded, [rights])} title=${loaded.error ? id : html`<span class="monogram large"></span>${id}`} before=${back}>${(publisher) => {
    const role = publisher.members?.find((member) => member.id === user?.id)?.role;
    const isOwner = role === 'owner' || user?.isAdmin;
    const tabs = [['nodes', 'Nodes'], ['members', 'Members', publisher.members?.length], ...(role || user?.isAdmin ? [['tokens', 'Access tokens']] : []), ...(isOwner ? [['webhooks', 'Webhooks']] : [])];
    return html`<${Page} before=${back} title=${html`<${Monogram} id=${publisher.id} name=${publisher.name} large />
      ${publisher.name || publisher.id}`}
        lead=${html`<${Id}>${publisher.id}</${Id}>`}
        actions=${html`<${Actions} ...${{ publisher, user }} mayEdit=${rights.data?.canEdit} isMember=${Boolean(role) || user?.isAdmin} isOwner=${isOwner} reload=${loaded.reload} />`}>
      ${publisher.status !== 'PublisherStatusActive' && html`<div class="trouble"><${Icon} name="warn" /><div><strong>Banned</strong><p>
        ${publisher.status_detail || 'No reason given.'}</p></div></div>`}
      <${Markdown} text=${publisher.description} name="lead-text" />
      <${DefinitionList} of=${[['Website', publisher.website && html`<${ExternalLink} href=${publisher.website} />`], ['Source code', publisher.source_code_repo && html`<${ExternalLink} href=${publisher.source_code_repo} />`],
        ['Support', publisher.support && html`<${ExternalLink} href=${publisher.support} />`], ['Created', html`<${Time} at=${publisher.createdAt} />`]]} />
      <${Tabs} tabs=${tabs} current=${tab} address=${(key) => to('publishers', publisher.id, key)} />
      ${tab === 'members' ? html`<${Members} ...${{ publisher, user }} mayEdit=${isOwner} reload=${loaded.reload} />`
        : tab === 'webhooks' && isOwner ? html`<${Webhooks} publisher=${publisher} />`
        : tab === 'tokens' ? html`<${Tokens} publisher=${publisher} mayManage=${isOwner} />` : html`<${Nodes} ...${{ publisher, user, query }} isMember=${Boolean(role)} />`}
    </${Page}>`;
  }}</${LoadedPage}>`;
}

function Actions({ publisher, user, mayEdit, isMember, isOwner, reload }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  return html`
    ${isMember && html`<button type="button" class="button" onClick=${() => setOpen('node')}><${Icon} name="plus" />Create node</button>`}
    ${mayEdit && html`<button type="button" class="button quiet" onClick=${() => setOpen('edit')}>Edit</button>`}
    ${isOwner && html`<${DeletePublisher} publisher=${publisher} />`}
    ${user?.isAdmin && html`<a class="button quiet" href=${to('audit', 'publisher', publisher.id)}><${Icon} name="audit" />History</a>
      <${BanButton} kind="publishers" id=${publisher.id} banned=${publisher.status === 'PublisherStatusBanned'} onDone=${reload} />`}
    ${open === 'node' && html`<${Dialog} title="Create node" onClose=${close}>
      <${OperationForm} id="createNode" path=${at`/publishers/${publisher.id}/nodes`} submit="Create"
      onDone=${(node) => { notify(`${node.name} created`); go(to('nodes', node.id)); }} onCancel=${close} /></${Dialog}>`}
    ${open === 'edit' && html`<${Dialog} title=${`Edit ${publisher.name}`} onClose=${close}>
      <${OperationForm} id="updatePublisher" path=${at`/publishers/${publisher.id}`} start=${publisher} submit="Save"
      onDone=${() => { close(); notify('Saved'); reload(); }} onCancel=${close} /></${Dialog}>`}`;
}

function Nodes({ publisher, user, query, isMember }) {
  const page = Number(query.get('page')) || 1;
  const nodes = useLoad((signal) => (user ? listNodes(publisher, user.isAdmin || isMember, page, signal) : searchNodes(publisher, page, signal)), [publisher.id, page, user?.id, isMember]);
  const pages = Math.ceil((nodes.data?.total ?? 0) / PAGE_SIZE);
  return html`<${Loaded} from=${nodes} skeleton=${html`<${Skeleton} kind="cards" lines=${3} />`}>${({ shown, isAll }) => html`
    ${shown.length > 0 ? html`<${PagedSection} page=${page} label="Nodes of this publisher">
        <ul class="cards">${shown.map((node) => html`<li key=${node.id}><${NodeCard} node=${node} /></li>`)}</ul>
        <${Pager} page=${page} pages=${pages} address=${(page) => to('publishers', publisher.id, { page })} /></${PagedSection}>`
    : page > 1 ? html`<${Empty} icon="nodes" title="Page not found" action=${html`<a class="button quiet" href=${to('publishers', publisher.id)}>First page</a>`}>The list has fewer pages.</${Empty}>`
    : isAll && html`<${Empty} icon="nodes" title="No nodes yet">
      ${isMember ? 'Create the first one, then publish a version.' : 'This publisher has no nodes yet.'}</${Empty}>`}
    ${!isAll && html`<p class="muted">There may be more: <a href=${to('nodes', { search: publisher.id })}>search for all nodes</a>, or sign in.</p>`}`}</${Loaded}>`;
}

async function listNodes(publisher, seesBanned, page, signal) {
  const response = await send('GET', at`/publishers/${publisher.id}/nodes`, { query: { page, limit: PAGE_SIZE, include_banned: seesBanned || undefined }, signal });
  return { shown: await response.json(), total: Number(response.headers.get('X-Total-Count')), isAll: true };
}

// Finds the nodes of a publisher for a visitor without a token, who may search but not list them. The search by publisher
// id also finds other nodes, which are dropped. `isAll` is false if there are too many pages.
async function searchNodes(publisher, page, signal) {
  const nodes = [];
  for (let searchPage = 1, pages = 1; searchPage <= Math.min(pages, SEARCH_PAGES_MAX); searchPage += 1) {
    const result = await get('/nodes/search', { search: publisher.id, page: searchPage, limit: SEARCH_PAGE_SIZE }, signal);
    nodes.push(...result.nodes.filter((node) => node.publisher.id === publisher.id));
    pages = result.totalPages;
    if (searchPage === SEARCH_PAGES_MAX && searchPage < pages) return { ...pageOf(nodes, page), isAll: false };
  }
  return { ...pageOf(nodes, page), isAll: true };
}

const pageOf = (nodes, page) => ({ shown: nodes.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE), total: nodes.length });

function Tokens({ publisher, mayManage }) {
  const tokens = useLoad((signal) => (mayManage ? get(at`/publishers/${publisher.id}/tokens`, {}, signal) : Promise.resolve([])), [publisher.id, mayManage]);
  if (!mayManage) return html`<${Empty} icon="key" title="Owners only">Only owners of this publisher can see and create access tokens.</${Empty}>`;
  return html`<p class="muted">A personal access token can only publish nodes and versions of this publisher, for example from CI.</p>
    <${NewToken} path=${at`/publishers/${publisher.id}/tokens`} onMade=${tokens.reload} />
    <${Loaded} from=${tokens}>
      ${(list) => html`<${TokenTable} tokens=${list} path=${(id) => at`/publishers/${publisher.id}/tokens/${id}`} reload=${tokens.reload} />`}
      </${Loaded}>`;
}
