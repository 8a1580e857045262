// One studio job: form, result and curl command.
import { html, useEffect, useMemo, useRef } from '../core/dom.js';
import { root } from '../core/api.js';
import { jobState, setValues, submit, reset, streams } from '../core/job_state.js';
import { curl, collectFiles } from '../core/curl.js';
import { bodyOf } from '../core/openapi.js';
import { to, useTitle } from '../core/router.js';
import { body } from '../core/schema.js';
import { useStore } from '../core/store.js';
import { Code, Icon } from '../parts/basic.js';
import { Fields } from '../parts/fields.js';
import { FormTrouble } from '../parts/form.js';
import { askToSignIn } from '../parts/login.js';
import { downloadFile, encodePicture } from '../parts/picture.js';
import { Markdown } from '../parts/markdown.js';
import { JobResult } from './run.js';

export function JobForm({ document, job, user }) {
  useTitle(job.summary);
  const { schema, mediaType } = useMemo(() => bodyOf(document, job), [job]);
  const bench = jobState(job);
  const { values, busy, problem, run } = useStore(bench);
  const result = useIntoView(run);
  const isForm = mediaType === 'multipart/form-data';
  const send = (event) => {
    event.preventDefault();
    if (!user) return askToSignIn();
    const json = body(document, schema, values, encodePicture);
    return submit(bench, job, isForm ? { form: formOf(json) } : { body: json }, pictureOf(values));
  };
  return html`<div class="bench">
    <section class="panel" aria-label="Job">
      <h2>${job.summary}</h2>
      <details class="more"><summary>Description</summary><${Markdown} text=${job.description?.split('\n\nAllowed callers:')[0]} name="muted" />
        <p><a href=${to('docs', job.operationId)}>API reference</a></p></details>
      <form class="form" onSubmit=${send} novalidate>
        <${FormTrouble} problem=${problem} />
        <${Fields} ...${{ document, schema, values, problem }} onChange=${(change) => setValues(bench, change)} />
        <footer class="sticky"><button class="button" disabled=${busy}>
          ${busy ? (streams(job) ? 'Generating' : 'Sending') : user ? 'Generate' : 'Sign in and generate'}</button>
          <button type="button" class="button quiet" onClick=${() => reset(bench)}>Reset</button></footer>
      </form>
    </section>
    <section ref=${result} class="panel result-panel" aria-label="Result">
      <h2>Result</h2>
      <${JobResult} key=${run?.number} run=${run} busy=${busy} beside=${Boolean(schema.properties.image)} />
      <details class="more curl"><summary>As curl command</summary><${Curl} ...${{ document, job, schema, values, isForm }} /></details>
    </section>
  </div>`;
}

// Scrolls to the result if it is below the form.
function useIntoView(run) {
  const place = useRef(null);
  const seen = useRef(run?.number);
  useEffect(() => {
    if (run && run.number !== seen.current && place.current.getBoundingClientRect().top > innerHeight / 2) place.current.scrollIntoView({ block: 'start' });
    seen.current = run?.number;
  }, [run?.number]);
  return place;
}

function formOf(json) {
  const form = new FormData();
  for (const [name, value] of Object.entries(json)) form.append(name, typeof value === 'object' ? JSON.stringify(value) : value);
  return form;
}

// First input picture, shown beside the result.
const pictureOf = (values) => [values.image, values.start_image, values.images?.[0]].find((picture) => picture?.file)?.file;

function Curl({ document, job, schema, values, isForm }) {
  const { all, of } = collectFiles();
  const json = body(document, schema, values, of);
  const line = curl(new URL(job.path.slice(1), root).href, isForm ? { form: json } : { json });
  return html`<${Code} label="curl command" text=${line} />
    ${all.size > 0 && html`<p class="row files"><span class="muted small">Files to save beside it:</span>
      ${[...all].map(([name, { file }]) => html`<button key=${name} type="button" class="button quiet small" onClick=${() => downloadFile(file, name)}>
        <${Icon} name="download" />${name}</button>`)}</p>`}`;
}
