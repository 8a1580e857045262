// Price of a job before its submission, and the budget that does not cover it.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { call } from '../core/api.js';
import { count, day, number } from '../core/format.js';
import { estimateBody } from '../core/job_values.js';
import { allowsAnonymous, bodyOf } from '../core/openapi.js';

const PAUSE_MS = 500;

// Returns `{ credits, breakdown }`, or null while the form is incomplete or the price unknown.
export function useEstimate(document, job, values, user) {
  const [estimate, set] = useState(null);
  const { schema, mediaType } = bodyOf(document, job);
  const isAllowed = Boolean(user) || allowsAnonymous(job);
  const sent = isAllowed ? estimateBody(document, schema, values) : null;
  const key = sent && JSON.stringify(sent);
  const asked = useRef(null);
  useEffect(() => {
    if (!key) { asked.current = null; set(null); return undefined; }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const json = JSON.parse(key);
      const form = new FormData();
      for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
      const options = mediaType === 'multipart/form-data' ? { form } : { body: json };
      call('POST', job.path, { ...options, query: { estimate: true }, signal: abort.signal }).then(set, () => { if (!abort.signal.aborted) set(null); });
    }, PAUSE_MS);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [key, job.operationId, user?.id]);
  return estimate;
}

export function Price({ estimate }) {
  const text = !estimate ? '' : estimate.credits === 0 ? 'Free' : count(estimate.credits, 'credit');
  const parts = estimate?.breakdown.length > 1 ? estimate.breakdown.map(({ item, credits }) => `${item} ${number(credits)}`).join(', ') : '';
  return html`<p class="price" aria-live="polite">${text && html`<strong>${text}</strong>`}${parts && html`<span class="muted small" title=${parts}>${parts}</span>`}</p>`;
}

const PERIODS = { day: 'daily budget', month: 'monthly budget', total: 'budget' };
const SUBJECTS = { user: 'your account', token: 'your token', publisher: 'your publisher' };

// Explains a 402 in words.
export function BudgetExceeded({ problem: { others } }) {
  const { subject: { kind, id }, limit, period, spent, held, resets_at: resets } = others;
  return html`<div class="trouble" role="alert"><div><strong>The budget does not cover this job</strong>
    <p>The ${PERIODS[period] ?? 'budget'} of ${SUBJECTS[kind] ?? `the ${kind}`}${kind === 'publisher' ? ` ${id}` : ''} is ${count(limit, 'credit')}:
      ${number(spent)} spent, ${number(held)} held by running tasks, ${number(Math.max(0, limit - spent - held))} left.</p>
    <p>${resets ? `It starts again on ${day(resets)}.` : 'It does not reset: ask an administrator for more.'} Nothing was charged.</p></div></div>`;
}
