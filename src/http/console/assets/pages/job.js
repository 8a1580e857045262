// Page of one studio job: form, price, result, code, and earlier results.
import { html, useEffect, useMemo, useRef, useState } from '../core/dom.js';
import { root } from '../core/api.js';
import { infoOf } from '../core/job_info.js';
import { kindOfJob } from '../core/jobs.js';
import { jobState, setValues, submit, reset, isStream } from '../core/job_state.js';
import { settingsOf, valuesOfSettings } from '../core/job_values.js';
import { allowsAnonymous, bodyOf } from '../core/openapi.js';
import { go, to, useTitle } from '../core/router.js';
import { useStore } from '../core/store.js';
import { BackLink, Copy, Icon, Page } from '../parts/basic.js';
import { FormTrouble } from '../parts/form.js';
import { Gallery } from '../parts/gallery.js';
import { JobFields } from '../parts/job_fields.js';
import { lazy } from '../parts/lazy.js';
import { askToSignIn } from '../parts/login.js';
import { encodePicture } from '../parts/picture.js';
import { BudgetExceeded, Price, useEstimate } from '../parts/price.js';

const Markdown = lazy(() => import('../parts/markdown.js'), 'Markdown');
// Icons of the media, by the path of a job.
const iconOf = ({ path }) => (path.includes('/videovendor/') ? 'video' : path.includes('/musicvendor/') ? 'music' : 'studio');
// Loaded with the first result.
const JobResult = lazy(() => import('./run.js'), 'JobResult');
const RequestCode = lazy(() => import('../parts/code.js'), 'RequestCode');

// Collapsed content, which is rendered when it is opened for the first time.
function More({ name, children, ...others }) {
  const [isOpened, setIsOpened] = useState(false);
  return html`<details class="more" ...${others} onToggle=${() => setIsOpened(true)}><summary>${name}</summary>${isOpened && children}</details>`;
}

export function JobPage({ document, job, jobs, query, user }) {
  useTitle(job.summary);
  const { schema } = useMemo(() => bodyOf(document, job), [job]);
  const jobStore = jobState(job);
  const { values, busy, problem, run } = useStore(jobStore);
  const estimate = useEstimate(document, job, values, user);
  const result = useScrollIntoView(run);
  useSettings(document, schema, jobStore, query);
  const mayRun = Boolean(user) || allowsAnonymous(job);
  const send = (event) => {
    event.preventDefault();
    return mayRun ? submit(jobStore, document, job, encodePicture) : askToSignIn();
  };
  const link = new URL(to('studio', job.operationId, settingsOf(document, schema, values)), root).href;
  return html`<${Page} name="studio" title=${job.summary} lead=${infoOf(job).about} before=${html`<${BackLink} href=${to('studio')}>Studio</${BackLink}>`}
      actions=${html`<${JobSwitch} jobs=${jobs} current=${job} />`}>
    <div class="bench">
      <section class="panel" aria-label="Job">
        <form class="form" onSubmit=${send} novalidate aria-label=${job.summary}>
          ${problem?.code === 'budget_exceeded' ? html`<${BudgetExceeded} problem=${problem} />` : html`<${FormTrouble} problem=${problem} />`}
          <${JobFields} ...${{ document, job, schema, values, problem, user, report: run?.report }} onChange=${(change) => setValues(jobStore, change)} />
          <footer class="sticky"><button class="button" disabled=${busy}>
            ${busy ? (isStream(job) ? 'Generating' : 'Sending') : mayRun ? 'Generate' : 'Sign in and generate'}</button>
            <button type="button" class="button quiet" onClick=${() => reset(jobStore)}>Reset</button>
            <${Price} estimate=${estimate} /></footer>
        </form>
      </section>
      <section ref=${result} class="panel result-panel" aria-label="Result">
        <h2>Result</h2>
        ${!run && !busy ? html`<${Idle} job=${job} beside=${Boolean(schema.properties.image)} />`
          : html`<${JobResult} key=${run?.number} run=${run} onReport=${(report) => jobStore.set({ ...jobStore.get(), run: { ...jobStore.get().run, report } })} />`}
        <${More} class="more curl" name="As code"><${RequestCode} ...${{ document, job, values }} /></${More}>
        <div class="row"><${Copy} text=${link} label="Copy a link to these settings" shown="Share settings" /><span class="muted small">The link has all settings, but no pictures.</span></div>
        <${More} name="Description"><${Markdown} text=${job.description?.split('\n\nAllowed callers:')[0]} name="muted" />
          <p><a href=${to('docs', job.operationId)}>API reference</a></p></${More}>
      </section>
    </div>
    <${Gallery} user=${user} kind=${kindOfJob(document, job)} fresh=${run?.over ?? run?.task} title="Earlier results" />
  </${Page}>`;
}

const Idle = ({ job, beside: showsInput }) => html`<div class="idle"><${Icon} name=${iconOf(job)} /><p>Results appear here${showsInput && ', beside your picture'}.</p></div>`;

function JobSwitch({ jobs, current }) {
  const groups = Map.groupBy(jobs, (job) => job.tags?.[0] ?? 'Jobs');
  return html`<label class="order job-switch"><span>Job</span><div class="select"><select value=${current.operationId} onChange=${(event) => go(to('studio', event.target.value))}>
    ${[...groups].map(([tag, jobs]) => html`<optgroup key=${tag} label=${tag}>${jobs.map((job) => html`<option key=${job.operationId} value=${job.operationId} selected=${job === current}>
      ${job.summary}</option>`)}</optgroup>`)}</select></div></label>`;
}

// Fills the form from the settings in the URL, once for each URL.
function useSettings(document, schema, jobStore, query) {
  const text = query.toString();
  useEffect(() => {
    if (text) setValues(jobStore, (before) => ({ ...before, ...valuesOfSettings(document, schema, query) }));
  }, [text]);
}

// Scrolls to the result if it is below the form.
function useScrollIntoView(run) {
  const result = useRef(null);
  const lastNumber = useRef(run?.number);
  useEffect(() => {
    if (run && run.number !== lastNumber.current && result.current.getBoundingClientRect().top > innerHeight / 2) result.current.scrollIntoView({ block: 'start' });
    lastNumber.current = run?.number;
  }, [run?.number]);
  return result;
}
