// Actions of a result: run its task again, tweak its settings, send it to another job.
import { html, useRef, useState } from '../core/dom.js';
import { jobState, setValues, submit } from '../core/job_state.js';
import { valuesOfSettings } from '../core/job_values.js';
import { bodyOf } from '../core/openapi.js';
import { fillFrom, receiversOf, sendTo } from '../core/reuse.js';
import { go, to } from '../core/router.js';
import { Icon, notify } from './basic.js';
import { encodePicture, readPicture } from './picture.js';

// `remembered` is what this browser remembers of an anonymous task, whose request the service does not return.
export function ReuseActions({ document, task, job, remembered, user }) {
  const [isBusy, setIsBusy] = useState(false);
  const menu = useRef(null);
  const receivers = receiversOf(document, task, user);
  const whileBusy = (work) => async () => {
    setIsBusy(true);
    try { await work(); } catch (failure) { notify(failure.message, 'warn'); }
    setIsBusy(false);
  };
  const fill = async () => {
    if (task.request) await fillFrom(document, job, task, readPicture);
    else setValues(jobState(job), valuesOfSettings(document, bodyOf(document, job).schema, new URLSearchParams(remembered.settings)));
  };
  const tweak = whileBusy(async () => { await fill(); go(to('studio', job.operationId)); });
  const runAgain = whileBusy(async () => {
    await fill();
    go(to('studio', job.operationId));
    submit(jobState(job), document, job, encodePicture);
  });
  const send = (receiver) => whileBusy(async () => { await sendTo(document, receiver, task, readPicture); go(to('studio', receiver.operationId)); });
  const close = (event) => { if (event.key === 'Escape' && menu.current.open) { menu.current.open = false; menu.current.querySelector('summary').focus(); } };
  const leave = (event) => { if (!menu.current?.contains(event.relatedTarget)) menu.current.open = false; };
  return html`<div class="shot-actions">
    <button type="button" class="button quiet small" disabled=${isBusy} onClick=${runAgain}><${Icon} name="refresh" />Run again</button>
    <button type="button" class="button quiet small" disabled=${isBusy} onClick=${tweak}>Tweak</button>
    ${receivers.length > 0 && html`<details class="send-to" ref=${menu} onKeyDown=${close} onFocusOut=${leave}><summary class="button quiet small">Send to</summary>
      <ul>${receivers.map((receiver) => html`<li key=${receiver.operationId}><button type="button" disabled=${isBusy} onClick=${send(receiver)}>${receiver.summary}</button></li>`)}</ul></details>`}</div>`;
}
