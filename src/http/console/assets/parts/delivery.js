// Delivery of a webhook.
import { html } from '../core/dom.js';
import { at, post } from '../core/api.js';
import { useMutation } from '../core/load.js';
import { ErrorMessage, Icon, State, Time, notify } from './basic.js';

// A delivery with its attempts, and the button that repeats it.
export function Delivery({ delivery, title, reload }) {
  const work = useMutation();
  const redeliver = async () => {
    const { problem } = await work.run(() => post(at`/deliveries/${delivery.id}/redeliver`));
    if (problem && problem.status !== 409) return;
    // A 409 means that the delivery was already queued.
    work.clear();
    notify(problem ? 'Already queued' : 'Queued again');
    reload();
  };
  return html`<li class="release"><header><${State} of=${delivery.state} /><strong>${title}</strong>
      <span class="muted">to <code>${delivery.url}</code></span><span class="spread"></span>
      ${delivery.state !== 'pending' && html`<button type="button" class="button quiet small" disabled=${work.busy} onClick=${redeliver}>
        <${Icon} name="refresh" />Redeliver</button>`}</header>
    <${ErrorMessage} problem=${work.problem} />
    ${delivery.waits_for && html`<p class="muted small">Waits for the previous delivery.</p>`}
    <table class="table small"><thead><tr><th>Attempt</th><th>Response</th><th>When</th></tr></thead><tbody>
      ${delivery.attempts.map((attempt) => html`<tr key=${attempt.number}><td data-label="Attempt">${attempt.number}</td>
        <td data-label="Response">${attempt.status_code ?? attempt.reason ?? 'none'}</td><td data-label="When"><${Time} at=${attempt.at} /></td></tr>`)}
      ${delivery.attempts.length === 0 && html`<tr><td colspan="3" class="muted">No attempt yet.</td></tr>`}</tbody></table>
    ${delivery.next_attempt_at && html`<p class="muted small">The next attempt is <${Time} at=${delivery.next_attempt_at} due />.</p>`}
  </li>`;
}
