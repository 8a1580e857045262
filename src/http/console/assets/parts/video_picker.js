// Field that chooses one of the user's own videos.
import { html } from '../core/dom.js';
import { get, thumbnailOf, toLocalUrl } from '../core/api.js';
import { ago } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { ownTasks } from '../core/own_tasks.js';
import { useStore } from '../core/store.js';
import { Icon, Loaded, Skeleton } from './basic.js';
import { readAnonymousTask } from './live.js';

const KINDS = ['start-end2video', 'reference2video', 'extend', 'multiframe'];
const VIDEOS_MAX = 24;

// Returns the tasks of the user's videos, or of those that this browser remembers.
async function loadVideos(user, own, signal) {
  const tasks = user ? (await get('/tasks', { kind: KINDS, state: 'success', owner: user.id, limit: VIDEOS_MAX }, signal)).tasks
    : await Promise.all(own.map(({ id, at }) => readAnonymousTask(id, at, signal).catch(() => null)));
  return tasks.filter((task) => task && !task.expired && task.generated.length > 0);
}

export function VideoPicker({ user, chosen, onChoose }) {
  const own = useStore(ownTasks);
  const videos = useLoad((signal) => loadVideos(user, own, signal), [user?.id, own]);
  return html`<fieldset class="videos"><legend>Your videos</legend>
    <${Loaded} from=${videos} skeleton=${html`<${Skeleton} lines=${1} kind="videos" />`}>${(list) => list.length === 0
      ? html`<p class="muted">No videos yet. Make one first, or enter the id and the URL of another video.</p>`
      : html`<div>${list.map((task) => html`<label key=${task.task_id} class="video-choice">
          <input type="radio" name="own-video" checked=${task.task_id === chosen} onChange=${() => onChoose(task)} aria-label=${`Video made ${ago(task.created_at)}`} />
          ${task.cover_url ? html`<img src=${thumbnailOf(toLocalUrl(task.cover_url), 'large')} alt="" loading="lazy" width="160" height="90" />` : html`<span class="no-cover"><${Icon} name="video" /></span>`}
          <span class="muted small">${ago(task.created_at)}</span></label>`)}</div>`}</${Loaded}></fieldset>`;
}
