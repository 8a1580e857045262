// Dialog that confirms a change. `work(reason)` makes the change and `onDone` gets its result. If `reason` is given, it is
// the hint of a required field for the reason.
import { html, useState } from '../core/dom.js';
import { useMutation } from '../core/load.js';
import { Dialog } from './basic.js';
import { FormTrouble } from './form.js';

export function Confirm({ title, action, children, onClose, work, onDone, reason, keep = 'Cancel' }) {
  const [text, setText] = useState('');
  const mutation = useMutation();
  const send = async (event) => {
    event.preventDefault();
    const { problem, done: result } = await mutation.run(() => work(text.trim()));
    if (!problem) onDone(result);
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form class="form" onSubmit=${send}>
    <p>${children}</p>
    <${FormTrouble} problem=${mutation.problem} />
    ${reason && html`<div class="field"><label for="reason">Reason <span class="required">required</span></label>
      <textarea id="reason" rows="3" autofocus maxlength="1000" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
      <p class="hint">${reason}</p></div>`}
    <footer><button class="button danger" disabled=${mutation.busy || (reason && !text.trim())}>${mutation.busy ? 'Please wait' : action}</button>
      <button type="button" class="button quiet" autofocus=${!reason} onClick=${onClose}>${keep}</button></footer>
  </form></${Dialog}>`;
}
