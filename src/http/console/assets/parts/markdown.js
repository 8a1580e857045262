// Markdown of READMEs, descriptions and changelogs. Tokens of the parser become elements; HTML is shown as text, pictures
// become links, and links lead only to http(s).
import { html } from '../core/dom.js';
import { Lexer } from '../vendor/marked.js';
import { Code, ExternalLink } from './basic.js';

// Text nested deeper is shown as it was written; thousands of levels would exhaust the stack.
const DEPTH_MAX = 20;

const INLINE = {
  br: () => html`<br />`,
  codespan: ({ text }) => html`<code>${text}</code>`,
  del: ({ tokens }, depth) => html`<del>${inlines(tokens, depth)}</del>`,
  em: ({ tokens }, depth) => html`<em>${inlines(tokens, depth)}</em>`,
  escape: ({ text }) => text,
  image: ({ href, text, raw }) => html`<${ExternalLink} href=${href}>${text || raw}</${ExternalLink}>`,
  link: ({ href, tokens }, depth) => html`<${ExternalLink} href=${href}>${inlines(tokens, depth)}</${ExternalLink}>`,
  strong: ({ tokens }, depth) => html`<strong>${inlines(tokens, depth)}</strong>`,
  text: ({ text, tokens }, depth) => (tokens ? inlines(tokens, depth) : text),
};

const BLOCKS = {
  blockquote: ({ tokens }, depth) => html`<blockquote>${blocks(tokens, depth)}</blockquote>`,
  code: ({ text, lang }) => html`<${Code} text=${text} label=${lang || 'Code'} />`,
  // The page has its own headings.
  heading: ({ tokens, depth: level }, depth) => html`<p class=${level > 2 ? undefined : `heading level-${level}`}><strong>${inlines(tokens, depth)}</strong></p>`,
  hr: () => html`<hr />`,
  list: ({ ordered, start, items }, depth) => {
    const entries = items.map(({ tokens }) => html`<li>${blocks(tokens, depth)}</li>`);
    return ordered ? html`<ol start=${start}>${entries}</ol>` : html`<ul>${entries}</ul>`;
  },
  paragraph: ({ tokens }, depth) => html`<p>${inlines(tokens, depth)}</p>`,
  table: ({ header, rows }, depth) => {
    const head = header.map(({ tokens }) => html`<th scope="col">${inlines(tokens, depth)}</th>`);
    const cells = (row) => row.map(({ tokens }) => html`<td>${inlines(tokens, depth)}</td>`);
    return html`<div class="wide" tabindex="0" role="region" aria-label="Table"><table>
      <thead><tr>${head}</tr></thead><tbody>${rows.map((row) => html`<tr>${cells(row)}</tr>`)}</tbody></table></div>`;
  },
  // Content of a list item that is not a paragraph.
  text: ({ text, tokens }, depth) => (tokens ? inlines(tokens, depth) : text),
};

// Tokens without an element of their own, such as HTML and the boxes of task lists, are shown as they were written.
function inlines(tokens, depth) {
  return tokens.map((token) => (depth < DEPTH_MAX && INLINE[token.type]?.(token, depth + 1)) || token.raw);
}

function blocks(tokens, depth) {
  const visible = tokens.filter(({ type }) => type !== 'space' && type !== 'def');
  return visible.map((token) => (depth < DEPTH_MAX && BLOCKS[token.type]?.(token, depth + 1)) || html`<p>${token.raw.trim()}</p>`);
}

// Returns the elements, or the text itself if the parser cannot cope with its nesting.
function elements(text, parse, show) {
  let tokens;
  try {
    tokens = parse(text);
  } catch {
    return text;
  }
  return show(tokens, 0);
}

export const inline = (text) => elements(text, Lexer.lexInline, inlines);

export function Markdown({ text, name }) {
  if (!text) return null;
  return html`<div class="markdown ${name ?? ''}">${elements(text, Lexer.lex, blocks)}</div>`;
}
