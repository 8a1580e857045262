// Modal dialog that traps the focus, and returns it to the opener when it is closed.
import { html, useLayoutEffect, useRef } from '../core/dom.js';
import { useElementId } from '../core/identity.js';
import { Icon } from './icon.js';

const FIELDS = ':is(input, select, textarea):not(:disabled)';

// Focuses the first field unless a field already has the focus.
export function focusFirst(dialog) {
  if (dialog.contains(document.activeElement) && document.activeElement.matches(FIELDS)) return;
  (dialog.querySelector(FIELDS) ?? dialog.querySelector('h2')).focus();
}

// Without `onClose`, only its content can close the dialog.
export function Dialog({ title, onClose, children }) {
  const dialogRef = useRef(null);
  const isEdited = useRef(false);
  const id = useElementId('dialog');
  useLayoutEffect(() => {
    const dialog = dialogRef.current;
    const opener = document.activeElement;
    dialog.showModal();
    if (!dialog.querySelector('[autofocus]')) focusFirst(dialog);
    return () => { dialog.close(); restoreFocus(opener); };
  }, []);
  // Cancel events of file inputs bubble up; ignore them.
  const cancel = (event) => { if (event.target === dialogRef.current) { event.preventDefault(); onClose?.(); } };
  // Browsers close a dialog on the second Escape even if the first was prevented.
  const closed = (event) => {
    if (event.target !== dialogRef.current || !dialogRef.current.isConnected || dialogRef.current.open) return;
    if (onClose) onClose();
    else dialogRef.current.showModal();
  };
  // A click outside closes the dialog only while the form is untouched.
  const onPress = (event) => { if (!isEdited.current && isOutside(event, dialogRef.current)) onClose?.(); };
  return html`<dialog ref=${dialogRef} aria-labelledby=${id} onCancel=${cancel} onClose=${closed} onMouseDown=${onPress} onInput=${() => { isEdited.current = true; }} onChange=${() => { isEdited.current = true; }}>
    <div class="dialog">
      <header><h2 id=${id} tabindex="-1">${title}</h2>
        ${onClose && html`<button type="button" class="copy" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>`}</header>
      ${children}
    </div>
  </dialog>`;
}

// Time after closing during which a reload of the list behind the dialog may remove the opener.
const FOCUS_WATCH_MS = 5000;

// Moves the focus to the page if the element that opened the dialog disappears, such as the row of a deleted token.
function restoreFocus(opener) {
  const observer = new MutationObserver(check);
  function check() {
    if (opener.isConnected) return;
    observer.disconnect();
    if (document.activeElement === document.body) document.getElementById('main')?.focus({ preventScroll: true });
  }
  observer.observe(document.body, { childList: true, subtree: true });
  setTimeout(() => observer.disconnect(), FOCUS_WATCH_MS);
  check();
}

function isOutside({ target, clientX, clientY }, dialog) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return target === dialog && (clientX < left || clientX > right || clientY < top || clientY > bottom);
}
