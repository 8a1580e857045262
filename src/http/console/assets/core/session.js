// Who is looking. The token lives as long as the tab, in its session storage, and is never part of an address.
import { store } from './store.js';

const KEY = 'mediary.token';

// `user` is undefined until it is known, and null for nobody.
export const session = store({ token: sessionStorage.getItem(KEY), user: sessionStorage.getItem(KEY) ? undefined : null });

export const token = () => session.get().token;

export function begin(token, user) {
  sessionStorage.setItem(KEY, token);
  session.set({ token, user });
}

export function end() {
  sessionStorage.removeItem(KEY);
  session.set({ token: null, user: null });
}

// What is to be done when a user who was known is no longer the one who looks.
export function onLeaving(work) {
  let last = session.get().user?.id;
  session.follow(({ user }) => {
    if (last && user?.id !== last) work();
    last = user?.id;
  });
}
