// Banning and unbanning users, publishers and nodes: for administrators, with a reason.
import { html, useState } from '../core/dom.js';
import { post } from '../core/api.js';
import { tell } from './basic.js';
import { Confirm } from './confirm.js';

const WHAT = { nodes: 'node', publishers: 'publisher', users: 'user' };

export function BanButton({ kind, id, name, banned, onDone, small }) {
  const [open, set] = useState(false);
  const act = banned ? 'unban' : 'ban';
  const done = () => { set(false); tell(banned ? 'Unbanned' : 'Banned'); onDone(); };
  return html`<button type="button" class="button quiet ${small ? 'small' : ''}" onClick=${() => set(true)}>${banned ? 'Unban' : 'Ban'}</button>
    ${open && html`<${Confirm} title=${`${banned ? 'Unban' : 'Ban'} the ${WHAT[kind]} ${name ?? id}?`} action=${banned ? 'Unban' : 'Ban'} reason="Recorded in the audit log, and shown."
      onClose=${() => set(false)} work=${(reason) => post(`/admin/${kind}/${encodeURIComponent(id)}/${act}`, { reason })} onDone=${done}>
      ${banned ? 'It may do and be again what it did and was.' : 'It changes nothing any more, and leaves all lists, until it is unbanned.'}
        </${Confirm}>`}`;
}
