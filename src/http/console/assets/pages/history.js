// History of a resource, and its state at a point in time.
import { html, useRef } from '../core/dom.js';
import { at, get } from '../core/api.js';
import { count, exact, number, toWords } from '../core/format.js';
import { useLoad, usePagedList } from '../core/load.js';
import { useNames } from '../core/names.js';
import { refine, to, useTitle } from '../core/router.js';
import { BackLink, Code, Icon, Loaded, Page, Skeleton, Time } from '../parts/basic.js';
import { Actor, IdempotencyKeySwitch, Changes, isIdempotencyKey, typeLabel } from '../parts/events.js';
import { LoadMore } from '../parts/more.js';

const PAGES = { node: 'nodes', publisher: 'publishers', task: 'tasks' };

export function HistoryPage({ parts: [kind, ...idParts], query }) {
  const id = idParts.join('/');
  useTitle(`History of ${id}`);
  const history = usePagedList(({ next, signal }) => get(at`/admin/history/${kind}/${id}`, { limit: 100, after: next }, signal), [kind, id]);
  const showsKeys = query.get('idempotency_keys') === 'true';
  const entries = (history.data?.entries ?? []).filter(({ event }) => showsKeys || !isIdempotencyKey(event));
  const nameOf = useNames([`${kind}/${id}`, ...entries.map(({ event }) => event.actor)]);
  const name = nameOf(`${kind}/${id}`);
  const point = query.get('time') ? { time: query.get('time') } : query.get('position') ? { position: query.get('position') } : null;
  const panel = useRef(null);
  // On a narrow screen the panel is below the history and must be scrolled to.
  const choose = (position) => {
    refine({ position, time: undefined });
    if (matchMedia('(max-width: 68rem)').matches) panel.current.scrollIntoView({ block: 'start' });
  };
  return html`<${Page} before=${html`<${BackLink} href=${to('audit')}>Audit log</${BackLink}>`} title=${html`<code class="thing">${kind}/${id}</code>`}
      lead=${html`${name && html`<strong>${name}</strong>${history.data && ': '}`}${history.data ? `${count(entries.length, 'event')}${history.next ? ' and more' : ''}, oldest first` : ' '}`}
      actions=${html`${PAGES[kind] && html`<a class="button quiet" href=${to(PAGES[kind], id)}>Current state</a>`}
        <a class="button quiet" href=${to('audit', { stream: `${kind}/${id}` })}>View in audit log</a>`}>
    <div class="columns even">
      <section><div class="row"><h2>History</h2><span class="spread"></span><${IdempotencyKeySwitch} shown=${showsKeys} /></div>
        <${Loaded} from=${history} skeleton=${html`<${Skeleton} lines=${6} />`}>${() => html`
          <ol class="history">${entries.map(({ event, changes }) => html`<li key=${event.position} class="release ${point?.position === String(event.position) ? 'chosen' : ''}">
            <header><strong>${typeLabel(event.type)}</strong><span class="muted"><${Time} at=${event.at} /> by <${Actor} of=${event.actor} nameOf=${nameOf} /></span>
              <span class="spread"></span>
              <button type="button" class="button quiet small" aria-pressed=${point?.position === String(event.position) ? 'true' : 'false'} onClick=${() => choose(event.position)}>As of #${number(event.position)}</button></header>
            <${Changes} of=${changes} /></li>`)}</ol>
          <${LoadMore} of=${history}>Later events</${LoadMore}>`}</${Loaded}></section>
      <section ref=${panel} class="panel as-of"><h2>As of</h2><${AsOf} kind=${kind} id=${id} point=${point} /></section>
    </div>
  </${Page}>`;
}

// State of the resource at a point in time: `point` has a `time` or a `position`, or is null.
function AsOf({ kind, id, point }) {
  const state = useLoad((signal) => (point ? get(at`/admin/as-of/${kind}/${id}`, point, signal) : Promise.resolve(null)), [kind, id, point?.time, point?.position]);
  const choose = (event) => { if (event.target.value) refine({ time: `${event.target.value}:00Z`, position: undefined }); };
  return html`<label class="order"><span>Time (UTC)</span>
    <input type="datetime-local" value=${point?.time?.slice(0, 16) ?? ''} onChange=${choose} /></label>
    <${Loaded} from=${state} skeleton=${html`<${Skeleton} lines=${4} />`}>${(state) => {
      if (!state) return html`<p class="muted">Choose an event or a time to see the resource as it was directly after it.</p>`;
      if (!state.exists) return html`<p><${Icon} name="warn" /> Did not exist${state.at ? ` at ${exact(state.at)}` : ' at this position'}.</p>`;
      return html`<p class="muted">At position ${number(state.position)}, recorded ${exact(state.at)}.</p>
        <${Code} label=${`${toWords(kind)} at that time`} text=${JSON.stringify(state.state, null, 2)} />`;
    }}</${Loaded}>`;
}
