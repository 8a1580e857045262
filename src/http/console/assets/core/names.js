// Cache of display names of users, publishers, nodes and tokens, for administrators. Lookups are batched, and
// entries older than a minute are refreshed on use.
import { useEffect } from './dom.js';
import { get } from './api.js';
import { nameOf } from './format.js';
import { onLeaving } from './session.js';
import { store, useStore } from './store.js';

// Ids per lookup; more would make the URL too long.
const AT_ONCE = { user: 50, publisher: 50, node: 50, token: 1 };
const KEPT_MS = 60000;

// Lookup by kind, as pairs of id and name.
const ASK = {
  user: async (ids) => (await get('/admin/users', { user_id: ids, limit: ids.length })).users.map((user) => [user.id, nameOf(user)]),
  publisher: async (ids) => (await get('/publishers', { publisher_id: ids, include_banned: true, limit: ids.length })).publishers.map(({ id, name }) => [id, name]),
  node: async (ids) => (await get('/nodes', { node_id: ids, include_banned: true, limit: ids.length })).nodes.map(({ id, name }) => [id, name]),
  // No endpoint lists all tokens, so the name comes from the event that issued the token.
  token: async ([id]) => (await get('/admin/events', { stream: `token/${id}`, type: 'TokenIssued', limit: 1 })).events.map(({ data }) => [id, data.name]),
};

// By `kind/id`: the name, null if it has none, and the time of the lookup.
const names = store(new Map());
const asking = new Set();
// Incremented at sign-out, so that responses to the previous user's lookups are dropped.
let era = 0;

onLeaving(() => {
  era += 1;
  asking.clear();
  names.set(new Map());
});

const isFresh = (thing) => Date.now() - (names.get().get(thing)?.at ?? 0) < KEPT_MS;

async function learn(kind, things) {
  const begun = era;
  const idOf = (thing) => thing.slice(kind.length + 1);
  things.forEach((thing) => asking.add(thing));
  for (let at = 0; at < things.length; at += AT_ONCE[kind]) {
    const some = things.slice(at, at + AT_ONCE[kind]);
    // Failed lookups count as unnamed for a while; the ids are shown.
    const found = new Map(await ASK[kind](some.map(idOf)).catch(() => []));
    if (begun !== era) return;
    some.forEach((thing) => asking.delete(thing));
    names.set(new Map([...names.get(), ...some.map((thing) => [thing, { at: Date.now(), name: otherThan(idOf(thing), found) }])]));
  }
}

function otherThan(id, found) {
  const name = found.get(id)?.trim();
  return name && name !== id ? name : null;
}

// Names contained in the events themselves, by `kind/id`.
export const namesIn = (events) => new Map(events.filter(({ type }) => type === 'TokenIssued').map(({ stream, data }) => [stream, data.name]));

// Returns a function from `kind/id` to name or null. Looks up the ids that are not in `told`.
export function useNames(things, told = new Map()) {
  const known = useStore(names);
  const wanted = [...new Set(things)].filter((thing) => !told.has(thing)).sort().join(' ');
  useEffect(() => {
    const missing = wanted.split(' ').filter((thing) => thing && !isFresh(thing) && !asking.has(thing));
    for (const [kind, all] of Map.groupBy(missing, (thing) => thing.split('/')[0])) {
      // The kind may come from the URL.
      if (Object.hasOwn(ASK, kind)) learn(kind, all);
    }
  }, [wanted]);
  return (thing) => known.get(thing)?.name ?? told.get(thing) ?? null;
}
