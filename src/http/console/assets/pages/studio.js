// The studio: every job that the document of the interface has, as a form made from its schema, with its result beside it.
import { html, useEffect, useMemo, useRef, useState } from '../core/dom.js';
import { call, open, root } from '../core/api.js';
import { curl, fileOf } from '../core/curl.js';
import { words } from '../core/format.js';
import { useLoad, useWork } from '../core/load.js';
import { listen } from '../core/music.js';
import { bodyOf, jobs, openapi } from '../core/openapi.js';
import { go, to, useTitle } from '../core/router.js';
import { body } from '../core/schema.js';
import { Code, Empty, Icon, LoadedPage, Page, Skeleton, Trouble } from '../parts/basic.js';
import { CancelTask } from '../parts/cancel.js';
import { Fields } from '../parts/fields.js';
import { FormTrouble } from '../parts/form.js';
import { askToSignIn } from '../parts/login.js';
import { isOver, useTask } from '../parts/live.js';
import { Results } from '../parts/media.js';
import { Music } from '../parts/music.js';
import { textOf } from '../parts/picture.js';
import { Prose } from '../parts/prose.js';
import { TaskState } from './task.js';

const ICONS = { images: 'studio', videos: 'video', video: 'video', music: 'music' };
// What was filled in and what came of it, of each job, as long as the tab is open.
const kept = new Map();

export function StudioPage({ parts: [id], user }) {
  const document = useLoad(openapi, []);
  return html`<${LoadedPage} from=${document} title="Studio" lines=${8}>${(document) => {
    const all = jobs(document);
    const job = all.find((job) => job.operationId === id) ?? all[0];
    if (!job) return html`<${Page} title="Studio">
      <${Empty} icon="studio" title="There are no jobs">The document of the interface names none.</${Empty}></${Page}>`;
    return html`<${Page} name="studio" title="Studio" lead="Have something made: choose a job, give it what it needs, watch it come.">
      <${Jobs} jobs=${all} current=${job} />
      <${Job} key=${job.operationId} document=${document} job=${job} user=${user} />
    </${Page}>`;
  }}</${LoadedPage}>`;
}

function Jobs({ jobs, current }) {
  const groups = Map.groupBy(jobs, (job) => job.tags?.[0] ?? 'Jobs');
  // Whoever goes through the list by keyboard stays in it.
  const choose = (event) => {
    go(to('studio', event.target.value));
    setTimeout(() => document.querySelector('.jobs-short select')?.focus({ preventScroll: true }));
  };
  return html`<label class="order jobs-short"><span>Job</span><div class="select"><select value=${current.operationId} onChange=${choose}>
    ${[...groups].map(([tag, jobs]) => html`<optgroup key=${tag} label=${tag}>${jobs.map((job) => html`<option key=${job.operationId} value=${job.operationId} selected=${job === current}>
      ${job.summary}</option>`)}</optgroup>`)}</select></div></label>
    <nav class="jobs" aria-label="Jobs">${[...groups].map(([tag, jobs]) => html`<div key=${tag} role="group" aria-label=${tag}><p>
    <${Icon} name=${ICONS[tag.toLowerCase()] ?? 'studio'} />${tag}</p>
    <ul>${jobs.map((job) => html`<li key=${job.operationId}>
      <a href=${to('studio', job.operationId)} aria-current=${job === current ? 'page' : undefined}>${job.summary}</a></li>`)}</ul></div>`)}</nav>`;
}

