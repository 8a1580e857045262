// Text with a little markup (paragraphs, lists, headings, `code`, **bold**, links), made into elements and never into markup.
import { html } from '../core/dom.js';
import { Out } from './basic.js';

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\s]+\))/;
const ITEM = /^\s*(?:[-*•]|\d+\.)\s+/;

export function inline(text) {
  return text.split(INLINE).map((part) => {
    if (/^`.+`$/.test(part)) return html`<code>${part.slice(1, -1)}</code>`;
    if (/^\*\*.+\*\*$/.test(part)) return html`<strong>${part.slice(2, -2)}</strong>`;
    const link = /^\[(.+)\]\((\S+)\)$/.exec(part);
    return link ? html`<${Out} href=${link[2]}>${link[1]}</${Out}>` : part;
  });
}

// Runs of lines: items of a list, or a paragraph.
function runs(text) {
  const found = [];
  for (const line of text.replaceAll('\r\n', '\n').split('\n')) {
    const last = found.at(-1);
    if (!line.trim()) found.push(null);
    else if (ITEM.test(line)) {
      if (last?.items) last.items.push(line.replace(ITEM, ''));
      else found.push({ items: [line.replace(ITEM, '')] });
    } else if (last?.items && /^\s{2,}/.test(line)) last.items.push(`${last.items.pop()} ${line.trim()}`);
    else if (/^#{1,6}\s/.test(line)) found.push({ heading: line.replace(/^#+\s+/, '') }, null);
    else if (last?.lines) last.lines.push(line);
    else found.push({ lines: [line] });
  }
  return found.filter(Boolean);
}

export function Prose({ text, name }) {
  if (!text) return null;
  return html`<div class="prose ${name ?? ''}">${runs(text).map(({ items, heading, lines }) => {
    if (items) return html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>`;
    if (heading) return html`<p><strong>${inline(heading)}</strong></p>`;
    return html`<p>${inline(lines.join('\n'))}</p>`;
  })}</div>`;
}
