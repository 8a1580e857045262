// Banning and unbanning users, publishers and nodes: for administrators, with a reason.
import { html, useState } from '../core/dom.js';
import { post } from '../core/api.js';
import { tell } from './basic.js';
import { Confirm } from './confirm.js';

const WHAT = {
  nodes: ['node', 'It leaves all lists, and its people change nothing of it, until it is unbanned.', 'It is listed again, and its people may change it.'],
  publishers: ['publisher', 'It leaves all lists with its nodes, and its people change nothing of them, until it is unbanned.', 'It is listed again with its nodes, and its people may change them.'],
  users: ['user', 'Whatever they ask to be changed or made is refused until they are unbanned. What they have published stays.', 'They may do again what they did before.'],
};

// The administrator of the bootstrap token, who has the same id in every service.
const FIRST_ADMINISTRATOR = '00000000-0000-4000-8000-000000000001';

// Nobody bans themselves, nor the first administrator: the service refuses it, so that not everybody is locked out.
export const isSpared = (id, user) => id === FIRST_ADMINISTRATOR || id === user?.id;

export function BanButton({ kind, id, name, banned, onDone, small }) {
  const [open, set] = useState(false);
  const [what, banning, unbanning] = WHAT[kind];
  const act = banned ? 'unban' : 'ban';
  const done = () => { set(false); tell(banned ? 'Unbanned' : 'Banned'); onDone(); };
  return html`<button type="button" class="button quiet ${small ? 'small' : ''}" onClick=${() => set(true)}>${banned ? 'Unban' : 'Ban'}</button>
    ${open && html`<${Confirm} title=${`${banned ? 'Unban' : 'Ban'} the ${what} ${name ?? id}?`} action=${banned ? 'Unban' : 'Ban'} reason="Recorded in the audit log, and shown."
      onClose=${() => set(false)} work=${(reason) => post(`/admin/${kind}/${encodeURIComponent(id)}/${act}`, { reason })} onDone=${done}>
      ${banned ? unbanning : banning}
        </${Confirm}>`}`;
}
