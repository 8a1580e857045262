// A button that copies a text.
import { html, useRef, useState } from '../core/dom.js';
import { Icon } from './icon.js';
import { tell } from './notes.js';

const SHOWN_MS = 1600;

export function Copy({ text, label = 'Copy', shown }) {
  const [done, set] = useState(false);
  const button = useRef(null);
  const copy = async () => {
    if (!(await written(text)) && !copied(text, button.current)) {
      select(button.current.parentElement.querySelector('code'));
      return tell('It could not be copied: select the text, and copy it by hand', 'warn');
    }
    set(true);
    setTimeout(() => set(false), SHOWN_MS);
  };
  return html`<button type="button" ref=${button} class=${shown ? 'button quiet small' : 'copy'} onClick=${copy} aria-label=${label} title=${label}>
    <${Icon} name=${done ? 'check' : 'copy'} />${shown && html`<span>${done ? 'Copied' : shown}</span>`}
    <span class="unseen" role="status">${done ? 'Copied' : ''}</span>
  </button>`;
}

// Pages on plain http have no clipboard, and others may be refused it.
const written = (text) => Promise.resolve(navigator.clipboard?.writeText(text).then(() => true, () => false));

// The old way: from a field that is selected. It stands beside the button, as nothing outside an open dialog can be selected.
function copied(text, button) {
  const field = Object.assign(document.createElement('textarea'), { value: text, readOnly: true, className: 'unseen' });
  button.after(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  button.focus();
  return done;
}

function select(element) {
  if (element) getSelection().selectAllChildren(element);
}
