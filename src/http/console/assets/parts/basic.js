// Basic components.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { thumbnailOf, toLocalUrl } from '../core/api.js';
import { ago, exact, monogram, stateName, until, webAddress } from '../core/format.js';
import { useInterval } from '../core/load.js';
import { Copy } from './copy.js';
import { Icon } from './icon.js';

export { Copy } from './copy.js';
export { Dialog } from './dialog.js';
export { Icon } from './icon.js';
export { Toasts, notify } from './notes.js';

// Page layout: title, lead, actions, content.
export function Page({ title, lead, actions, children, before, name }) {
  return html`<div class="page ${name ?? ''}">
    ${before}
    <header class="page-head">
      <div><h1 tabindex="-1">${title}</h1>${lead && html`<p class="lead">${lead}</p>`}</div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
  </div>`;
}

export const BackLink = ({ href, children }) => html`<a class="back" href=${href}><${Icon} name="left" />${children}</a>`;

// ── Values ──

const REDRAW_MS = 5000;

// Relative time, which is updated while the page is open. `due` means that the moment is in the future.
export function Time({ at, due }) {
  const [, redraw] = useState(0);
  useInterval(REDRAW_MS, () => redraw((count) => count + 1));
  if (!at) return null;
  return html`<time datetime=${at} title=${exact(at)}>${due ? until(at) : ago(at)}</time>`;
}

export const Id = ({ children, label }) => html`
  <span class="id"><code>${children}</code><${Copy} text=${String(children)} label=${label ?? 'Copy id'} /></span>`;

// Allows line breaks within an e-mail address.
export const EmailAddress = ({ of }) => of.split(/(?<=[@.])/).map((part, index) => html`${index > 0 && html`<wbr />`}${part}`);

export function Code({ text, label }) {
  return html`<div class="code"><pre tabindex="0" aria-label=${label}><code>${text}</code></pre><${Copy} text=${text} label=${`Copy: ${label}`} />
    </div>`;
}

export function ExternalLink({ href, children }) {
  const address = webAddress(href);
  if (!address) return html`<span class="plain">${children ?? href}</span>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${children ?? address.replace(/^https?:\/\//, '').replace(/\/$/, '')}
    <${Icon} name="out" /></a>`;
}

export function Monogram({ id, name, large }) {
  const { letters, tone } = monogram(id, name);
  return html`<span class="monogram tone-${tone} ${large ? 'large' : ''}" aria-hidden="true">${letters}</span>`;
}

// Icon of a node, or its monogram: icons on other hosts are not loaded.
export function NodeIcon({ node: { id, name, icon }, large }) {
  const address = icon && toLocalUrl(icon);
  return address ? html`<img class="monogram ${large ? 'large' : ''}" src=${thumbnailOf(address, 'small')} alt="" />` : html`<${Monogram} ...${{ id, name, large }} />`;
}

// Tones of badges, with the states and statuses that have them.
const TONES = {
  good: ['active', 'completed', 'success', 'delivered', 'closed', 'ok', 'approved', 'live'],
  busy: ['created', 'in_progress', 'processing', 'queueing', 'pending', 'half_open', 'in progress', 'changed'],
  bad: ['failed', 'banned', 'dead', 'open', 'full', 'read_only', 'cancelled', 'deleted'],
  warn: ['flagged', 'stopped', 'deprecated', 'lost', 'held'],
};

// Badge of a state or status, in the tone of its meaning.
export function State({ of, children }) {
  const word = stateName(of);
  const key = String(of).replace(/^(NodeVersionStatus|NodeStatus|PublisherStatus|UserStatus)/, '').toLowerCase();
  const tone = Object.keys(TONES).find((tone) => TONES[tone].includes(key));
  return html`<span class="state ${tone ?? 'calm'}">${children ?? word}</span>`;
}

export const Tag = ({ children }) => html`<span class="tag">${children}</span>`;
export const Tags = ({ of, label }) => of?.length
  ? html`<ul class="tags" aria-label=${label}>${of.map((tag) => html`<li key=${tag}><${Tag}>${tag}</${Tag}></li>`)}</ul>` : null;

export function Rating({ value }) {
  if (!value) return html`<span class="muted">No reviews yet</span>`;
  return html`<span class="rating" title=${`${value.toFixed(2)} of 5`}><${Icon} name="star" filled />${value.toFixed(1)}
    <span class="unseen"> of 5 stars</span></span>`;
}

