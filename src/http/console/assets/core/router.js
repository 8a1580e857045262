// Router of the pages, by the hash of the URL: hashes never collide with paths of the API, and survive reloads.
import { useEffect } from './dom.js';
import { search } from './api.js';
import { store } from './store.js';

function read() {
  const [path, query = ''] = location.hash.replace(/^#/, '').split('?');
  const parts = path.split('/').filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { parts, query: new URLSearchParams(query), path: path || '/' };
}

export const route = store(read());
addEventListener('hashchange', () => route.set(read()));

// Returns the link to a page: to('nodes', id) or to('nodes', { search }).
export function to(...parts) {
  const query = typeof parts.at(-1) === 'object' ? parts.pop() : {};
  return `#/${parts.map(encodeURIComponent).join('/')}${search(query)}`;
}

export function go(address) {
  location.hash = address;
}

// Changes the query of the current page. With `quiet`, no entry is added to the history of the browser.
export function refine(changes, { quiet = false } = {}) {
  const { path, query } = route.get();
  const kept = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  const address = `#${path}${search({ ...kept, ...changes })}`;
  if (address === location.hash) return;
  if (!quiet) return go(address);
  history.replaceState(null, '', address);
  route.set(read());
}

export function useTitle(title) {
  useEffect(() => { document.title = title ? `${title} · Mediary` : 'Mediary'; }, [title]);
}
