// Page of a node: description, versions, installation, actions.
import { html, useState } from '../core/dom.js';
import { at, call, get, toLocalUrl, root } from '../core/api.js';
import { count, number, shortDay, toWords } from '../core/format.js';
import { never, useComplete, useLoad, useMutation } from '../core/load.js';
import { to, useTitle } from '../core/router.js';
import {
  BackLink, Code, Dialog, Empty, DefinitionList, Icon, Id, Loaded, LoadedPage, NodeIcon, ExternalLink, Page, Rating, Skeleton, State, Tabs, Tags, notify, Time, ErrorMessage,
} from '../parts/basic.js';
import { ArchiveFiles, Changes, Readme, useReadme } from '../parts/archive.js';
import { BanButton } from '../parts/ban.js';
import { Chart } from '../parts/chart.js';
import { DeleteNode } from '../parts/delete.js';
import { OperationForm } from '../parts/form.js';
import { askToSignIn } from '../parts/login.js';
import { lazy } from '../parts/lazy.js';
import { Markdown } from '../parts/markdown.js';
import { Publish } from '../parts/publish.js';
import { Versions } from '../parts/versions.js';

const NodePictures = lazy(() => import('../parts/node_pictures.js'), 'NodePictures');

const STATUSES = ['Active', 'Pending', 'Flagged', 'Banned', 'Deleted'].map((status) => `NodeVersionStatus${status}`);

export function NodePage({ parts: [id, chosenTab, newer, older], user }) {
  const loaded = useLoad((signal) => get(at`/nodes/${id}`, {}, signal), [id]);
  const owner = loaded.data?.publisher?.id;
  const rights = useLoad(async (signal) => (!owner || user === undefined ? never : user ? get(at`/publishers/${owner}/nodes/${loaded.data.id}/permissions`, {}, signal).catch(() => ({})) : {}), [owner, user?.id, user === undefined]);
  const mayEdit = Boolean(rights.data?.canEdit);
  // Members and administrators see versions in every status.
  const versions = useLoad((signal) => (rights.data ? get(at`/nodes/${id}/versions`, { statuses: mayEdit || user?.isAdmin ? STATUSES : undefined, include_status_reason: true }, signal) : never), [id, Boolean(rights.data), mayEdit, user?.id]);
  const statistics = useLoad((signal) => get(at`/nodes/${id}/statistics`, {}, signal), [id, loaded.data?.rating]);
  const readme = useReadme(loaded.data);
  useTitle(loaded.data?.name || id);
  const back = html`<${BackLink} href=${to('nodes')}>Nodes</${BackLink}>`;
  return html`<${LoadedPage} from=${useComplete(loaded, [rights, versions, statistics, readme])} title=${loaded.error ? id : html`<span class="monogram large"></span>${id}`} before=${back}>${(node) => html`
    <${Page} name="node" before=${back}
      title=${html`<${NodeIcon} node=${node} large />${node.name}`}
      lead=${html`<${Id}>${node.id}</${Id}> by <a href=${to('publishers', node.publisher.id)}>${node.publisher.name || node.publisher.id}</a>`}
      actions=${html`<${Actions} node=${node} mayEdit=${mayEdit} user=${user} reload=${() => { loaded.reload(); versions.reload(); }} />`}>
      <${Banner} url=${node.banner_url} />
      ${node.status !== 'NodeStatusActive' && html`<div class="trouble"><${Icon} name="warn" /><div><strong>${toWords(node.status)}</strong><p>
        ${node.status_detail || 'No reason given.'}</p></div></div>`}
      ${node.tags_admin?.length > 0 && html`<p><${Tags} of=${node.tags_admin} label="Administrator tags" /></p>`}
      <div class="columns">
        <div class="first">
          <${Markdown} text=${node.description} name="lead-text" /></div>
        <div class="rest">
          <${Content} node=${node} chosenTab=${chosenTab} versions=${versions} mayEdit=${mayEdit} newer=${newer} older=${older} statistics=${statistics} readme=${readme} />
        </div>
        <${Summary} node=${node} ratings=${statistics.data?.ratings.count} user=${user} onReviewed=${loaded.reload} />
      </div>
    </${Page}>`}</${LoadedPage}>`;
}

// Banners on other hosts are not loaded.
function Banner({ url }) {
  const address = url && toLocalUrl(url);
  return address ? html`<img class="banner" src=${address} alt="" />` : null;
}

