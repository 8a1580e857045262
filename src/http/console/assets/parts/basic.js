// The small parts that every page is made of.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { ago, exact, monogram, webAddress, words } from '../core/format.js';
import { to } from '../core/router.js';
import { store, useStore } from '../core/store.js';

const ICONS = {
  nodes: 'M12 2.8 20 7v10l-8 4.2L4 17V7zM4 7l8 4.3L20 7M12 11.3v9.9',
  publishers: 'M16 20v-1.5a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4V20M9.5 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M21 20v-1.5a4 4 0 0 0-3-3.8M15.5 4.2a3.5 3.5 0 0 1 0 6.6',
  studio: 'M4 5h16v14H4zM4 15.5l4.5-4.5 4 4 2.5-2.5 5 5M15.5 9.2h.01',
  tasks: 'M9 6h11M9 12h11M9 18h11M4.2 6l.9.9 1.6-1.8M4.2 12l.9.9 1.6-1.8M4.2 18l.9.9 1.6-1.8',
  state: 'M3 12h4l2.5-7 5 14L17 12h4',
  audit: 'M12 7v5l3.2 2M3.5 12a8.5 8.5 0 1 0 2.6-6.1M3.5 4v3.5H7',
  moderation: 'M12 3l7.5 2.8v5.4c0 4.6-3.1 8-7.5 9.8-4.4-1.8-7.5-5.2-7.5-9.8V5.8zM9 12l2.2 2.2L15.4 10',
  users: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.5 20a7.5 7.5 0 0 1 15 0',
  docs: 'M5 4h9.5L19 8.5V20H5zM14 4v5h5M8.5 13h7M8.5 16.5h5',
  search: 'M10.8 17.6a6.8 6.8 0 1 0 0-13.6 6.8 6.8 0 0 0 0 13.6M20 20l-4.4-4.4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M4.5 12.5l5 5 10-11',
  download: 'M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14',
  star: 'M12 3.6l2.6 5.3 5.8.8-4.2 4.1 1 5.8-5.2-2.7-5.2 2.7 1-5.8-4.2-4.1 5.8-.8z',
  out: 'M14 4h6v6M20 4l-9 9M18 14v6H4V6h6',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1',
  moon: 'M20 14.2A8 8 0 0 1 9.8 4 8 8 0 1 0 20 14.2z',
  auto: 'M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16',
  left: 'M14.5 6l-6 6 6 6',
  right: 'M9.5 6l6 6-6 6',
  upload: 'M12 16V5M7.5 9.5L12 5l4.5 4.5M5 20h14',
  warn: 'M12 4l9 16H3zM12 10v4.5M12 17.2h.01',
  refresh: 'M20 11a8 8 0 0 0-14.3-4L4 8.8M4 4.5v4.3h4.3M4 13a8 8 0 0 0 14.3 4l1.7-1.8M20 19.5v-4.3h-4.3',
  music: 'M9 18V6l11-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0M20 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0',
  video: 'M4 6h11v12H4zM15 10.5l5-3v9l-5-3',
  key: 'M14.5 9.5a4.5 4.5 0 1 1-4.2 2.9L3.5 19v2H7v-2h2v-2h1.6l1.2-1.2M15.5 8.5h.01',
};

export const Icon = ({ name, filled }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" fill=${filled ? 'currentColor' : 'none'}
    stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"><path d=${ICONS[name]} /></svg>`;

let ids = 0;
export function useIdentity(kind) {
  const id = useRef(null);
  id.current ??= `${kind}-${(ids += 1)}`;
  return id.current;
}

// A page: its name, what it is for, what can be done, what is there.
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

export const Back = ({ href, children }) => html`<a class="back" href=${href}><${Icon} name="left" />${children}</a>`;

// ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export function Time({ at, children }) {
  if (!at) return null;
  return html`<time datetime=${at} title=${exact(at)}>${children ?? ago(at)}</time>`;
}

export const Id = ({ children, label }) => html`
  <span class="id"><code>${children}</code><${Copy} text=${String(children)} label=${label ?? 'Copy the id'} /></span>`;

export function Copy({ text, label = 'Copy', shown }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1600);
  };
  return html`<button type="button" class=${shown ? 'button quiet small' : 'copy'} onClick=${copy} aria-label=${label} title=${label}>
    <${Icon} name=${done ? 'check' : 'copy'} />${shown && html`<span>${done ? 'Copied' : shown}</span>`}
    <span class="unseen" role="status">${done ? 'Copied' : ''}</span>
  </button>`;
}

export function Code({ text, label }) {
  return html`<div class="code"><pre tabindex="0" aria-label=${label}><code>${text}</code></pre><${Copy} text=${text} label=${`Copy: ${label}`} />
    </div>`;
}

export function Out({ href, children }) {
  const address = webAddress(href);
  if (!address) return html`<span class="plain">${children ?? href}</span>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${children ?? address.replace(/^https?:\/\//, '').replace(/\/$/, '')}
    <${Icon} name="out" /></a>`;
}

export function Monogram({ id, name, large }) {
  const { letters, tone } = monogram(id, name);
  return html`<span class="monogram tone-${tone} ${large ? 'large' : ''}" aria-hidden="true">${letters}</span>`;
}

const TONES = {
  good: ['active', 'completed', 'success', 'delivered', 'closed', 'ok', 'approved', 'live'],
  busy: ['created', 'in_progress', 'processing', 'queueing', 'pending', 'half_open', 'in progress', 'changed'],
  bad: ['failed', 'banned', 'dead', 'open', 'full', 'read_only', 'cancelled', 'deleted'],
  warn: ['flagged', 'stopped', 'deprecated', 'lost', 'held'],
};

