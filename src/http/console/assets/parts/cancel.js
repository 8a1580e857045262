// Cancelling a task, asked back: it is final, and what it costs elsewhere is not known here.
import { html, useEffect, useState } from '../core/dom.js';
import { at, post } from '../core/api.js';
import { count } from '../core/format.js';
import { kindName, useKinds } from '../core/jobs.js';
import { Dialog, tell } from './basic.js';
import { Confirm } from './confirm.js';
import { isOver } from './live.js';

export function CancelTask({ task, small }) {
  const [open, set] = useState(false);
  const over = isOver(task);
  const kinds = useKinds();
  const close = () => set(false);
  const done = (ended) => { close(); tell(ended.error?.code === 'cancelled' ? 'Cancelled' : 'It had ended before'); };
  // Somebody else was faster.
  const gone = open && over && task.error?.code === 'cancelled';
  useEffect(() => { if (gone) close(); }, [gone]);
  const ask = () => post(at`/tasks/${task.task_id}/cancel`);
  return html`${!over && html`<button type="button" class="button quiet ${small ? 'small' : ''}" onClick=${() => set(true)}>Cancel the task</button>`}
    ${open && !over && html`<${Confirm} title=${`Cancel this task (${kindName(kinds, task.kind)})?`} action="Cancel the task" keep="Let it go on" onClose=${close} work=${ask} onDone=${done}>
      It ends as failed at once and cannot be taken up again: what was made of it so far is lost${task.kind === 'music' ? ', and whoever listens hears no more' : ''}.
      ${task.cost > 0 && ` The ${count(task.cost, 'credit')} that it holds come back.`} A vendor elsewhere is not told, and may charge for it all the same.</${Confirm}>`}
    ${open && over && task.error?.code !== 'cancelled' && html`<${Dialog} title="It has ended meanwhile" onClose=${close}>
      <p>There is nothing left to cancel.</p><p><button type="button" class="button" autofocus onClick=${close}>Close</button></p></${Dialog}>`}`;
}
