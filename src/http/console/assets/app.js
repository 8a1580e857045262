// Application shell of the console: menu, routing, access checks and theme.
import { html, render, useEffect, useRef, useState } from './core/dom.js';
import { root } from './core/api.js';
import { displayName } from './core/format.js';
import { route, to, useTitle } from './core/router.js';
import { session } from './core/session.js';
import { useStore } from './core/store.js';
import { Empty, Icon, Toasts, Page, Skeleton, ErrorMessage } from './parts/basic.js';
import { lazy } from './parts/lazy.js';
import { AccountMenu, SignIn, SignInButton, loadUser } from './parts/login.js';
// Registers the search shortcuts, which work on every page.
import './parts/search_key.js';

// Pages are loaded when they are shown for the first time. Until then, the frame of a page keeps the layout from moving.
const lazyPage = (load, name) => lazy(load, name, (content) => html`<${Page} title=" ">${content}</${Page}>`);

const AccountPage = lazyPage(() => import('./pages/account.js'), 'AccountPage');
const AuditPage = lazyPage(() => import('./pages/audit.js'), 'AuditPage');
const BudgetsPage = lazyPage(() => import('./pages/budgets.js'), 'BudgetsPage');
const DocsPage = lazyPage(() => import('./pages/docs.js'), 'DocsPage');
const ModerationPage = lazyPage(() => import('./pages/moderation.js'), 'ModerationPage');
const NodePage = lazyPage(() => import('./pages/node.js'), 'NodePage');
const NodesPage = lazyPage(() => import('./pages/nodes.js'), 'NodesPage');
const PublisherPage = lazyPage(() => import('./pages/publisher.js'), 'PublisherPage');
const PublishersPage = lazyPage(() => import('./pages/publishers.js'), 'PublishersPage');
const StatePage = lazyPage(() => import('./pages/state.js'), 'StatePage');
const StudioPage = lazyPage(() => import('./pages/studio.js'), 'StudioPage');
const TaskPage = lazyPage(() => import('./pages/task.js'), 'TaskPage');
const TasksPage = lazyPage(() => import('./pages/tasks.js'), 'TasksPage');
const HistoryPage = lazyPage(() => import('./pages/history.js'), 'HistoryPage');
const UsersPage = lazyPage(() => import('./pages/users.js'), 'UsersPage');

// Access levels.
const EVERYBODY = 0;
const SIGNED_IN = 1;
const ADMINISTRATORS = 2;

// Pages by the first segment of the hash: component, access level, and number of segments that identify the page.
// Further segments, such as a tab, belong to the same page.
const PAGES = {
  nodes: [([id]) => (id ? NodePage : NodesPage), EVERYBODY, 2],
  publishers: [([id]) => (id ? PublisherPage : PublishersPage), EVERYBODY, 2],
  studio: [() => StudioPage, EVERYBODY, 2],
  account: [() => AccountPage, SIGNED_IN, 1],
  tasks: [([id]) => (id ? TaskPage : TasksPage), SIGNED_IN, 2],
  state: [() => StatePage, ADMINISTRATORS, 1],
  audit: [([kind]) => (kind ? HistoryPage : AuditPage), ADMINISTRATORS, 3],
  budgets: [() => BudgetsPage, ADMINISTRATORS, 1],
  moderation: [() => ModerationPage, ADMINISTRATORS, 1],
  users: [() => UsersPage, ADMINISTRATORS, 1],
  docs: [() => DocsPage, EVERYBODY, 1],
};

const pageOf = (name) => (Object.hasOwn(PAGES, name) ? PAGES[name] : []);

// Groups that appear only after sign-in are last, so that the others do not move.
const MENU = [
  ['Registry', EVERYBODY, [['nodes', 'Nodes'], ['publishers', 'Publishers']]],
  ['Media', EVERYBODY, [['studio', 'Studio'], ['tasks', 'Tasks']]],
  ['Reference', EVERYBODY, [['docs', 'API']]],
  ['Account', SIGNED_IN, [['account', 'Account']]],
  ['Administration', ADMINISTRATORS, [['state', 'Status'], ['audit', 'Audit log'], ['moderation', 'Moderation'], ['users', 'Users'], ['budgets', 'Budgets']]],
];