function Content({ node, chosenTab, versions, mayEdit, newer, older, statistics, readme }) {
  const readable = (versions.data ?? []).filter((version) => version.downloadUrl);
  // The differences between versions belong to the list of versions.
  const tab = chosenTab === 'changes' ? 'versions' : chosenTab ?? (readme.data ? 'readme' : 'versions');
  const tabs = [readme.data && ['readme', 'README'], ['versions', 'Versions', versions.data?.length],
    readable.length > 0 && ['files', 'Files'], ['install', 'Install'], ['about', 'Details']].filter(Boolean);
  return html`<${Tabs} current=${tab} address=${(key) => to('nodes', node.id, key)} tabs=${tabs} />
    <${ErrorMessage} problem=${readme.error} onRetry=${readme.reload} />
    ${tab === 'readme' && readme.data ? html`<${Readme} of=${readme.data} />`
      : tab === 'install' ? html`<${Install} node=${node} />` : tab === 'about' ? html`<${About} node=${node} statistics=${statistics} />`
        : tab === 'files' && readable.length > 0 ? html`<${ArchiveFiles} node=${node} versions=${readable} />`
          : chosenTab === 'changes' && newer && older ? html`<${Changes} node=${node} version=${newer} from=${older} />`
            : html`<${Versions} node=${node} versions=${versions} mayEdit=${mayEdit} />`}`;
}

function Actions({ node, mayEdit, user, reload }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const owner = node.publisher.id;
  const done = (text) => () => { close(); notify(text); reload(); };
  return html`
    ${mayEdit && html`<button type="button" class="button" onClick=${() => setOpen('publish')}><${Icon} name="upload" />Publish version</button>
      <button type="button" class="button quiet" onClick=${() => setOpen('edit')}>Edit</button>
      <button type="button" class="button quiet" onClick=${() => setOpen('pictures')}>Pictures</button>
      <${DeleteNode} node=${node} user=${user} />`}
    ${user?.isAdmin && html`<a class="button quiet" href=${to('audit', 'node', node.id)}><${Icon} name="audit" />History</a>
      <${BanButton} kind="nodes" id=${node.id} banned=${node.status === 'NodeStatusBanned'} onDone=${reload} />`}
    ${open === 'edit' && html`<${Dialog} title=${`Edit ${node.name}`} onClose=${close}>
      <${OperationForm} id="updateNode" path=${at`/publishers/${owner}/nodes/${node.id}`} start=${node} submit="Save" onDone=${done('Saved')} onCancel=${close} /></${Dialog}>`}
    ${open === 'pictures' && html`<${NodePictures} node=${node} onClose=${close} onDone=${done('Saved')} />`}
    ${open === 'publish' && html`<${Publish} node=${node} onClose=${close} onLater=${done('Waiting for the archive')} onSent=${done('Published')} />`}`;
}

function Summary({ node, ratings, user, onReviewed }) {
  return html`<aside class="summary-card" aria-label="Summary">
    <${DefinitionList} of=${[
      ['Latest', node.latest_version && html`<strong>${node.latest_version.version}</strong>, <${Time} at=${node.latest_version.createdAt} />`],
      ['Downloads', number(node.downloads ?? 0)],
      ['Repository stars', node.github_stars ? number(node.github_stars) : undefined],
      ['Rating', html`<${Rating} value=${node.rating} />${ratings > 0 && html` <span class="muted">${count(ratings, 'review')}</span>`}`],
      ['Operating systems', node.supported_os?.length > 0 && html`<${Tags} of=${node.supported_os} />`],
      ['Accelerators', node.supported_accelerators?.length > 0 && html`<${Tags} of=${node.supported_accelerators} />`],
      ['Host', node.supported_host_version && html`<code>${node.supported_host_version}</code>`],
      ['Repository', node.repository && html`<${ExternalLink} href=${node.repository} />`],
    ]} />
    ${user ? html`<${Review} node=${node} user=${user} onDone=${onReviewed} />` : html`<${ReviewInvitation} />`}
  </aside>`;
}

// Review of the current user.
function Review({ node, user, onDone }) {
  const own = useLoad((signal) => get(at`/nodes/${node.id}/reviews/mine`, {}, signal), [node.id, user.id]);
  const work = useMutation();
  const ownStars = own.data?.star ?? 0;
  const rate = async (star) => {
    const { problem } = await work.run(() => call('POST', at`/nodes/${node.id}/reviews`, { query: { star } }));
    if (!problem) { notify(`Rated ${count(star, 'star')}`); own.replace({ star }); onDone(); }
  };
  return html`<div class="review" role="group" aria-label="Your review"><span class="muted small">Your review</span>
    <span class="stars">${[1, 2, 3, 4, 5].map((star) => html`<button key=${star} type="button" class="copy ${star <= ownStars ? 'lit' : ''}" disabled=${work.busy} aria-pressed=${star === ownStars ? 'true' : 'false'}
      aria-label=${count(star, 'star')} title=${count(star, 'star')} onClick=${() => rate(star)}><${Icon} name="star" filled=${star <= ownStars} /></button>`)}</span>
    <span class="small muted note">${own.data && (ownStars ? `You rated it ${count(ownStars, 'star')}.` : 'Not reviewed yet.')}</span>
    <${ErrorMessage} problem=${own.error} onRetry=${own.reload} /><${ErrorMessage} problem=${work.problem} /></div>`;
}

const ReviewInvitation = () => html`<div class="review"><span class="muted small">Your review</span>
  <p><button type="button" class="button quiet small" onClick=${askToSignIn}><${Icon} name="star" />Sign in to review</button></p></div>`;

