// Toast notifications.
import { html } from '../core/dom.js';
import { store, useStore } from '../core/store.js';
import { Icon } from './icon.js';

const SHOWN_MS = 5000;
const told = store([]);

// `tone` is 'good' or 'warn'.
export function tell(text, tone = 'good') {
  const note = { text, tone, key: Symbol('note') };
  told.set([...told.get(), note]);
  setTimeout(() => told.set(told.get().filter((other) => other !== note)), SHOWN_MS);
}

export function Notes() {
  return html`<div class="notes" role="status" aria-live="polite">${useStore(told).map(({ text, tone, key }) => html`<p key=${key} class=${tone}>
    <${Icon} name=${tone === 'warn' ? 'warn' : 'check'} />${text}</p>`)}</div>`;
}
