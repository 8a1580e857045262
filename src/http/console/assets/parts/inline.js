// Renders short texts of the OpenAPI document, whose only markup is code in backticks.
import { html } from '../core/dom.js';

export const inline = (text) => text.split('`').map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
