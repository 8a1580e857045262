// Form of an API operation, with its errors.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { call } from '../core/api.js';
import { count, words } from '../core/format.js';
import { newKey } from '../core/identity.js';
import { useLoad, useWork } from '../core/load.js';
import { bodyOf, openapi, operations } from '../core/openapi.js';
import { become, body, changes, valuesOf } from '../core/schema.js';
import { Icon, Loaded, Trouble } from './basic.js';
import { focusFirst } from './dialog.js';
import { Fields } from './fields.js';
import { textOf } from './picture.js';

// Error summary above a form.
export function FormTrouble({ problem }) {
  const place = useRef(null);
  useEffect(() => { if (problem) place.current?.focus(); }, [problem]);
  if (!problem) return null;
  const number = problem.errors?.length ?? 0;
  return html`<div ref=${place} tabindex="-1">${number
    ? html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${count(number, 'invalid field', 'invalid fields')}</strong>
        <ul>${problem.errors.map((fault) => html`<li><strong>${fieldOf(fault.pointer)}</strong> ${fault.reason}</li>`)}</ul></div></div>`
    : html`<${Trouble} problem=${problem} />`}</div>`;
}

// `Label of `/image_settings/0/key_image`.
const fieldOf = (pointer) => pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  .map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : words(part))).join(', ') || 'The form';

// Form of an operation by id. With `start`, only changed fields are sent.
export function OperationForm({ id, start, skip = [], ...others }) {
  const document = useLoad(openapi, []);
  // Snapshot at opening: the page behind may reload meanwhile.
  const [before] = useState(start);
  return html`<${Loaded} from=${document}>${(document) => {
    const operation = operations(document).find((operation) => operation.operationId === id);
    const { schema } = bodyOf(document, operation);
    return html`<${FilledIn} ...${{ document, operation, schema, before, ...others }} skip=${before ? ['id', ...skip] : skip} />`;
  }}</${Loaded}>`;
}

function FilledIn({ document, operation, schema, before, skip, path, query, submit, onDone, onCancel }) {
  const begun = valuesOf(document, schema, before);
  const [values, set] = useState(begun);
  const work = useWork();
  const form = useRef(null);
  const key = useRef(null);
  useEffect(() => {
    const dialog = form.current.closest('dialog');
    if (dialog) focusFirst(dialog);
  }, []);
  useEffect(() => { key.current = null; }, [path]);
  const fill = (change) => { key.current = null; set((before) => become(change, before)); };
  const written = (values) => body(document, schema, values, textOf, skip);
  const send = async (event) => {
    event.preventDefault();
    key.current ??= newKey();
    const options = { body: before ? changes(written(begun), written(values)) : written(values), query, headers: { 'Idempotency-Key': key.current } };
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
