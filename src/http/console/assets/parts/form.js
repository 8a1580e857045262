// Form of an API operation, with its errors.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { count, toWords } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { bodyOf, operationDocument, operations } from '../core/openapi.js';
import { Icon, Loaded, ErrorMessage } from './basic.js';

// Error summary above a form.
export function FormTrouble({ problem }) {
  const summary = useRef(null);
  // After a field was changed, the remaining errors leave the focus in that field.
  useEffect(() => { if (problem && !problem.isRest) summary.current?.focus(); }, [problem]);
  if (!problem) return null;
  const number = problem.errors?.length ?? 0;
  return html`<div ref=${summary} tabindex="-1">${number
    ? html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${count(number, 'invalid field', 'invalid fields')}</strong>
        <ul>${problem.errors.map((fault) => html`<li><strong>${fieldLabel(fault.pointer)}</strong> ${fault.reason}</li>`)}</ul></div></div>`
    : html`<${ErrorMessage} problem=${problem} />`}</div>`;
}

// Returns the label of a field: 'Image settings, 1, Key image' for `/image_settings/0/key_image`.
const fieldLabel = (pointer) => pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  .map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : toWords(part))).join(', ') || 'The form';

// Form of the operation `id`. With `start`, the resource to edit, only changed fields are sent. The document and the code
// of the fields are loaded when the form opens.
export function OperationForm({ id, start, skip = [], ...others }) {
  const needed = useLoad(async () => {
    const [document, { OperationFields }] = await Promise.all([operationDocument(id), import('./operation.js')]);
    return { document, OperationFields };
  }, []);
  // The resource as it was when the form opened: the page behind may load it again meanwhile.
  const [original] = useState(start);
  return html`<${Loaded} from=${needed}>${({ document, OperationFields }) => {
    const [operation] = operations(document);
    const { schema } = bodyOf(document, operation);
    return html`<${OperationFields} ...${{ document, operation, schema, original, ...others }} skip=${original ? ['id', ...skip] : skip} />`;
  }}</${Loaded}>`;
}