function App() {
  const { parts, query, path } = useStore(route);
  const { user, problem } = useStore(session);
  const [, , identifyingSegments] = pageOf(parts[0]);
  const key = parts.slice(0, identifyingSegments).join('/');
  const main = useRef(null);
  const isFirstPage = useRef(true);
  const [open, setOpen] = useState(false);
  const menuButton = useRef(null);
  // On a narrow screen the menu is collapsible. Navigation closes it.
  useEffect(() => setOpen(false), [path]);
  const onKey = (event) => { if (event.key === 'Escape' && open) { setOpen(false); menuButton.current.focus(); } };
  useEffect(() => {
    if (isFirstPage.current) { isFirstPage.current = false; return; }
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [key]);
  return html`
    <aside class="side ${open ? 'open' : ''}" onKeyDown=${onKey}>
      <a class="skip" href=${`#${path}`} onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to content</a>
      <button type="button" ref=${menuButton} class="fold" aria-expanded=${open ? 'true' : 'false'} aria-controls="menu" onClick=${() => setOpen(!open)}>
        <${Icon} name=${open ? 'close' : 'menu'} />Menu</button>
      <a class="brand" href=${to('nodes')}><img src=${new URL('console/icon.svg', root).href} alt="" width="28" height="28" />Mediary</a>
      <${Menu} here=${parts[0] ?? 'nodes'} user=${user} onNavigate=${() => setOpen(false)} />
      <div class="side-end"><${AccountMenu} /><${Theme} /></div>
    </aside>
    <main ref=${main} id="main" tabindex="-1"><${CurrentPage} key=${key} ...${{ parts, query, user, problem }} /></main>
    <${SignIn} /><${Toasts} />`;
}

function Menu({ here, user, onNavigate }) {
  const mayAccess = (access) => access === EVERYBODY || (user && (access === SIGNED_IN || user.isAdmin));
  return html`<nav id="menu" class="menu" aria-label="Console" onClick=${(event) => { if (event.target.closest('a')) onNavigate(); }}>
    ${MENU.filter(([, access]) => mayAccess(access)).map(([name, , entries]) => html`
    <div key=${name} class="menu-group"><p>${name}</p><ul>${entries.map(([page, title]) => html`
      <li key=${page}><a href=${to(page)} aria-current=${here === page ? 'page' : undefined}><${Icon} name=${page} />${title}</a></li>`)}</ul>
        </div>`)}</nav>`;
}

// Page that is shown instead of the requested one, with a document title of its own.
function Notice({ title, lead, children }) {
  useTitle(title);
  return html`<${Page} title=${title} lead=${lead}>${children}</${Page}>`;
}

// The page of the URL, or the notice why it cannot be shown. `user` is undefined while unknown.
function CurrentPage({ parts, query, user, problem }) {
  const [name = 'nodes', ...rest] = parts;
  const [componentOf, access] = pageOf(name);
  if (!componentOf) {
    return html`<${Notice} title="Not found">
      <${Empty} icon="search" title="Unknown URL" action=${html`<a class="button" href=${to('nodes')}>Browse nodes</a>`}>
      This URL matches no page of the console.</${Empty}></${Notice}>`;
  }
  const Component = componentOf(rest);
  // Loads the page while the user is being looked up.
  Component.preload();
  if (access !== EVERYBODY && user === undefined) return html`<${Page} title=" "><${Skeleton} lines=${5} /></${Page}>`;
  if (access !== EVERYBODY && !user && problem) {
    return html`<${Notice} title="Sign-in failed" lead="The service could not look up the user of this token."><${ErrorMessage} problem=${problem} onRetry=${loadUser} /></${Notice}>`;
  }
  if (access !== EVERYBODY && !user) {
    return html`<${Notice} title="Sign in"><${Empty} icon="key" title="Sign-in required" action=${html`<${SignInButton} />`}>
      Sign in to see your account, tasks and results.</${Empty}></${Notice}>`;
  }
  if (access === ADMINISTRATORS && !user.isAdmin) {
    return html`<${Notice} title="Administrators only"><${Empty} icon="moderation" title="Administrator rights required">
      You are signed in as ${displayName(user)}, who is not an administrator.</${Empty}></${Notice}>`;
  }
  return html`<${Component} parts=${rest} query=${query} user=${user} />`;
}

// Themes: icon, name, and stored value; null follows the system.
const THEMES = [['auto', 'System', null], ['sun', 'Light', 'light'], ['moon', 'Dark', 'dark']];

function Theme() {
  const [chosen, setChosen] = useState(localStorage.getItem('mediary.theme'));
  const choose = (value) => {
    if (value) localStorage.setItem('mediary.theme', value);
    else localStorage.removeItem('mediary.theme');
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
    setChosen(value);
  };
  return html`<div class="theme" role="group" aria-label="Appearance">${THEMES.map(([icon, name, value]) => html`
    <button key=${icon} type="button" aria-pressed=${(chosen ?? null) === value ? 'true' : 'false'} aria-label=${name} title=${name} onClick=${() => choose(value)}><${Icon} name=${icon} /></button>`)}</div>`;
}

// The service also sends the main page for the paths of some pages, such as `/docs`: go to that page.
const page = location.pathname.split('/').pop();
if (Object.hasOwn(PAGES, page)) location.replace(new URL(`#/${page}`, root));
loadUser();
render(html`<${App} />`, document.getElementById('app'));
