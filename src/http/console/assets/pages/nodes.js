// List of nodes with search, filters, sorting and pages. Its state is in the URL.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { get } from '../core/api.js';
import { count, number } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { refine, to, useTitle } from '../core/router.js';
import { Empty, Icon, Loaded, NodeIcon, Page, Pager, Rating, Skeleton, State, Tags, Time } from '../parts/basic.js';
import { PagedSection } from '../parts/more.js';
import { useSearchKey } from '../parts/search_key.js';

const PAGE_SIZE = 24;
// Pause in typing after which the search is sent.
const TYPING_PAUSE_MS = 220;
const SYSTEMS = ['Linux', 'Windows', 'macOS'];
const ACCELERATORS = ['CUDA', 'ROCm', 'DirectML', 'Metal'];
const SORT_OPTIONS = [
  ['', 'Best match'], ['downloads;desc', 'Most downloaded'], ['rating;desc', 'Highest rated'], ['updated_at;desc', 'Recently updated'],
  ['created_at;desc', 'Newest'], ['name', 'Name'],
];

export function NodesPage({ query, user }) {
  useTitle('Nodes');
  const nodeQuery = {
    search: query.get('search') ?? '', supported_os: query.getAll('os'), supported_accelerator: query.getAll('accelerator'),
    sort: query.get('sort') ?? '', page: Number(query.get('page')) || 1, include_banned: query.get('banned') || undefined,
  };
  const sorted = nodeQuery.sort || (nodeQuery.search ? undefined : 'downloads;desc');
  const nodes = useLoad((signal) => get('/nodes/search', { ...nodeQuery, sort: sorted, limit: PAGE_SIZE }, signal), [query.toString()]);
  const filtered = nodeQuery.search || nodeQuery.supported_os.length || nodeQuery.supported_accelerator.length;
  return html`<${Page} title="Nodes" lead="Custom nodes for the host application.">
    <${Filters} nodeQuery=${nodeQuery} admin=${user?.isAdmin} />
    <${Loaded} from=${nodes} skeleton=${html`<p class="summary"><span class="bone text"></span></p><${Skeleton} kind="cards" lines=${9} />`}>
      ${(list) => html`<${PagedSection} page=${list.page} label="Nodes found">
      <p class="summary" role="status">
        ${count(list.total, 'node')}${list.totalPages > 1 && html`<span class="muted">, page ${list.page} of ${number(list.totalPages)}</span>`}</p>
      ${list.nodes.length === 0 ? html`<${EmptyList} filtered=${filtered} page=${nodeQuery.page} />` : html`
        <ul class="cards ${nodes.loading ? 'stale' : ''}">${list.nodes.map((node) => html`<li key=${node.id}><${NodeCard} node=${node} /></li>`)}
          </ul>`}
      <${Pager} page=${list.page} pages=${list.totalPages} address=${(page) => address(query, page)} /></${PagedSection}>`}</${Loaded}>
  </${Page}>`;
}

// Returns the link to another page of the same list.
function address(query, page) {
  const kept = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  return to('nodes', { ...kept, page: page > 1 ? page : undefined });
}

function Filters({ nodeQuery, admin }) {
  const [text, setText] = useState(nodeQuery.search);
  const field = useRef(null);
  useSearchKey(field);
  // The search that this field sent. It comes back through the URL while the user keeps typing, so only other changes of
  // the URL replace the text.
  const sent = useRef(nodeQuery.search);
  const send = (options) => { sent.current = text; refine({ search: text, page: undefined }, options); };
  useEffect(() => {
    if (nodeQuery.search === sent.current) return;
    sent.current = nodeQuery.search;
    setText(nodeQuery.search);
  }, [nodeQuery.search]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => send({ quiet: true }), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<form class="filters" role="search" onSubmit=${(event) => { event.preventDefault(); send(); }}>
    <div class="search"><${Icon} name="search" />
      <input type="search" ref=${field} aria-keyshortcuts="/ Control+K" aria-label="Search nodes" placeholder="Name, tag, author or publisher" maxlength="200"
      value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <${FilterChips} legend="System" name="os" all=${SYSTEMS} chosen=${nodeQuery.supported_os} />
    <${FilterChips} legend="Accelerator" name="accelerator" all=${ACCELERATORS} chosen=${nodeQuery.supported_accelerator} />
    <label class="order"><span>Sort</span><div class="select">
      <select value=${nodeQuery.sort} onChange=${(event) => refine({ sort: event.target.value, page: undefined })}>
      ${SORT_OPTIONS.map(([value, name]) => html`<option key=${value} value=${value} selected=${value === nodeQuery.sort}>
        ${value === '' && !nodeQuery.search ? 'Default' : name}</option>`)}</select></div></label>
    ${admin && html`<label class="chip">
      <input type="checkbox" checked=${Boolean(nodeQuery.include_banned)} onChange=${(event) => refine({ banned: event.target.checked ? 'true' : undefined, page: undefined })} /><span>Include banned</span></label>`}
  </form>`;
}

function FilterChips({ legend, name, all, chosen }) {
  const shown = [...all, ...chosen.filter((value) => !all.includes(value))];
  const toggle = (value) => refine({ [name]: chosen.includes(value) ? chosen.filter((kept) => kept !== value) : [...chosen, value], page: undefined });
  return html`<fieldset class="chips"><legend>${legend}</legend>${shown.map((value) => html`
    <label key=${value} class="chip"><input type="checkbox" checked=${chosen.includes(value)} onChange=${() => toggle(value)} /><span>${value}</span>
      </label>`)}</fieldset>`;
}

export function NodeCard({ node }) {
  const latest = node.latest_version;
  return html`<article class="card node-card">
    <header><${NodeIcon} node=${node} />
      <div><h2><a href=${to('nodes', node.id)}>${node.name}</a></h2>
        <p class="muted small">${node.publisher?.name || node.publisher?.id}</p></div>
      ${latest ? html`<span class="version">${latest.version}</span>` : html`<span class="version none">No version</span>`}</header>
    <p class="about">${node.description || html`<span class="muted">No description.</span>`}</p>
    <${Tags} of=${node.tags?.slice(0, 4)} label="Tags" />
    <footer>${node.status !== 'NodeStatusActive' && html`<${State} of=${node.status} />`}
      <span title="Downloads"><${Icon} name="download" />${number(node.downloads ?? 0)}<span class="unseen"> downloads</span></span>
      ${node.rating > 0 && html`<${Rating} value=${node.rating} />`}
      ${latest && html`<span class="muted">updated <${Time} at=${latest.createdAt} /></span>`}</footer>
  </article>`;
}

function EmptyList({ filtered, page }) {
  if (page > 1) return html`<${Empty} icon="nodes" title="Page not found" action=${html`<a class="button quiet" href=${to('nodes')}>First page</a>`}>The list has fewer pages.</${Empty}>`;
  if (filtered) {
    return html`<${Empty} icon="search" title="No matching nodes" action=${html`<a class="button quiet" href=${to('nodes')}>Clear search and filters</a>`}>
      Every word and every filter must match. Try fewer.</${Empty}>`;
  }
  return html`<${Empty} icon="nodes" title="The registry is empty" action=${html`<a class="button" href=${to('publishers')}>Create publisher</a>`}>
    Publish the first node, or load samples with <code>mediary demo</code>.</${Empty}>`;
}
