// Studio: every job of the OpenAPI document as a form with its result.
import { html } from '../core/dom.js';
import { useLoad } from '../core/load.js';
import { jobs, openapi } from '../core/openapi.js';
import { go, to } from '../core/router.js';
import { Empty, Icon, LoadedPage, Page } from '../parts/basic.js';
import { JobForm } from './job.js';

const ICONS = { images: 'studio', videos: 'video', video: 'video', music: 'music' };

// Last opened job.
let last;

export function StudioPage({ parts: [id], user }) {
  const document = useLoad(openapi, []);
  return html`<${LoadedPage} from=${document} title="Studio" lines=${8}>${(document) => {
    const all = jobs(document);
    const job = all.find((job) => job.operationId === (id ?? last)) ?? all[0];
    last = job?.operationId;
    if (!job) return html`<${Page} title="Studio">
      <${Empty} icon="studio" title="No jobs">The OpenAPI document has no jobs.</${Empty}></${Page}>`;
    return html`<${Page} name="studio" title="Studio" lead="Generate images, videos and music.">
      <${Jobs} jobs=${all} current=${job} />
      <${JobForm} key=${job.operationId} document=${document} job=${job} user=${user} />
    </${Page}>`;
  }}</${LoadedPage}>`;
}

function Jobs({ jobs, current }) {
  const groups = Map.groupBy(jobs, (job) => job.tags?.[0] ?? 'Jobs');
  return html`<label class="order jobs-short"><span>Job</span><div class="select"><select value=${current.operationId} onChange=${(event) => go(to('studio', event.target.value))}>
    ${[...groups].map(([tag, jobs]) => html`<optgroup key=${tag} label=${tag}>${jobs.map((job) => html`<option key=${job.operationId} value=${job.operationId} selected=${job === current}>
      ${job.summary}</option>`)}</optgroup>`)}</select></div></label>
    <nav class="jobs" aria-label="Jobs">${[...groups].map(([tag, jobs]) => html`<div key=${tag} role="group" aria-label=${tag}><p>
    <${Icon} name=${ICONS[tag.toLowerCase()] ?? 'studio'} />${tag}</p>
    <ul>${jobs.map((job) => html`<li key=${job.operationId}>
      <a href=${to('studio', job.operationId)} aria-current=${job === current ? 'page' : undefined}>${job.summary}</a></li>`)}</ul></div>`)}</nav>`;
}
