// Contents of the archive of a version: README, files, and the differences from another version.
import { html, useState } from '../core/dom.js';
import { at, get, send } from '../core/api.js';
import { bytes, count } from '../core/format.js';
import { never, useLoad } from '../core/load.js';
import { to } from '../core/router.js';
import { Code, Loaded, State } from './basic.js';
import { Markdown } from './markdown.js';

// Names of a README, best first; it may also be in the only folder of the archive.
const README = [/^readme\.md$/i, /^readme$/i, /^readme\.(txt|rst)$/i, /^[^/]+\/readme\.md$/i];
const base = (node, version) => at`/nodes/${node.id}/versions/${version}`;

// Reads a file of an archive; null if it is not text.
async function readContent(node, version, path, signal) {
  const response = await send('GET', `${base(node, version)}/files/content`, { query: { path }, signal });
  return response.headers.get('Content-Type')?.startsWith('text/') ? response.text() : null;
}

// Loads the README of the latest version, if it has one. `node` is undefined until it is loaded.
export function useReadme(node) {
  const latest = node?.latest_version;
  return useLoad(async (signal) => {
    if (!node) return never;
    if (!latest?.downloadUrl) return null;
    const { files } = await get(`${base(node, latest.version)}/files`, {}, signal);
    const readme = README.map((name) => files.find(({ path }) => name.test(path))).find(Boolean);
    const text = readme && await readContent(node, latest.version, readme.path, signal);
    return text ? { path: readme.path, text } : null;
  }, [node?.id, latest?.version]);
}

export function Readme({ of: { path, text } }) {
  return /\.md$/i.test(path) ? html`<${Markdown} text=${text} name="readme" />` : html`<${Code} label=${path} text=${text} />`;
}

export function ArchiveFiles({ node, versions }) {
  const [version, setVersion] = useState(versions[0].version);
  const [path, setPath] = useState(null);
  const files = useLoad((signal) => get(`${base(node, version)}/files`, {}, signal), [node.id, version]);
  return html`<section class="archive">
    <label class="order"><span>Version</span><div class="select"><select value=${version} onChange=${(event) => { setVersion(event.target.value); setPath(null); }}>
      ${versions.map(({ version: number }) => html`<option key=${number} value=${number} selected=${number === version}>${number}</option>`)}</select></div></label>
    <${Loaded} from=${files}>${({ files: list, bytes: total }) => html`
      <p class="muted">${count(list.length, 'file')}, ${bytes(total)}</p>
      <ul class="files">${list.map((file) => html`<li key=${file.path}>
        <button type="button" class="link" aria-expanded=${file.path === path ? 'true' : 'false'} onClick=${() => setPath(file.path === path ? null : file.path)}>
          <code>${file.path}</code></button><span class="muted small">${file.link ? 'link' : bytes(file.bytes)}</span>
        ${file.path === path && html`<${FileContent} node=${node} version=${version} path=${path} />`}</li>`)}</ul>`}</${Loaded}>
  </section>`;
}

function FileContent({ node, version, path }) {
  const text = useLoad((signal) => readContent(node, version, path, signal), [node.id, version, path]);
  return html`<div class="content"><${Loaded} from=${text}>${(shown) => shown === null
    ? html`<p class="muted">Not text: download the archive to see it.</p>` : html`<${Code} label=${path} text=${shown} />`}</${Loaded}></div>`;
}

// Link to the differences from the version before, which is the next one in the list.
export function ChangesLink({ node, version, previous }) {
  if (!previous) return null;
  return html`<a class="button quiet small" href=${to('nodes', node.id, 'changes', version.version, previous.version)}>Changes since ${previous.version}</a>`;
}

export function Changes({ node, version, from }) {
  const difference = useLoad((signal) => get(`${base(node, version)}/diff`, { from }, signal), [node.id, version, from]);
  return html`<section class="archive"><h2>Changes from ${from} to ${version}</h2>
    <${Loaded} from=${difference}>${({ files }) => files.length === 0
      ? html`<p class="muted">The archives have the same files.</p>`
      : html`<p class="muted">${count(files.length, 'file')}</p>${files.map((file) => html`<${Change} key=${file.path} file=${file} />`)}`}</${Loaded}>
  </section>`;
}

const OMITTED = { binary: 'Not text.', too_large: 'Too large to compare.' };
const KINDS = { added: 'good', removed: 'bad' };

function Change({ file }) {
  return html`<details class="change" open><summary><code>${file.path}</code> <${State} of=${file.change}>${file.change}</${State}></summary>
    ${file.omitted ? html`<p class="muted">${OMITTED[file.omitted]}</p>` : html`<pre class="patch" tabindex="0" aria-label=${`Changes of ${file.path}`}>${patchLines(file.patch)}</pre>`}
  </details>`;
}

// Returns the lines of a patch without the first two, which name the file.
function patchLines(patch) {
  const tone = (line) => (line.startsWith('+') ? KINDS.added : line.startsWith('-') ? KINDS.removed : line.startsWith('@@') ? 'place' : '');
  return patch.trimEnd().split('\n').slice(2).map((line) => html`<span class=${tone(line)}>${line}${'\n'}</span>`);
}
