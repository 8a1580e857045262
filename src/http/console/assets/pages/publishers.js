// List of publishers, the caller's own first.
import { html, useState } from '../core/dom.js';
import { get } from '../core/api.js';
import { count } from '../core/format.js';
import { useLoad } from '../core/load.js';
import { go, to, useTitle } from '../core/router.js';
import { Dialog, Empty, Icon, Loaded, Monogram, Page, Pager, Skeleton, State, Time, notify } from '../parts/basic.js';
import { OperationForm } from '../parts/form.js';
import { SignInButton } from '../parts/login.js';
import { PagedSection } from '../parts/more.js';

const PAGE_SIZE = 30;

export function PublishersPage({ query, user }) {
  useTitle('Publishers');
  const page = Number(query.get('page')) || 1;
  // Both lists appear together, so that neither moves the other. Until the user is known, there is none.
  const lists = useLoad(async (signal) => {
    if (user === undefined) return undefined;
    const [all, own] = await Promise.all([
      get('/publishers', { page, limit: PAGE_SIZE, include_banned: user?.isAdmin || undefined }, signal),
      user ? get('/users/publishers', {}, signal).catch(() => []) : [],
    ]);
    return { all, own };
  }, [page, user === undefined, user?.id]);
  const [open, setOpen] = useState(false);
  const created = (publisher) => { setOpen(false); notify(`${publisher.name} created`); go(to('publishers', publisher.id)); };
  const create = html`<button type="button" class="button" onClick=${() => setOpen(true)}><${Icon} name="plus" />Create publisher</button>`;
  return html`<${Page} title="Publishers" lead="People and teams who own nodes." actions=${user ? create : html`<${SignInButton}>Sign in to create</${SignInButton}>`}>
    <${Loaded} from=${lists} skeleton=${html`<${Skeleton} kind="cards" lines=${9} />`}>${({ all: list, own }) => html`
    ${own.length > 0 && html`<section><h2>Yours</h2><${Cards} of=${own} /></section>`}
    <section>${own.length > 0 && html`<h2>All</h2>`}
    ${list.publishers.length === 0 ? html`<${Empty} icon="publishers" title="No publishers yet" action=${user ? create : html`<${SignInButton} />`}>A publisher owns nodes, members and access tokens. Create the first one.</${Empty}>`
      : html`<${PagedSection} page=${list.page} label="Publishers"><p class="summary">${count(list.total, 'publisher')}</p><${Cards} of=${list.publishers} />
        <${Pager} page=${list.page} pages=${list.totalPages} address=${(page) => to('publishers', { page })} /></${PagedSection}>`}</section>`}</${Loaded}>
    ${open && html`<${Dialog} title="Create publisher" onClose=${() => setOpen(false)}>
      <${OperationForm} id="createPublisher" path="/publishers" submit="Create" onDone=${created} onCancel=${() => setOpen(false)} /></${Dialog}>`}
  </${Page}>`;
}

const Cards = ({ of }) => html`<ul class="cards">${of.map((publisher) => html`<li key=${publisher.id}><article class="card">
  <header><${Monogram} id=${publisher.id} name=${publisher.name} /><div><h2><a href=${to('publishers', publisher.id)}>${publisher.name || publisher.id}</a></h2>
    <p class="muted small"><code>${publisher.id}</code></p></div>
      ${publisher.status !== 'PublisherStatusActive' && html`<${State} of=${publisher.status} />`}</header>
  <p class="about">${publisher.description || html`<span class="muted">No description.</span>`}</p>
  <footer><span class="muted">${count(publisher.members?.length ?? 0, 'member')}, created <${Time} at=${publisher.createdAt} /></span></footer>
</article></li>`)}</ul>`;
