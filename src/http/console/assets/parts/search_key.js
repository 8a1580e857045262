// Keys that lead to the search of nodes from every page: `/`, and Ctrl-K or Command-K.
import { useEffect } from '../core/dom.js';
import { go, route, to } from '../core/router.js';

const FIELDS = 'input, textarea, select, [contenteditable]';
let input = null;
let isWanted = false;

function isSearchKey(event) {
  if (event.key.toLowerCase() === 'k') return (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  // In a field, the slash is a character.
  return event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest?.(FIELDS);
}

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || !isSearchKey(event) || document.querySelector('dialog[open]')) return;
  event.preventDefault();
  if (input) { input.select(); return; }
  isWanted = true;
  go(to('nodes'));
});

// If the user goes to another page before the search appears, a later visit must not move the focus to it.
route.follow(({ parts }) => { if (parts[0] !== 'nodes') isWanted = false; });

// Lets the search keys focus the field of a ref while its component is shown.
export function useSearchKey(field) {
  useEffect(() => {
    input = field.current;
    if (isWanted) {
      isWanted = false;
      // A new page first moves the focus to its content.
      setTimeout(() => input?.select());
    }
    return () => { input = null; };
  }, []);
}
