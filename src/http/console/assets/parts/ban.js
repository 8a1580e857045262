// Ban and unban users, publishers and nodes. Needs a reason.
import { html, useState } from '../core/dom.js';
import { post } from '../core/api.js';
import { notify } from './basic.js';
import { Confirm } from './confirm.js';

// Name of one entry, and the effects of a ban and of its end.
const TEXTS = {
  nodes: ['node', 'It is hidden from lists, and only administrators can change it.', 'It is listed again, and its members can change it.'],
  publishers: ['publisher', 'It and its nodes are hidden from lists, and only administrators can change them.', 'It and its nodes are listed again, and its members can change them.'],
  users: ['user', 'The user can no longer change or submit anything. Published nodes stay.', 'The user gets all permissions back.'],
};

// Id of the administrator of the first token, the same in every service.
const FIRST_ADMINISTRATOR = '00000000-0000-4000-8000-000000000001';

// The service rejects bans of the caller and of the first administrator, so that an administrator always remains.
export const isProtected = (id, user) => id === FIRST_ADMINISTRATOR || id === user?.id;

export function BanButton({ kind, id, name, banned, onDone, small }) {
  const [open, setOpen] = useState(false);
  const [noun, banEffect, unbanEffect] = TEXTS[kind];
  const action = banned ? 'unban' : 'ban';
  const done = () => { setOpen(false); notify(banned ? 'Unbanned' : 'Banned'); onDone(); };
  return html`<button type="button" class="button quiet ${small ? 'small' : ''}" onClick=${() => setOpen(true)}>${banned ? 'Unban' : 'Ban'}</button>
    ${open && html`<${Confirm} title=${`${banned ? 'Unban' : 'Ban'} the ${noun} ${name ?? id}?`} action=${banned ? 'Unban' : 'Ban'} reason="Recorded in the audit log and shown with the ban."
      onClose=${() => setOpen(false)} work=${(reason) => post(`/admin/${kind}/${encodeURIComponent(id)}/${action}`, { reason })} onDone=${done}>
      ${banned ? unbanEffect : banEffect}
        </${Confirm}>`}`;
}
