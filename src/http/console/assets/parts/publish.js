// Publish a version in two steps: metadata, then the archive.
import { html, useRef, useState } from '../core/dom.js';
import { at, call, post } from '../core/api.js';
import { newIdempotencyKey } from '../core/identity.js';
import { useMutation } from '../core/load.js';
import { Dialog, ErrorMessage } from './basic.js';
import { OperationForm } from './form.js';

// The response to the first step has the upload URL. Closing the second step leaves the version pending.
export function Publish({ node, onClose, onLater, onSent }) {
  const [publication, setPublication] = useState(null);
  const path = at`/publishers/${node.publisher.id}/nodes/${node.id}/versions`;
  if (!publication) {
    return html`<${Dialog} key="version" title=${`Publish a version of ${node.name}`} onClose=${onClose}>
      <${OperationForm} id="publishVersion" path=${path} skip=${['node']} submit="Continue to archive" onDone=${setPublication} onCancel=${onClose} /></${Dialog}>`;
  }
  const { node_version: { id, version }, signedUrl } = publication;
  return html`<${SendArchive} key="archive" path=${path + at`/${id}`} ...${{ version, signedUrl, onSent }} onClose=${onLater} />`;
}

// Uploads the archive of the version at `path`, with the given upload URL or a new one.
export function SendArchive({ path, version, signedUrl, onClose, onSent }) {
  const [file, setFile] = useState(null);
  const link = useRef(signedUrl);
  const key = useRef(null);
  const work = useMutation();
  const choose = (event) => { key.current = newIdempotencyKey(); setFile(event.target.files[0]); };
  const upload = async () => {
    link.current ??= (await post(`${path}/upload`)).signedUrl;
    const ticket = new URL(link.current).pathname.split('/').at(-1);
    return call('PUT', at`/uploads/${ticket}`, { form: file, headers: { 'Content-Type': 'application/zip', 'Idempotency-Key': key.current } });
  };
  const send = async (event) => {
    event.preventDefault();
    const { problem } = await work.run(upload);
    if (!problem) return onSent();
    // A final error may mean that the URL has expired, so the next attempt requests another. Without a response, the upload
    // may have succeeded, and only a retry with the same URL shows that.
    if (problem.isFinal) link.current = null;
  };
  return html`<${Dialog} title=${`Upload the archive of ${version}`} onClose=${onClose}>
    <form class="form" onSubmit=${send}><p>The version is created. Upload its archive, a zip of at most 100 MiB, within 15 minutes.</p>
      <${ErrorMessage} problem=${work.problem} />
      <div class="field"><label for="archive">Archive</label>
        <input id="archive" type="file" accept=".zip,application/zip" onChange=${choose} /></div>
      <footer><button class="button" disabled=${!file || work.busy}>${work.busy ? 'Sending' : 'Upload archive'}</button>
        <button type="button" class="button quiet" onClick=${onClose}>Later</button></footer></form></${Dialog}>`;
}
