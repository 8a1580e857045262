// Fields and buttons of the form of an API operation, loaded when a form opens. `original` is the resource to edit, if any.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { call } from '../core/api.js';
import { newIdempotencyKey } from '../core/identity.js';
import { useMutation } from '../core/load.js';
import { applyChange, body, changedBetween, changes, valuesOf } from '../core/schema.js';
import { focusFirst } from './dialog.js';
import { Fields } from './fields.js';
import { FormTrouble } from './form.js';
import { encodePicture } from './picture.js';

export function OperationFields({ document, operation, schema, original, skip, path, query, submit, onDone, onCancel }) {
  const initialValues = valuesOf(document, schema, original);
  const [values, setValues] = useState(initialValues);
  const work = useMutation();
  const form = useRef(null);
  const key = useRef(null);
  useEffect(() => {
    const dialog = form.current.closest('dialog');
    if (dialog) focusFirst(dialog);
  }, []);
  useEffect(() => { key.current = null; }, [path]);
  const fill = (change) => {
    key.current = null;
    setValues((before) => {
      const after = applyChange(change, before);
      work.drop(changedBetween(before, after));
      return after;
    });
  };
  const toBody = (values) => body(document, schema, values, encodePicture, skip);
  const send = async (event) => {
    event.preventDefault();
    key.current ??= newIdempotencyKey();
    const options = { body: original ? changes(toBody(initialValues), toBody(values)) : toBody(values), query, headers: { 'Idempotency-Key': key.current } };
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
