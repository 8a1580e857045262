// Icon and banner of a node: upload and removal.
import { html, useState } from '../core/dom.js';
import { at, call, put, toLocalUrl } from '../core/api.js';
import { useElementId } from '../core/identity.js';
import { useMutation } from '../core/load.js';
import { Dialog } from './basic.js';
import { FormTrouble } from './form.js';

const TYPES = 'image/png,image/jpeg,image/webp,image/gif,image/bmp,image/tiff';
// Field of the node, last segment of the path of the upload, label and hint.
const PICTURES = [['icon', 'icon', 'Icon', 'Shown as a square.'], ['banner_url', 'banner', 'Banner', 'Shown five times as wide as high.']];

export function NodePictures({ node, onClose, onDone }) {
  const [files, setFiles] = useState({});
  const work = useMutation();
  const path = at`/publishers/${node.publisher.id}/nodes/${node.id}`;
  const choose = (field) => (event) => { work.clear(); setFiles({ ...files, [field]: event.target.files[0] }); };
  const upload = async () => {
    for (const [field, segment] of PICTURES) {
      if (!files[field]) continue;
      const form = new FormData();
      form.append('image', files[field]);
      await call('PUT', `${path}/${segment}`, { form });
    }
  };
  const send = async (event) => {
    event.preventDefault();
    const { problem } = await work.run(upload);
    if (!problem) onDone();
  };
  const remove = async (field) => {
    const { problem } = await work.run(() => put(path, { [field]: '' }));
    if (!problem) onDone();
  };
  return html`<${Dialog} title=${`Pictures of ${node.name}`} onClose=${onClose}><form class="form" onSubmit=${send} novalidate>
    <${FormTrouble} problem=${work.problem} />
    ${PICTURES.map(([field, , label, hint]) => html`<${PictureField} key=${field} ...${{ label, hint }} url=${node[field]} busy=${work.busy} onChoose=${choose(field)} onRemove=${() => remove(field)} />`)}
    <footer><button class="button" disabled=${work.busy || PICTURES.every(([field]) => !files[field])}>${work.busy ? 'Sending' : 'Upload'}</button>
      <button type="button" class="button quiet" onClick=${onClose}>Cancel</button></footer></form></${Dialog}>`;
}

function PictureField({ label, hint, url, busy, onChoose, onRemove }) {
  const id = useElementId('picture');
  const address = url && toLocalUrl(url);
  return html`<div class="field"><label for=${id}>${label}</label>
    ${url && html`<div class="row">${address ? html`<img class="node-picture" src=${address} alt=${`Current ${label.toLowerCase()}`} />` : html`<code>${url}</code>`}
      <button type="button" class="button quiet small" disabled=${busy} onClick=${onRemove}>Remove ${label.toLowerCase()}</button></div>`}
    <input id=${id} type="file" accept=${TYPES} aria-describedby=${`${id}-hint`} onChange=${onChoose} />
    <p class="hint" id=${`${id}-hint`}>${hint} PNG, JPEG, WebP, GIF, BMP or TIFF, at most 4 MiB.</p></div>`;
}
