// Session of the browser tab. The token is in session storage, and never in a URL.
import { store } from './store.js';

const KEY = 'mediary.token';

// `user` is undefined while unknown and null without a valid token.
export const session = store({ token: sessionStorage.getItem(KEY), user: sessionStorage.getItem(KEY) ? undefined : null });

export const token = () => session.get().token;

export function openSession(token, user) {
  sessionStorage.setItem(KEY, token);
  session.set({ token, user });
}

export function endSession() {
  sessionStorage.removeItem(KEY);
  session.set({ token: null, user: null });
}

// Calls `work` after a sign-out or a change of user.
export function onUserChange(work) {
  let last = session.get().user?.id;
  session.follow(({ user }) => {
    if (last && user?.id !== last) work();
    last = user?.id;
  });
}
