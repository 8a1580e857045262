// Copy button.
import { html, useRef, useState } from '../core/dom.js';
import { Icon } from './icon.js';
import { notify } from './notes.js';

const SHOWN_MS = 1600;

export function Copy({ text, label = 'Copy', shown }) {
  const [done, setDone] = useState('');
  const button = useRef(null);
  const copy = async () => {
    const isDone = await writeToClipboard(text) || copyFromField(text, button.current);
    setDone(isDone ? 'Copied' : 'Not copied');
    setTimeout(() => setDone(''), SHOWN_MS);
    if (isDone) return;
    notify('Copying failed; the text is selected, copy it manually', 'warn');
    const source = button.current.closest('.id, .code, .form')?.querySelector('code');
    if (source) getSelection().selectAllChildren(source);
  };
  return html`<button type="button" ref=${button} class=${shown ? 'button quiet small' : 'copy'} onClick=${copy} aria-label=${label} title=${label}>
    <${Icon} name=${{ Copied: 'check', 'Not copied': 'warn' }[done] ?? 'copy'} />${shown && html`<span>${done || shown}</span>`}
    <span class="unseen" role="status">${done}</span>
  </button>`;
}

// Returns a promise of true if the text was copied. The clipboard API is missing on plain http, and can be denied.
const writeToClipboard = (text) => Promise.resolve(navigator.clipboard?.writeText(text).then(() => true, () => false));

// Fallback: selects a hidden field and copies it. The field must be inside an open dialog to be selectable.
function copyFromField(text, button) {
  const field = Object.assign(document.createElement('textarea'), { value: text, readOnly: true, className: 'unseen' });
  button.after(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  button.focus();
  return done;
}
