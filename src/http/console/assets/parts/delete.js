// Delete nodes and publishers, with a confirmation.
import { html, useState } from '../core/dom.js';
import { at, get, remove } from '../core/api.js';
import { useLoad } from '../core/load.js';
import { go, to } from '../core/router.js';
import { notify } from './basic.js';
import { Confirm } from './confirm.js';

// Visible to owners of the publisher and administrators.
export function DeleteNode({ node, user }) {
  const owner = node.publisher.id;
  const publisher = useLoad((signal) => (user && !user.isAdmin ? get(at`/publishers/${owner}`, {}, signal) : Promise.resolve(null)), [owner, user?.id]);
  const isOwner = publisher.data?.members.some((member) => member.id === user?.id && member.role === 'owner');
  if (!user?.isAdmin && !isOwner) return null;
  return html`<${Delete} title=${`Delete the node ${node.id}?`} path=${at`/publishers/${owner}/nodes/${node.id}`} next=${to('publishers', owner)}>
    This cannot be undone: its versions are removed, and its id cannot be reused.</${Delete}>`;
}

export const DeletePublisher = ({ publisher }) => html`
  <${Delete} title=${`Delete the publisher ${publisher.id}?`} path=${at`/publishers/${publisher.id}`} next=${to('publishers')}>
    This cannot be undone: its access tokens are revoked.</${Delete}>`;

function Delete({ title, path, next, children }) {
  const [open, setOpen] = useState(false);
  const done = () => { setOpen(false); notify('Deleted'); go(next); };
  return html`<button type="button" class="button quiet" onClick=${() => setOpen(true)}>Delete</button>
    ${open && html`<${Confirm} title=${title} action="Delete" onClose=${() => setOpen(false)} onDone=${done} work=${() => remove(path)}>${children}</${Confirm}>`}`;
}
