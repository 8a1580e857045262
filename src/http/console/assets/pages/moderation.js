// Versions that await a decision: pending or flagged.
import { html, useState } from '../core/dom.js';
import { at, get, put } from '../core/api.js';
import { count } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { to, refine, useTitle } from '../core/router.js';
import { Empty, Loaded, Page, Pager, Skeleton, State, Time, notify } from '../parts/basic.js';
import { Confirm } from '../parts/confirm.js';
import { PagedSection } from '../parts/more.js';
import { Markdown } from '../parts/markdown.js';

const PAGE_SIZE = 20;
const status = (name) => `NodeVersionStatus${name}`;
const LISTS = [['Waiting', ['Pending', 'Flagged']], ['Pending', ['Pending']], ['Flagged', ['Flagged']], ['Banned', ['Banned']]];
// Decisions by current status.
const DECISIONS = { Pending: ['Active', 'Flagged', 'Banned'], Flagged: ['Active', 'Banned'], Banned: ['Active'] };
const NAMES = { Active: 'Approve', Flagged: 'Flag', Banned: 'Ban' };

export function ModerationPage({ query }) {
  useTitle('Moderation');
  const list = query.get('list') ?? 'Waiting';
  const page = Number(query.get('page')) || 1;
  const statuses = (LISTS.find(([name]) => name === list) ?? LISTS[0])[1].map(status);
  const versions = useLoad((signal) => get('/versions', { statuses, include_status_reason: true, page, limit: PAGE_SIZE }, signal), [list, page]);
  return html`<${Page} title="Moderation" lead="Versions awaiting a decision. Ban nodes, publishers and users on their own pages.">
    <fieldset class="chips"><legend class="unseen">List</legend>${LISTS.map(([name]) => html`<label key=${name} class="chip">
      <input type="radio" name="list" checked=${name === list} onChange=${() => refine({ list: name, page: undefined })} /><span>${name}</span>
      </label>`)}</fieldset>
    <${Loaded} from=${versions} skeleton=${html`<${Skeleton} lines=${5} />`}>${(result) => result.versions.length === 0
      ? html`<${Empty} icon="moderation" title="Nothing to review">Pending versions (without an archive, or awaiting approval under <code>registry.moderation</code>) and flagged versions appear here.</${Empty}>`
      : html`<${PagedSection} page=${result.page} label="Versions"><p class="summary">${count(result.total, 'version')}</p>
        <ol class="versions">${result.versions.map((version) => html`<${Waiting} key=${version.id} version=${version} reload=${versions.reload} />`)}
          </ol>
        <${Pager} page=${result.page} pages=${result.totalPages} address=${(page) => to('moderation', { list, page })} /></${PagedSection}>`}</${Loaded}>
  </${Page}>`;
}

function Waiting({ version, reload }) {
  const [decision, setDecision] = useState(null);
  const now = version.status.replace('NodeVersionStatus', '');
  const isEmpty = !version.downloadUrl;
  const decide = (reason) => put(at`/admin/nodes/${version.node_id}/versions/${version.version}`, { status: status(decision), status_reason: reason });
  return html`<li class="release"><header><h2 class="plain"><a href=${to('nodes', version.node_id)}>${version.node_id}</a> ${version.version}</h2>
    <${State} of=${version.status} />
      <span class="muted"><${Time} at=${version.createdAt} /></span><span class="spread"></span>
      <span class="row decisions">${(DECISIONS[now] ?? []).map((to) => html`<button key=${to} type="button" class="button ${to === 'Active' ? '' : 'quiet'} small" onClick=${() => setDecision(to)}>${NAMES[to]}</button>`)}</span></header>
    ${version.status_reason && html`<p class="muted">${version.status_reason}</p>`}
    ${isEmpty && html`<p class="muted">No archive.</p>`}
    <${Markdown} text=${version.changelog} />
    ${decision && html`<${Confirm} title=${`${NAMES[decision]} ${version.node_id} ${version.version}?`} action=${NAMES[decision]} reason="Recorded in the audit log and shown with the version." onClose=${() => setDecision(null)} work=${decide}
      onDone=${() => { setDecision(null); notify('Saved'); reload(); }}>Its status becomes ${decision}.${isEmpty && decision === 'Active' && html` <strong>It has no archive</strong>: it is released without one, and cannot get one later if <code>registry.moderation</code> is on.`}</${Confirm}>`}</li>`;
}
