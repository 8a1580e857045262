// Short texts of the OpenAPI document, in which only code is marked.
import { html } from '../core/dom.js';

export const inline = (text) => text.split('`').map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
