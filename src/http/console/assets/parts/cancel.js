// Button that cancels a task, with a confirmation.
import { html, useEffect, useState } from '../core/dom.js';
import { at, post } from '../core/api.js';
import { count } from '../core/format.js';
import { kindName, useKinds } from '../core/jobs.js';
import { Dialog, notify } from './basic.js';
import { Confirm } from './confirm.js';
import { hasEnded } from './live.js';

export function CancelTask({ task, small }) {
  const [open, setOpen] = useState(false);
  const isEnded = hasEnded(task);
  const kinds = useKinds();
  const close = () => setOpen(false);
  const done = (ended) => { close(); notify(ended.error?.code === 'cancelled' ? 'Cancelled' : 'Already ended'); };
  // The task was cancelled elsewhere while the dialog was open.
  const isObsolete = open && isEnded && task.error?.code === 'cancelled';
  useEffect(() => { if (isObsolete) close(); }, [isObsolete]);
  const cancel = () => post(at`/tasks/${task.task_id}/cancel`);
  return html`${!isEnded && html`<button type="button" class="button quiet ${small ? 'small' : ''}" onClick=${() => setOpen(true)}>Cancel task</button>`}
    ${open && !isEnded && html`<${Confirm} title=${`Cancel this task (${kindName(kinds, task.kind)})?`} action="Cancel task" keep="Keep running" onClose=${close} work=${cancel} onDone=${done}>
      The task fails immediately and cannot be resumed; partial results are lost${task.kind === 'music' ? ', and the stream ends' : ''}.
      ${task.cost > 0 && ` Refund: ${count(task.cost, 'credit')}.`} A remote vendor is notified, but may still charge for it.</${Confirm}>`}
    ${open && isEnded && task.error?.code !== 'cancelled' && html`<${Dialog} title="Task already ended" onClose=${close}>
      <p>There is nothing left to cancel.</p><p><button type="button" class="button" autofocus onClick=${close}>Close</button></p></${Dialog}>`}`;
}