// A state, by word and colour.
export function State({ of, children }) {
  const word = words(of);
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

// Pairs of names and values; those without a value are left out.
export function Facts({ of, name }) {
  const rows = of.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  return html`<dl class="facts ${name ?? ''}">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// ── Conditions ───────────────────────────────────────────────────────────────────────────────────────────────────────

export function Empty({ icon, title, children, action }) {
  return html`<div class="empty"><${Icon} name=${icon} /><h2>${title}</h2><p>${children}</p>${action}</div>`;
}

export function Trouble({ problem, again }) {
  if (!problem) return null;
  const gone = problem.status === 404;
  return html`<div class="trouble" role="alert">
    <${Icon} name="warn" />
    <div>
      <strong>${gone ? 'Not found' : problem.title}</strong>
      <p>${problem.message}</p>
      ${problem.errors?.length > 1 && html`<ul>${problem.errors.map((fault) => html`<li><code>${fault.pointer}</code> ${fault.reason}</li>`)}</ul>`}
      ${problem.retryAfter && html`<p class="muted">Try again in ${problem.retryAfter} s.</p>`}
      ${problem.request && html`<p class="muted small">Request <code>${problem.request}</code></p>`}
    </div>
    ${again && html`<button type="button" class="button quiet small" onClick=${again}>Try again</button>`}
  </div>`;
}

export const Skeleton = ({ lines = 4, kind = 'rows' }) => html`
  <div class="skeleton ${kind}" aria-busy="true"><span class="unseen" role="status">Loading</span>
    ${Array.from({ length: lines }, (_, at) => html`<div key=${at} class="bone"></div>`)}</div>`;

// What there is, or its bones, or why not.
export function Loaded({ from, bones, children }) {
  if (from.data !== undefined) {
    return html`${from.error && html`<${Trouble} problem=${from.error} again=${from.reload} />`}${children(from.data)}`;
  }
  if (from.error) return html`<${Trouble} problem=${from.error} again=${from.reload} />`;
  return bones ?? html`<${Skeleton} />`;
}

// The same for a whole page, which has its name and its way back in every case.
export function LoadedPage({ from, title, before, lines = 6, children }) {
  if (from.data !== undefined) return html`<${Loaded} from=${from}>${children}</${Loaded}>`;
  const inside = from.error ? html`<${Trouble} problem=${from.error} again=${from.reload} />` : html`<${Skeleton} lines=${lines} />`;
  return html`<${Page} title=${title} before=${before}>${inside}</${Page}>`;
}

export function Progress({ value, label }) {
  const percent = Math.round(value * 100);
  return html`<div class="progress" role="progressbar" aria-valuenow=${percent} aria-valuemin="0" aria-valuemax="100" aria-label=${label}>
    <div style=${{ width: `${percent}%` }}></div></div>`;
}

// ── Going on ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export function Tabs({ tabs, current, address }) {
  return html`<nav class="tabs" aria-label="Parts of this page">${tabs.map(([key, name, count]) => html`
    <a key=${key} href=${address(key)} aria-current=${key === current ? 'page' : undefined}>
      ${name}${count !== undefined && html`<span class="count">${count}</span>`}</a>`)}</nav>`;
}

export function Pager({ page, pages, address }) {
  if (pages <= 1) return null;
  const around = [1, page - 1, page, page + 1, pages].filter((at) => at >= 1 && at <= pages);
  const shown = [...new Set(around)].sort((a, b) => a - b);
  const step = (at, icon, name) => at < 1 || at > pages
    ? html`<span class="step off" aria-hidden="true"><${Icon} name=${icon} /></span>`
    : html`<a class="step" href=${address(at)} aria-label=${name}><${Icon} name=${icon} /></a>`;
  return html`<nav class="pager" aria-label="Pages">
    ${step(page - 1, 'left', 'Previous page')}
    ${shown.map((at, index) => html`${index > 0 && at - shown[index - 1] > 1 && html`<span class="gap">…</span>`}
      <a key=${at} class="number" href=${address(at)} aria-current=${at === page ? 'page' : undefined} aria-label=${`Page ${at}`}>${at}</a>`)}
    ${step(page + 1, 'right', 'Next page')}
  </nav>`;
}

export const NodeLink = ({ id, children }) => html`<a href=${to('nodes', id)}>${children ?? id}</a>`;

// ── Told in passing ──────────────────────────────────────────────────────────────────────────────────────────────────

const told = store([]);

export function tell(text) {
  const note = { text, key: Symbol('note') };
  told.set([...told.get(), note]);
  setTimeout(() => told.set(told.get().filter((other) => other !== note)), 5000);
}

export function Notes() {
  return html`<div class="notes" role="status" aria-live="polite">${useStore(told).map((note) => html`<p key=${note.key}><${Icon} name="check" />
    ${note.text}</p>`)}</div>`;
}

// ── Asking back ──────────────────────────────────────────────────────────────────────────────────────────────────────

// A dialog that is open as long as it is drawn.
export function Dialog({ title, onClose, children }) {
  const place = useRef(null);
  const id = useIdentity('dialog');
  useEffect(() => { if (!place.current.open) place.current.showModal(); }, []);
  const outside = (event) => { if (event.target === place.current) onClose(); };
  return html`<dialog ref=${place} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }} onMouseDown=${outside}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><button type="button" class="copy" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
        </header>
      ${children}
    </div>
  </dialog>`;
}