function Job({ document, job, user }) {
  useTitle(job.summary);
  const { schema, mediaType } = useMemo(() => bodyOf(document, job), [job]);
  const before = kept.get(job.operationId) ?? { values: {}, run: null };
  const [values, setValues] = useState(before.values);
  const [run, setRun] = useState(before.run);
  const work = useWork();
  const result = useRef(null);
  useEffect(() => { kept.set(job.operationId, { values, run }); }, [values, run]);
  const isForm = mediaType === 'multipart/form-data';
  const streams = Object.values(job.responses).some((answer) => answer.content?.['application/x-ndjson']);
  const send = async (event) => {
    event.preventDefault();
    if (!user) return askToSignIn();
    const shown = pictureOf(values);
    let begun = false;
    const show = (run) => {
      // Where the result is below the form, nobody would see that it has begun.
      if (!begun && result.current?.getBoundingClientRect().top > innerHeight / 2) result.current.scrollIntoView({ block: 'start' });
      begun = true;
      setRun(run);
    };
    const json = body(document, schema, values, textOf);
    const sent = isForm ? { form: formOf(json) } : { body: json };
    const { done } = await work.run(() => (streams ? stream(job, sent, show) : submit(job, sent)));
    if (done) show({ ...done, shown });
  };
  return html`<div class="bench">
    <section class="panel" aria-label="Job">
      <h2>${job.summary}</h2>
      <details class="more"><summary>What the interface says</summary><${Prose} text=${job.description?.split('\n\nWho may:')[0]} name="muted" />
        <p><a href=${to('docs', job.operationId)}>Its reference</a></p></details>
      <form class="form" onSubmit=${send} novalidate>
        <${FormTrouble} problem=${work.problem} />
        <${Fields} ...${{ document, schema, values }} onChange=${setValues} problem=${work.problem} />
        <footer class="sticky"><button class="button" disabled=${work.busy}>
          ${work.busy ? (streams ? 'Listening' : 'Sending') : user ? 'Make it' : 'Sign in and make it'}</button>
          <button type="button" class="button quiet" onClick=${() => { setValues({}); work.clear(); }}>Start anew</button></footer>
      </form>
    </section>
    <section ref=${result} class="panel result-panel" aria-label="Result">
      <h2>Result</h2>
      ${run?.heard ? html`<${Heard} heard=${run.heard} over=${run.over} />` : run?.task ? html`<${Made} run=${run} />` : html`<${Idle} busy=${work.busy} />`}
      <details class="more curl"><summary>The same by curl</summary>
        <${Code} label="The request by curl" text=${curl(new URL(job.path.slice(1), root).href, requestOf(document, schema, values, isForm))} />
          </details>
    </section>
  </div>`;
}

const Idle = ({ busy }) => html`<div class="idle">${busy ? html`<${Skeleton} lines=${2} />` : html`<${Icon} name="studio" />
  <p>What you have made appears here, beside what you gave.</p>`}</div>`;

function requestOf(document, schema, values, isForm) {
  const json = body(document, schema, values, fileOf);
  return isForm ? { form: json } : { json };
}

function formOf(json) {
  const form = new FormData();
  for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
  return form;
}

// The first picture that was given, to be shown beside the result.
function pictureOf(values) {
  const given = [values.image, values.start_image, values.images?.[0]].find((picture) => picture?.shown);
  return given?.shown;
}

async function submit(job, sent) {
  const answer = await call('POST', job.path, sent);
  return { task: answer.data?.task_id ?? answer.task_id };
}

async function stream(job, sent, onChange) {
  const answer = await open('POST', job.path, sent);
  const heard = await listen(answer, (heard) => onChange({ heard, over: false }));
  return { heard, over: true };
}

function Made({ run }) {
  const { task, line, problem } = useTask(run.task);
  if (!task) return problem ? html`<${Trouble} problem=${problem} />` : html`<${Skeleton} lines=${2} />`;
  return html`<${TaskState} task=${task} line=${line} />
    ${isOver(task) ? html`<${Results} task=${task} before=${run.shown} />`
      : run.shown && html`<img class="shown waiting" src=${run.shown} alt="What was given" />`}
    <p class="row"><a href=${to('tasks', task.task_id)}>Everything of this task</a>
      <${CancelTask} task=${task} small /></p>`;
}

function Heard({ heard, over }) {
  return html`<div class="task-state"><div aria-live="polite" class="row"><span class="state ${heard.error ? 'bad' : over ? 'good' : 'busy'}">
    ${heard.error ? 'Failed' : over ? 'Completed' : 'Composing'}</span></div></div>
    ${heard.error && html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${words(heard.error.code)}</strong><p>
      ${heard.error.message}</p></div></div>`}
    <${Music} heard=${heard} over=${over} />
    ${heard.task && html`<p><a href=${to('tasks', heard.task)}>Everything of this task</a></p>`}`;
}