function Install({ node }) {
  const latest = node.latest_version;
  if (!latest) return html`<${Empty} icon="download" title="Nothing to install yet">Versions appear here after their archive has been uploaded and checked.</${Empty}>`;
  const address = new URL(at`/nodes/${node.id}/versions/${latest.version}/download`.slice(1), root).href;
  const file = `${node.id}-${latest.version}.zip`;
  return html`<section class="install">
    ${toLocalUrl(latest.downloadUrl) && html`<p><a class="button" href=${toLocalUrl(latest.downloadUrl)} download=${file}>
      <${Icon} name="download" />Download ${latest.version}</a></p>`}
    ${latest.downloadUrl
      ? html`<h2>Command line</h2><${Code} label="Install command" text=${`mediary install ${node.id}`} />
        <h2>Shell</h2><${Code} label="Download command" text=${`curl -fL -o '${file}' '${address}'`} />`
      : html`<p class="muted">${latest.version} has no archive on this service. Tools install it from the node's repository, if one is set.</p>`}
    <h2>API</h2><p class="muted">The response has the version, its dependencies and its archive URL, and counts as a download.</p>
    <${Code} label="Install request" text=${`curl -s '${new URL(at`/nodes/${node.id}/install`.slice(1), root).href}'`} />
    <h2>Badge</h2><p><img class="badge" src=${new URL(at`/nodes/${node.id}/badge.svg`.slice(1), root).href} alt=${`Version ${latest.version}`} height="20" /></p>
    <${Code} label="Markdown of the badge" text=${`[![${node.name}](${new URL(at`/nodes/${node.id}/badge.svg`.slice(1), root).href})](${location.origin}${location.pathname}${to('nodes', node.id)})`} />
    ${latest.dependencies?.length > 0 && html`<h2>Dependencies</h2><${Code} label="Dependencies" text=${latest.dependencies.join('\n')} />`}
  </section>`;
}

function About({ node, statistics }) {
  return html`<section class="about-node">
    <${Loaded} from=${statistics} skeleton=${html`<${Skeleton} kind="charts" lines=${1} />`}>${({ days }) => html`<${Downloads} days=${days} />`}</${Loaded}>
    <${DefinitionList} name="wide" of=${[
      ['Author', node.author], ['Licence', node.license && html`<code>${node.license}</code>`], ['Category', node.category],
      ['Repository', node.repository && html`<${ExternalLink} href=${node.repository} />`],
      ['Icon', node.icon && html`<${PictureLink} href=${node.icon} />`], ['Banner', node.banner_url && html`<${PictureLink} href=${node.banner_url} />`],
      ['Host version', node.supported_host_version && html`<code>${node.supported_host_version}</code>`],
      ['Host frontend version', node.supported_host_frontend_version && html`<code>${node.supported_host_frontend_version}</code>`],
      ['Replaces', node.preempted_host_node_names?.length > 0 && html`<${Tags} of=${node.preempted_host_node_names} />`],
      ['Created', html`<${Time} at=${node.created_at} />`], ['Status', html`<${State} of=${node.status} />`],
    ]} />
    ${Object.keys(node.translations ?? {}).length > 0 && html`<h2>Translations</h2>
      ${Object.entries(node.translations).map(([language, texts]) => html`<section key=${language}><h3>${languageOf(language)}</h3>
        <${DefinitionList} name="wide" of=${inOrder(texts).map(([field, text]) => [toWords(field), html`<span lang=${language}>${text}</span>`])} /></section>`)}`}
  </section>`;
}

// Link to a picture. The URL of an uploaded one is a digest, which tells the reader nothing.
const PictureLink = ({ href }) => html`<${ExternalLink} href=${href}>${/\/media\/[0-9a-f]{64}\.\w+$/.test(href) ? 'uploaded picture' : undefined}</${ExternalLink}>`;

function Downloads({ days }) {
  const dates = days.map(({ date }) => date);
  return html`<${Chart} title=${`Downloads a day${days.some(({ downloads }) => downloads > 0) ? '' : `: none in ${count(days.length, 'day')}`}`} stacked point="Day" labels=${dates.map(shortDay)} full=${dates}
    series=${[{ name: 'Downloads', tone: 0, values: days.map(({ downloads }) => downloads) }]} />`;
}

const LANGUAGES = new Intl.DisplayNames('en', { type: 'language' });

// Returns the name of a language with its code, or the code alone if the browser does not know the language.
function languageOf(code) {
  try { return html`${LANGUAGES.of(code)} <code class="muted small">${code}</code>`; } catch { return html`<code>${code}</code>`; }
}

// Translated fields that come first, in reverse order; others have the index -1 and follow.
const FIRST = ['description', 'name'];
const inOrder = (texts) => Object.entries(texts).map(([field, text]) => [field, String(text)])
  .sort(([left], [right]) => FIRST.indexOf(right) - FIRST.indexOf(left));
