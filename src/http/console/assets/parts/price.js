// Price of a job before its submission, and the budget that does not cover it.
import { html, useEffect, useState } from '../core/dom.js';
import { call } from '../core/api.js';
import { count, day, number } from '../core/format.js';
import { estimateBody } from '../core/job_values.js';
import { allowsAnonymous, bodyOf, modelList } from '../core/openapi.js';

// Pause after a change of the form before the price is requested.
const PAUSE_MS = 500;

// Returns `{ credits, breakdown, perSecond }`, or null while the form is incomplete or the price unknown. Visitors who may not
// ask for an estimate of the job get the price of the public list.
export function useEstimate(document, job, values, user) {
  const [estimate, setEstimate] = useState(null);
  const listed = useListPrice(job, user === null && !allowsAnonymous(job));
  const { schema, mediaType } = bodyOf(document, job);
  const isAllowed = Boolean(user) || allowsAnonymous(job);
  const requestBody = isAllowed ? estimateBody(document, schema, values) : null;
  const key = requestBody && JSON.stringify(requestBody);
  useEffect(() => {
    if (!key) { setEstimate(null); return undefined; }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const json = JSON.parse(key);
      const form = new FormData();
      for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
      const options = mediaType === 'multipart/form-data' ? { form } : { body: json };
      call('POST', job.path, { ...options, query: { estimate: true }, signal: abort.signal }).then(setEstimate, () => { if (!abort.signal.aborted) setEstimate(null); });
    }, PAUSE_MS);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [key, job.operationId, user?.id]);
  return listed ? estimateFromList(listed, values) : estimate;
}

// Returns the price of a job in the public list; null if it is not needed.
function useListPrice({ path }, isNeeded) {
  const [price, setPrice] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    setPrice(null);
    if (isNeeded) modelList().then(({ models }) => { if (isCurrent) setPrice(models.find((model) => model.path === path)?.price ?? null); }, () => {});
    return () => { isCurrent = false; };
  }, [path, isNeeded]);
  return isNeeded ? price : null;
}

// Computes the price from the public list. Without a duration, the built-in engine reads it from the prompt, so that only
// the price of a second is known.
function estimateFromList({ credits, credits_per_second: perSecond = 0 }, { duration }) {
  if (credits === undefined) return null;
  const seconds = Number(duration) || 0;
  return { credits: credits + perSecond * seconds, perSecond: seconds ? 0 : perSecond, breakdown: [] };
}

export function Price({ estimate }) {
  const text = priceText(estimate);
  const parts = estimate?.breakdown.length > 1 ? estimate.breakdown.map(({ item, credits }) => `${item} ${number(credits)}`).join(', ') : '';
  return html`<p class="price" aria-live="polite">${text && html`<strong>${text}</strong>`}${parts && html`<span class="muted small" title=${parts}>${parts}</span>`}</p>`;
}

function priceText(estimate) {
  if (!estimate) return '';
  const { credits, perSecond } = estimate;
  if (perSecond) return [credits && count(credits, 'credit'), `${count(perSecond, 'credit')} per second`].filter(Boolean).join(' and ');
  return credits === 0 ? 'Free' : count(credits, 'credit');
}

const PERIODS = { day: 'daily budget', month: 'monthly budget', total: 'budget' };
const SUBJECTS = { user: 'your account', token: 'your token', publisher: 'your publisher' };

// Explains a 402 in words.
export function BudgetExceeded({ problem: { others } }) {
  const { subject: { kind, id }, limit, period, spent, held, resets_at: resets } = others;
  return html`<div class="trouble" role="alert"><div><strong>The budget does not cover this job</strong>
    <p>The ${PERIODS[period] ?? 'budget'} of ${SUBJECTS[kind] ?? `the ${kind}`}${kind === 'publisher' ? ` ${id}` : ''} is ${count(limit, 'credit')}:
      ${number(spent)} spent, ${number(held)} held by running tasks, ${number(Math.max(0, limit - spent - held))} left.</p>
    <p>${resets ? `It resets on ${day(resets)}.` : 'It does not reset: ask an administrator for more.'} Nothing was charged.</p></div></div>`;
}
