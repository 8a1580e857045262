// Form of an API operation, with its errors.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { call } from '../core/api.js';
import { count, toWords } from '../core/format.js';
import { newIdempotencyKey } from '../core/identity.js';
import { useLoad, useMutation } from '../core/load.js';
import { bodyOf, openapi, operations } from '../core/openapi.js';
import { applyChange, body, changes, valuesOf } from '../core/schema.js';
import { Icon, Loaded, ErrorMessage } from './basic.js';
import { focusFirst } from './dialog.js';
import { Fields } from './fields.js';
import { encodePicture } from './picture.js';

// Error summary above a form.
export function FormTrouble({ problem }) {
  const place = useRef(null);
  useEffect(() => { if (problem) place.current?.focus(); }, [problem]);
  if (!problem) return null;
  const number = problem.errors?.length ?? 0;
  return html`<div ref=${place} tabindex="-1">${number
    ? html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${count(number, 'invalid field', 'invalid fields')}</strong>
        <ul>${problem.errors.map((fault) => html`<li><strong>${fieldLabel(fault.pointer)}</strong> ${fault.reason}</li>`)}</ul></div></div>`
    : html`<${ErrorMessage} problem=${problem} />`}</div>`;
}

// `Label of `/image_settings/0/key_image`.
const fieldLabel = (pointer) => pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  .map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : toWords(part))).join(', ') || 'The form';

// Form of an operation by id. With `start`, only changed fields are sent.
export function OperationForm({ id, start, skip = [], ...others }) {
  const document = useLoad(openapi, []);
  // Snapshot at opening: the page behind may reload meanwhile.
  const [before] = useState(start);
  return html`<${Loaded} from=${document}>${(document) => {
    const operation = operations(document).find((operation) => operation.operationId === id);
    const { schema } = bodyOf(document, operation);
    return html`<${OperationFields} ...${{ document, operation, schema, before, ...others }} skip=${before ? ['id', ...skip] : skip} />`;
  }}</${Loaded}>`;
}

function OperationFields({ document, operation, schema, before, skip, path, query, submit, onDone, onCancel }) {
  const initialValues = valuesOf(document, schema, before);
  const [values, set] = useState(initialValues);
  const work = useMutation();
  const form = useRef(null);
  const key = useRef(null);
  useEffect(() => {
    const dialog = form.current.closest('dialog');
    if (dialog) focusFirst(dialog);
  }, []);
  useEffect(() => { key.current = null; }, [path]);
  const fill = (change) => { key.current = null; set((before) => applyChange(change, before)); };
  const toBody = (values) => body(document, schema, values, encodePicture, skip);
  const send = async (event) => {
    event.preventDefault();
    key.current ??= newIdempotencyKey();
    const options = { body: before ? changes(toBody(initialValues), toBody(values)) : toBody(values), query, headers: { 'Idempotency-Key': key.current } };
    const { problem, done } = await work.run(() => call(operation.method.toUpperCase(), path, options));
    if (!problem || problem.isFinal) key.current = null;
    if (!problem) onDone(done);
  };
  return html`<form ref=${form} class="form" onSubmit=${send} novalidate>
    <${FormTrouble} problem=${work.problem} />
    <${Fields} ...${{ document, schema, skip, values }} onChange=${fill} problem=${work.problem} />
    <footer><button class="button" disabled=${work.busy}>${work.busy ? 'Please wait' : submit}</button>
      ${onCancel && html`<button type="button" class="button quiet" onClick=${onCancel}>Cancel</button>`}</footer>
  </form>`;
}
