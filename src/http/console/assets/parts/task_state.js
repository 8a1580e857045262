// State of a task: progress, queue, blocking reason, error and prompt report.
import { html } from '../core/dom.js';
import { duration, toWords } from '../core/format.js';
import { Icon, Progress, State, Time } from './basic.js';
import { hasEnded } from './live.js';

// State of a task, announced to screen readers.
export function TaskState({ task, connection }) {
  const isEnded = hasEnded(task);
  return html`<div class="task-state">
    <div aria-live="polite" aria-atomic="true" class="row"><${State} of=${task.state} />
      ${!isEnded && task.queue_position && html`<span class="muted">position ${task.queue_position} in the queue</span>`}
      ${isEnded && task.updated_at && html`<span class="muted">after ${duration(task.created_at, task.updated_at)}</span>`}
      ${!isEnded && connection === 'lost' && html`<span class="state warn">Connection lost, reconnecting</span>`}</div>
    ${!isEnded && html`<${Progress} value=${task.progress} label="Task progress" />`}
    ${!isEnded && task.blocked_by && html`<p class="muted">Blocked: ${task.blocked_by.message}. Last attempt <${Time} at=${task.blocked_by.since} />,
      the next attempt is <${Time} at=${task.blocked_by.next_attempt_at} due />.</p>`}
    ${task.prompt_report && html`<${Report} of=${task.prompt_report} />`}
    ${task.error && html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${toWords(task.error.code)}</strong><p>
      ${task.error.message}</p></div></div>`}
  </div>`;
}

// Words of the prompt that the built-in engine understood and ignored.
function Report({ of: { understood, ignored } }) {
  const quoted = (list) => list.map((word, index) => html`${index > 0 && ', '}<q>${word}</q>`);
  return html`<p class="muted">${understood.length === 0 ? 'Nothing in the prompt was understood' : html`Understood: ${quoted(understood)}`}.
    ${ignored.length > 0 && html` Ignored: ${quoted(ignored)}.`}</p>`;
}
