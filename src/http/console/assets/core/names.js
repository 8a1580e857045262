// What ids stand for, for administrators: names of users, publishers, nodes and tokens. They are asked for together, and kept while
// the tab is open; what is kept for long is asked for again when somebody looks anew.
import { useEffect } from './dom.js';
import { get } from './api.js';
import { nameOf } from './format.js';
import { onLeaving } from './session.js';
import { store, useStore } from './store.js';

// So many ids are asked for together; more make addresses that are too long.
const AT_ONCE = { user: 50, publisher: 50, node: 50, token: 1 };
const KEPT_MS = 60000;

// By kind: those of some ids, as pairs of an id and a name.
const ASK = {
  user: async (ids) => (await get('/admin/users', { user_id: ids, limit: ids.length })).users.map((user) => [user.id, nameOf(user)]),
  publisher: async (ids) => (await get('/publishers', { publisher_id: ids, include_banned: true, limit: ids.length })).publishers.map(({ id, name }) => [id, name]),
  node: async (ids) => (await get('/nodes', { node_id: ids, include_banned: true, limit: ids.length })).nodes.map(({ id, name }) => [id, name]),
  // There is no list of tokens of everybody: each is told by the event that made it.
  token: async ([id]) => (await get('/admin/events', { stream: `token/${id}`, type: 'TokenIssued', limit: 1 })).events.map(({ data }) => [id, data.name]),
};

// By `kind/id`: the name, or null where there is none besides the id, and when it was asked for.
const names = store(new Map());
const asking = new Set();
// Whoever is signed in next is told nothing of what another asked for.
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
    // What could not be learnt has no name for a while: the ids are shown all the same.
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

// What events tell of names by themselves, by `kind/id`.
export const namesIn = (events) => new Map(events.filter(({ type }) => type === 'TokenIssued').map(({ stream, data }) => [stream, data.name]));

// Gives a function of `kind/id`: its name, or null. Those of these things are asked for, as far as they are not `told`.
export function useNames(things, told = new Map()) {
  const known = useStore(names);
  const wanted = [...new Set(things)].filter((thing) => !told.has(thing)).sort().join(' ');
  useEffect(() => {
    const missing = wanted.split(' ').filter((thing) => thing && !isFresh(thing) && !asking.has(thing));
    for (const [kind, all] of Map.groupBy(missing, (thing) => thing.split('/')[0])) {
      // A kind may come from the address.
      if (Object.hasOwn(ASK, kind)) learn(kind, all);
    }
  }, [wanted]);
  return (thing) => known.get(thing)?.name ?? told.get(thing) ?? null;
}
