// Where a list goes on: at its end, or on another page.
import { html, useEffect, useRef } from '../core/dom.js';
import { Trouble } from './basic.js';

// The next part of a list (`useParts`). It stays where it is while it is fetched, and so does the keyboard.
export function More({ of, children }) {
  if (of.next === undefined) return null;
  return html`<${Trouble} problem=${of.problem} /><p class="more-row">
    <button type="button" class="button quiet" aria-disabled=${of.busy ? 'true' : undefined} onClick=${of.goOn}>${of.busy ? 'Please wait' : children}</button></p>`;
}

// Whoever reads by eye or by keyboard goes on from here.
export function beginAt(place) {
  place.focus({ preventScroll: true });
  const { top } = place.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) place.scrollIntoView({ block: 'start' });
}

// A list in pages: whoever goes to another one by its pager begins at its top.
export function Paged({ page, label, children }) {
  const place = useRef(null);
  const before = useRef(page);
  useEffect(() => {
    if (before.current === page) return;
    before.current = page;
    // A filter leads to the first page too, and is to keep the keyboard.
    const at = document.activeElement;
    if (at && at !== document.body && !at.closest('.pager')) return;
    beginAt(place.current);
  }, [page]);
  return html`<section ref=${place} class="paged" tabindex="-1" aria-label=${label}>${children}</section>`;
}
