// Versions of a node with changelogs and actions.
import { html, useState } from '../core/dom.js';
import { at, toLocalUrl, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { ChangesLink } from './archive.js';
import { Dialog, Empty, Icon, Loaded, State, notify, Time } from './basic.js';
import { Confirm } from './confirm.js';
import { OperationForm } from './form.js';
import { Markdown } from './markdown.js';
import { SendArchive } from './publish.js';

export function Versions({ node, versions, mayEdit }) {
  return html`<${Loaded} from=${versions}>${(list) => list.length === 0
    ? html`<${Empty} icon="nodes" title="No versions">
      ${mayEdit ? 'Published versions appear here.' : 'Nothing to install yet.'}</${Empty}>`
    : html`<ol class="versions">
      ${list.map((version, index) => html`<${Version} key=${version.id} node=${node} version=${version} previous=${previousOf(list, index)} mayEdit=${mayEdit} reload=${versions.reload} />`)}
      </ol>`}</${Loaded}>`;
}

// Returns the next lower version whose archive can be compared; undefined for a version without an archive.
const previousOf = (list, index) => (list[index].downloadUrl ? list.slice(index + 1).find((version) => version.downloadUrl) : undefined);

function Version({ node, version, previous, mayEdit, reload }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const path = at`/publishers/${node.publisher.id}/nodes/${node.id}/versions/${version.id}`;
  const done = (text) => () => { close(); notify(text); reload(); };
  const waits = version.status === 'NodeVersionStatusPending' && !version.downloadUrl;
  return html`<li class="release">
    <header><h2>${version.version}</h2>
      ${version.status !== 'NodeVersionStatusActive' && html`<${State} of=${version.status} />`}
      ${version.deprecated && html`<${State} of="deprecated" />`}
      <span class="muted"><${Time} at=${version.createdAt} /></span>
      <span class="spread"></span>
      <span class="row decisions"><${ChangesLink} node=${node} version=${version} previous=${previous} />${version.downloadUrl && toLocalUrl(version.downloadUrl) && html`<a class="button quiet small" href=${toLocalUrl(version.downloadUrl)} download>
        <${Icon} name="download" />Download</a>`}
      ${mayEdit && waits && html`<button type="button" class="button small" onClick=${() => setOpen('archive')}><${Icon} name="upload" />Add archive</button>`}
      ${mayEdit && version.status !== 'NodeVersionStatusDeleted' && html`<button type="button" class="button quiet small" onClick=${() => setOpen('edit')}>Edit</button>
        <button type="button" class="button quiet small" onClick=${() => setOpen('delete')}>Delete</button>`}</span></header>
    ${mayEdit && waits && html`<p class="muted">No archive yet: cannot be installed.</p>`}
    ${version.status_reason && html`<p class="muted">${version.status_reason}</p>`}
    ${version.changelog ? html`<${Markdown} text=${version.changelog} />` : html`<p class="muted">No changelog.</p>`}
    ${version.dependencies?.length > 0 && html`<details class="more"><summary>${count(version.dependencies.length, 'dependency', 'dependencies')}
      </summary><ul class="plain-list">${version.dependencies.map((name) => html`<li><code>${name}</code></li>`)}</ul></details>`}
    ${open === 'edit' && html`<${Dialog} title=${`Edit version ${version.version}`} onClose=${close}>
      <${OperationForm} id="updateVersion" path=${path} start=${version} submit="Save" onDone=${done('Saved')} onCancel=${close} /></${Dialog}>`}
    ${open === 'archive' && html`<${SendArchive} path=${path} version=${version.version} onClose=${close} onSent=${done('Published')} />`}
    ${open === 'delete' && html`<${Confirm} title=${`Delete version ${version.version}?`} action="Delete" onClose=${close} work=${() => remove(path)} onDone=${done('Deleted')}>
      This cannot be undone: it can no longer be installed, and its number cannot be reused.</${Confirm}>`}
  </li>`;
}
