// Gallery of the caller's results, newest first.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { get, thumbnailOf, toLocalUrl } from '../core/api.js';
import { inputAddress, jobOfTask } from '../core/jobs.js';
import { mergePages, useInterval, useLoad, usePagedList } from '../core/load.js';
import { jobDocument, jobs } from '../core/openapi.js';
import { forgetTasks, ownTasks } from '../core/own_tasks.js';
import { to } from '../core/router.js';
import { useStore } from '../core/store.js';
import { Empty, Icon, Loaded, Progress, Skeleton, State, Time } from './basic.js';
import { lazy } from './lazy.js';
import { describePrice, hasEnded, readAnonymousTask } from './live.js';
import { LoadMore } from './more.js';

// Loaded with the first result, because the actions need the code of the forms. The frame reserves their space until then.
export const ReuseActions = lazy(() => import('./reuse_actions.js'), 'ReuseActions', (content) => html`<div class="shot-actions">${content}</div>`);

const PAGE_SIZE = 12;
const REFRESH_MS = 4000;
const STATES = ['CREATED', 'queueing', 'IN_PROGRESS', 'COMPLETED'];

// `kind` limits the gallery to one kind of task; a change of `fresh` reloads it.
export function Gallery({ user, kind, fresh, title }) {
  return html`<section class="gallery" aria-label=${title}><h2>${title}</h2>
    ${user ? html`<${UserGallery} ...${{ user, kind, fresh }} />` : html`<${AnonymousGallery} />`}</section>`;
}

const emptyGallery = html`<${Empty} icon="studio" title="No results yet">Results of the studio and of the API appear here until they are deleted.</${Empty}>`;
const emptyAnonymousGallery = html`<${Empty} icon="studio" title="No results yet">Videos that you make in this browser appear here. Sign in to see the results of your account.</${Empty}>`;
const loading = html`<${Skeleton} lines=${4} kind="shots" />`;

function UserGallery({ user, kind, fresh }) {
  const list = usePagedList(async ({ next, signal }) => {
    const page = await get('/tasks', { owner: user.id, kind, state: STATES, details: true, limit: PAGE_SIZE, cursor: next }, signal);
    return { entries: page.tasks.filter((task) => !task.expired), next: page.next_cursor };
  }, [user.id, kind], mergePages);
  const tasks = list.data?.entries ?? [];
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else list.refresh();
  }, [fresh]);
  useInterval(tasks.some((task) => !hasEnded(task)) ? REFRESH_MS : 0, list.refresh);
  return html`<${Loaded} from=${list} skeleton=${loading}>${() => (tasks.length === 0 ? emptyGallery
    : html`<${Shots} of=${tasks.map((task) => ({ task, user }))} jobOf=${(document, { task }) => jobOfTask(document, task)} />
      <${LoadMore} of=${list}>Older results</${LoadMore}>`)}</${Loaded}>`;
}

// Results of tasks that were submitted without a token, which only this browser knows.
function AnonymousGallery() {
  const own = useStore(ownTasks);
  const list = useLoad((signal) => Promise.all(own.map(async (remembered) => ({ remembered, task: await readAnonymousTask(remembered.id, remembered.at, signal).catch(() => null) }))), [own]);
  const entries = (list.data ?? []).filter(({ task }) => task && !task.error);
  useInterval(entries.some(({ task }) => !hasEnded(task)) ? REFRESH_MS : 0, list.refresh);
  return html`<${Loaded} from=${list} skeleton=${loading}>${() => (entries.length === 0 ? emptyAnonymousGallery
    : html`<p class="muted">These results are listed only in this browser. <button type="button" class="link" onClick=${forgetTasks}>Forget them</button></p>
      <${Shots} of=${entries} jobOf=${(document, { remembered }) => jobs(document).find(({ operationId }) => operationId === remembered.job)} />`)}</${Loaded}>`;
}

// Cards of results. The document of the jobs is loaded only if there are any.
function Shots({ of, jobOf }) {
  const loaded = useLoad(jobDocument, []);
  return html`<${Loaded} from=${loaded} skeleton=${loading}>${(document) => html`<ul class="shots">${of.map((entry) => html`
    <${Shot} key=${entry.task.task_id} document=${document} job=${jobOf(document, entry)} ...${entry} />`)}</ul>`}</${Loaded}>`;
}

function Shot({ document, task, job, remembered, user }) {
  const [result] = task.generated;
  const input = inputAddress(task);
  const prompt = task.request?.prompt ?? remembered?.settings?.prompt;
  const isEnded = hasEnded(task);
  const target = user ? to('tasks', task.task_id) : toLocalUrl(result ?? '') ?? undefined;
  return html`<li class="shot">
    <a class="shot-media ${input && result ? 'pair' : ''}" href=${target} aria-label=${`${job?.summary ?? task.kind}: open`}>
      ${input && result && html`<img class="input" src=${thumbnailOf(input, 'large')} alt="Input" loading="lazy" />`}
      ${result || task.cover_url ? html`<${Thumbnail} task=${task} size="large" />` : input ? html`<img src=${thumbnailOf(input, 'large')} alt="Input" loading="lazy" />` : html`<span class="no-cover"><${Icon} name=${iconOf(task.kind)} /></span>`}</a>
    <div class="shot-text"><p class="row"><strong>${job?.summary ?? task.kind}</strong>${!isEnded && html`<${State} of=${task.state} />`}</p>
      ${!isEnded && html`<${Progress} value=${task.progress} label=${`Progress of ${task.task_id}`} />`}
      ${prompt && html`<p class="shot-prompt" title=${prompt}>${prompt}</p>`}
      <p class="muted small"><${Time} at=${task.created_at} />, ${describePrice(task).toLowerCase()}</p></div>
    ${isEnded && job && html`<${ReuseActions} ...${{ document, task, job, remembered, user }} />`}</li>`;
}

// Returns the icon of a task without a picture.
const iconOf = (kind) => (kind === 'music' ? 'music' : /video|extend|multiframe/.test(kind) ? 'video' : 'studio');

// Small picture of a result: the picture itself, the cover of a video, or an icon.
export function Thumbnail({ task, size = 'small', alt = 'Result' }) {
  const [result = ''] = task.generated;
  const [isGone, setIsGone] = useState(false);
  const isVideo = /\.(mp4|webm)$/i.test(result);
  const isAudio = /\.(ogg|opus|mp3|wav|flac|webm|aac|m4a)$/i.test(result) && !isVideo;
  const address = isVideo ? toLocalUrl(task.cover_url ?? '') : isAudio ? null : toLocalUrl(result);
  if (!address || isGone || task.expired) return html`<span class="no-cover"><${Icon} name=${isVideo ? 'video' : iconOf(task.kind)} /></span>`;
  return html`<span class="thumbnail ${isVideo ? 'video' : ''}"><img src=${thumbnailOf(address, size)} alt=${alt} loading="lazy" onError=${() => setIsGone(true)} /></span>`;
}
