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

// Events that name a token.
const TOKEN_ISSUES = ['TokenIssued', 'LimitedTokenIssued'];

// Lookup by kind, as pairs of id and name.
const LOOKUPS = {
  user: async (ids) => (await get('/admin/users', { user_id: ids, limit: ids.length })).users.map((user) => [user.id, userName(user)]),
  publisher: async (ids) => (await get('/publishers', { publisher_id: ids, include_banned: true, limit: ids.length })).publishers.map(({ id, name }) => [id, name]),
  node: async (ids) => (await get('/nodes', { node_id: ids, include_banned: true, limit: ids.length })).nodes.map(({ id, name }) => [id, name]),
  // No endpoint lists all tokens, so the name comes from the event that issued the token.
  token: async ([id]) => (await get('/admin/events', { stream: `token/${id}`, type: TOKEN_ISSUES, limit: 1 })).events.map(({ data }) => [id, data.name]),
};

// By `kind/id`: the name, null if it has none, and the time of the lookup.
const names = store(new Map());
const pending = new Set();
// Incremented at sign-out, so that responses to the previous user's lookups are dropped.
let sessionId = 0;

onUserChange(() => {
  sessionId += 1;
  pending.clear();
  names.set(new Map());
});

// Returns true if the name of a resource is found in one request with those of others.
export const isLookedUp = (thing) => (BATCH_SIZE[thing.split('/')[0]] ?? 1) > 1;

const isFresh = (thing) => Date.now() - (names.get().get(thing)?.at ?? 0) < CACHE_MS;

async function fetchNames(kind, things) {
  const startedIn = sessionId;
  const idOf = (thing) => thing.slice(kind.length + 1);
  things.forEach((thing) => pending.add(thing));
  for (let at = 0; at < things.length; at += BATCH_SIZE[kind]) {
    const some = things.slice(at, at + BATCH_SIZE[kind]);
    // Failed lookups count as unnamed for a while; the ids are shown.
    const found = new Map(await LOOKUPS[kind](some.map(idOf)).catch(() => []));
    if (startedIn !== sessionId) return;
    some.forEach((thing) => pending.delete(thing));
    names.set(new Map([...names.get(), ...some.map((thing) => [thing, { at: Date.now(), name: distinctName(idOf(thing), found) }])]));
  }
}

function distinctName(id, found) {
  const name = found.get(id)?.trim();
  return name && name !== id ? name : null;
}

// Names contained in the events themselves, by `kind/id`.
export const namesIn = (events) => new Map(events.filter(({ type }) => TOKEN_ISSUES.includes(type)).map(({ stream, data }) => [stream, data.name]));

// Returns a function from `kind/id` to the name: null if there is none, undefined during the lookup. Ids that are in
// `namesFromEvents` are not looked up.
export function useNames(things, namesFromEvents = new Map()) {
  const known = useStore(names);
  const wanted = [...new Set(things)].filter((thing) => !namesFromEvents.has(thing)).sort().join(' ');
  useEffect(() => {
    const missing = wanted.split(' ').filter((thing) => thing && !isFresh(thing) && !pending.has(thing));
    for (const [kind, all] of Map.groupBy(missing, (thing) => thing.split('/')[0])) {
      // The kind may come from the URL.
      if (Object.hasOwn(LOOKUPS, kind)) fetchNames(kind, all);
    }
  }, [wanted]);
  return (thing) => known.get(thing)?.name ?? namesFromEvents.get(thing) ?? (known.has(thing) ? null : undefined);
}
