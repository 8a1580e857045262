// Studio: an overview with a card for every job and the results so far, or the page of one job.
import { html } from '../core/dom.js';
import { root } from '../core/api.js';
import { infoOf } from '../core/job_info.js';
import { useLoad } from '../core/load.js';
import { jobDocument, jobList, jobs, operations } from '../core/openapi.js';
import { to, useTitle } from '../core/router.js';
import { Empty, Icon, LoadedPage, Page } from '../parts/basic.js';
import { Gallery } from '../parts/gallery.js';
import { lazy } from '../parts/lazy.js';

// Loaded separately, because the overview does not need the code of the forms.
const JobPage = lazy(() => import('./job.js'), 'JobPage', (content) => html`<${Page} name="studio" title=" ">${content}</${Page}>`);

export const TAG_ICONS = { images: 'studio', videos: 'video', music: 'music' };

export function StudioPage({ parts: [id], query, user }) {
  // The overview needs only the list of jobs, not the schemas of their forms.
  const document = useLoad(id ? jobDocument : jobList, [Boolean(id)]);
  // The other document stays visible until the new one is loaded.
  const isNeeded = (document) => Boolean(id) === Boolean(document?.components);
  return html`<${LoadedPage} from=${isNeeded(document.data) ? document : { ...document, data: undefined }} title="Studio" lines=${8}>${(document) => {
    const all = id ? jobs(document) : operations(document);
    const job = all.find((job) => job.operationId === id);
    if (job) return html`<${JobPage} key=${job.operationId} ...${{ document, job, query, user, jobs: all }} />`;
    if (id || all.length === 0) return html`<${Page} title="Studio">
      <${Empty} icon="studio" title=${id ? 'Unknown job' : 'No jobs'} action=${html`<a class="button" href=${to('studio')}>All jobs</a>`}>
      ${id ? 'The service has no job with this name.' : 'The service offers no jobs.'}</${Empty}></${Page}>`;
    return html`<${Overview} ...${{ jobs: all, user }} />`;
  }}</${LoadedPage}>`;
}

function Overview({ jobs, user }) {
  useTitle('Studio');
  const groups = Map.groupBy(jobs, (job) => job.tags?.[0] ?? 'Jobs');
  return html`<${Page} name="studio" title="Studio" lead="Generate images, videos and music.">
    ${[...groups].map(([tag, jobs]) => html`<section key=${tag} aria-label=${tag}><h2 class="row"><${Icon} name=${TAG_ICONS[tag.toLowerCase()] ?? 'studio'} />${tag}</h2>
      <ul class="job-cards">${jobs.map((job) => html`<${JobCard} key=${job.operationId} job=${job} />`)}</ul></section>`)}
    <${Gallery} user=${user} title="Your results" />
  </${Page}>`;
}

export const jobPicture = (job) => (infoOf(job).about ? new URL(`console/jobs/${job.operationId}.webp`, root).href : null);

function JobCard({ job }) {
  const picture = jobPicture(job);
  return html`<li class="job-card">
    ${picture ? html`<img src=${picture} alt="" width="240" height="150" loading="lazy" />` : html`<span class="no-cover"><${Icon} name="studio" /></span>`}
    <div><h3><a href=${to('studio', job.operationId)}>${job.summary}</a></h3><p class="muted small">${infoOf(job).about}</p></div></li>`;
}