// Definition list; entries without a value are omitted.
export function DefinitionList({ of, name }) {
  const rows = of.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  return html`<dl class="facts ${name ?? ''}">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// ── Loading and errors ──

export function Empty({ icon, title, children, action }) {
  return html`<div class="empty"><${Icon} name=${icon} /><h2>${title}</h2><p>${children}</p>${action}</div>`;
}

// Error message, with a button that calls `onRetry` if that is set. `labels` maps field names to labels.
export function ErrorMessage({ problem, onRetry, labels = {} }) {
  if (!problem) return null;
  const gone = problem.status === 404;
  const faults = problem.errors ?? [];
  return html`<div class="trouble" role="alert">
    <${Icon} name="warn" />
    <div>
      <strong>${gone ? 'Not found' : problem.title ?? 'Something went wrong'}</strong>
      ${faults.length === 0 ? html`<p class="sentence">${problem.message}</p>` : faults.length === 1 ? html`<p><${FieldError} of=${faults[0]} labels=${labels} /></p>`
        : html`<ul>${faults.map((fault) => html`<li><${FieldError} of=${fault} labels=${labels} /></li>`)}</ul>`}
      ${problem.retryAfter && html`<p class="muted">Try again in ${problem.retryAfter} s.</p>`}
      ${problem.request && html`<p class="muted small">Request <code>${problem.request}</code></p>`}
    </div>
    ${onRetry && html`<button type="button" class="button quiet small" onClick=${onRetry}>Try again</button>`}
  </div>`;
}

function FieldError({ of: { pointer, reason }, labels }) {
  const label = labels[pointer.slice(1)];
  return html`${label ? html`<strong>${label}</strong>` : html`<code>${pointer}</code>`} ${reason}`;
}

export const Skeleton = ({ lines = 4, kind = 'rows' }) => html`
  <div class="skeleton ${kind}" aria-busy="true"><span class="unseen" role="status">Loading</span>
    ${Array.from({ length: lines }, (_, index) => html`<div key=${index} class="bone"></div>`)}</div>`;

// Content of `from` (the result of `useLoad`), a skeleton while it loads, or its error.
export function Loaded({ from, skeleton, labels, children }) {
  if (from.data !== undefined) {
    return html`${from.error && html`<${ErrorMessage} problem=${from.error} onRetry=${from.reload} labels=${labels} />`}${children(from.data)}`;
  }
  if (from.error) return html`<${ErrorMessage} problem=${from.error} onRetry=${from.reload} labels=${labels} />`;
  return skeleton ?? html`<${Skeleton} />`;
}

// `Loaded` for a whole page, which always shows its title and back link.
export function LoadedPage({ from, title, before, lines = 6, children }) {
  if (from.data !== undefined) return html`<${Loaded} from=${from}>${children}</${Loaded}>`;
  const inside = from.error ? html`<${ErrorMessage} problem=${from.error} onRetry=${from.reload} />` : html`<${Skeleton} lines=${lines} />`;
  return html`<${Page} title=${title} before=${before}>${inside}</${Page}>`;
}

export function Progress({ value, label }) {
  const percent = Math.round(value * 100);
  return html`<div class="progress" role="progressbar" aria-valuenow=${percent} aria-valuemin="0" aria-valuemax="100" aria-label=${label}>
    <div style=${{ width: `${percent}%` }}></div></div>`;
}

// ── Navigation ──

export function Tabs({ tabs, current, address }) {
  const bar = useRef(null);
  // On a narrow screen, the current tab may be out of view: scroll to it.
  useEffect(() => {
    const tab = bar.current?.querySelector('[aria-current]');
    if (tab) bar.current.scrollLeft = tab.offsetLeft - bar.current.offsetLeft - (bar.current.clientWidth - tab.offsetWidth) / 2;
  }, [current, tabs.length]);
  return html`<nav ref=${bar} class="tabs" aria-label="Sections">${tabs.map(([key, name, count]) => html`
    <a key=${key} href=${address(key)} aria-current=${key === current ? 'page' : undefined}>
      ${name}${count !== undefined && html`<span class="count">${count}</span>`}</a>`)}</nav>`;
}

export function Pager({ page, pages, address }) {
  if (pages <= 1) return null;
  const around = [1, page - 1, page, page + 1, pages].filter((number) => number >= 1 && number <= pages);
  const shown = [...new Set(around)].sort((a, b) => a - b);
  const step = (target, icon, name) => target < 1 || target > pages
    ? html`<span class="step off" aria-hidden="true"><${Icon} name=${icon} /></span>`
    : html`<a class="step" href=${address(target)} aria-label=${name}><${Icon} name=${icon} /></a>`;
  return html`<nav class="pager" aria-label="Pages">
    ${step(page - 1, 'left', 'Previous page')}
    ${shown.map((number, index) => html`${index > 0 && number - shown[index - 1] > 1 && html`<span class="gap">…</span>`}
      <a key=${number} class="number" href=${address(number)} aria-current=${number === page ? 'page' : undefined} aria-label=${`Page ${number}`}>${number}</a>`)}
    ${step(page + 1, 'right', 'Next page')}
  </nav>`;
}
