// Button that loads more entries, and the section around the pages of a list.
import { html, useEffect, useRef } from '../core/dom.js';
import { ErrorMessage } from './basic.js';

// Button that loads the next page of a `usePagedList` list. Stays in place and keeps the focus while it loads.
export function LoadMore({ of, children }) {
  if (of.next === undefined) return null;
  return html`<${ErrorMessage} problem=${of.problem} /><p class="more-row">
    <button type="button" class="button quiet" aria-disabled=${of.busy ? 'true' : undefined} onClick=${of.loadMore}>${of.busy ? 'Please wait' : children}</button></p>`;
}

// Moves the focus to an element, and scrolls to it if it is not in the upper half of the window.
export function focusSection(element) {
  element.focus({ preventScroll: true });
  const { top } = element.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) element.scrollIntoView({ block: 'start' });
}

// Paged list that starts at its top after a page change.
export function PagedSection({ page, label, children }) {
  const section = useRef(null);
  const previousPage = useRef(page);
  useEffect(() => {
    if (previousPage.current === page) return;
    previousPage.current = page;
    // A change of a filter also leads to the first page, but the focus stays in the filter.
    const focused = document.activeElement;
    if (focused && focused !== document.body && !focused.closest('.pager')) return;
    focusSection(section.current);
  }, [page]);
  return html`<section ref=${section} class="paged" tabindex="-1" aria-label=${label}>${children}</section>`;
}
