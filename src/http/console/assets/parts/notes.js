// Toast notifications.
import { html } from '../core/dom.js';
import { store, useStore } from '../core/store.js';
import { Icon } from './icon.js';

const SHOWN_MS = 5000;
const toasts = store([]);

// `tone` is 'good' or 'warn'.
export function notify(text, tone = 'good') {
  const note = { text, tone, key: Symbol('note') };
  toasts.set([...toasts.get(), note]);
  setTimeout(() => toasts.set(toasts.get().filter((shown) => shown !== note)), SHOWN_MS);
}

export function Toasts() {
  return html`<div class="notes" role="status" aria-live="polite">${useStore(toasts).map(({ text, tone, key }) => html`<p key=${key} class=${tone}>
    <${Icon} name=${tone === 'warn' ? 'warn' : 'check'} />${text}</p>`)}</div>`;
}
