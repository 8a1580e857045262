// Cache of display names of users, publishers, nodes and tokens, for administrators. Lookups are batched, and
// entries older than a minute are refreshed on use.
import { useEffect } from './dom.js';
import { get } from './api.js';
import { userName } from './format.js';
import { onUserChange } from './session.js';
import { store, useStore } from './store.js';

// Ids per lookup; more would make the URL too long.
const BATCH_SIZE = { user: 50, publisher: 50, node: 50, token: 1 };
const CACHE_MS = 60000;

// Types of the events that issue a token, and name it.
const TOKEN_ISSUES = ['TokenIssued', 'LimitedTokenIssued'];

// Lookup by kind, as pairs of id and name.
const LOOKUPS = {
  user: async (ids) => (await get('/admin/users', { user_id: ids, limit: ids.length })).users.map((user) => [user.id, userName(user)]),
  publisher: async (ids) => (await get('/publishers', { publisher_id: ids, include_banned: true, limit: ids.length })).publishers.map(({ id, name }) => [id, name]),
  node: async (ids) => (await get('/nodes', { node_id: ids, include_banned: true, limit: ids.length })).nodes.map(({ id, name }) => [id, name]),
  // No endpoint lists all tokens, so the name comes from the event that issued the token.
  token: async ([id]) => (await get('/admin/events', { stream: `token/${id}`, type: TOKEN_ISSUES, limit: 1 })).events.map(({ data }) => [id, data.name]),
};

// By `kind/id`: the name (null if it has none) and the time of the lookup.
const names = store(new Map());
const pending = new Set();
// Incremented at sign-out, so that responses to the previous user's lookups are dropped.
let sessionId = 0;

onUserChange(() => {
  sessionId += 1;
  pending.clear();
  names.set(new Map());
});

// Returns true if the names of several resources of this kind are looked up in one request.
export const isBatched = (resource) => (BATCH_SIZE[resource.split('/')[0]] ?? 1) > 1;

const isFresh = (resource) => Date.now() - (names.get().get(resource)?.at ?? 0) < CACHE_MS;

async function fetchNames(kind, resources) {
  const startedIn = sessionId;
  const idOf = (resource) => resource.slice(kind.length + 1);
  resources.forEach((resource) => pending.add(resource));
  for (let start = 0; start < resources.length; start += BATCH_SIZE[kind]) {
    const batch = resources.slice(start, start + BATCH_SIZE[kind]);
    // Failed lookups count as unnamed for a while; the ids are shown.
    const loaded = new Map(await LOOKUPS[kind](batch.map(idOf)).catch(() => []));
    if (startedIn !== sessionId) return;
    batch.forEach((resource) => pending.delete(resource));
    names.set(new Map([...names.get(), ...batch.map((resource) => [resource, { at: Date.now(), name: distinctName(idOf(resource), loaded.get(idOf(resource))) }])]));
  }
}

// Returns the name without spaces around it, or null if it is absent, blank or repeats the id.
function distinctName(id, name) {
  const trimmed = name?.trim();
  return trimmed && trimmed !== id ? trimmed : null;
}

// Returns the names that the events themselves contain, by `kind/id`.
export const namesIn = (events) => new Map(events.filter(({ type }) => TOKEN_ISSUES.includes(type)).map(({ stream, data }) => [stream, data.name]));

// Returns a function from `kind/id` to the name: null if there is none, undefined during the lookup. Ids that are in
// `namesFromEvents` are not looked up.
export function useNames(resources, namesFromEvents = new Map()) {
  const known = useStore(names);
  const wanted = [...new Set(resources)].filter((resource) => !namesFromEvents.has(resource)).sort().join(' ');
  useEffect(() => {
    const missing = wanted.split(' ').filter((resource) => resource && !isFresh(resource) && !pending.has(resource));
    for (const [kind, all] of Map.groupBy(missing, (resource) => resource.split('/')[0])) {
      // The kind may come from the URL.
      if (Object.hasOwn(LOOKUPS, kind)) fetchNames(kind, all);
    }
  }, [wanted]);
  return (resource) => known.get(resource)?.name ?? namesFromEvents.get(resource) ?? (known.has(resource) ? null : undefined);
}
