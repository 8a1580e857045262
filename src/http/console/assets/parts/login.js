// Sign-in with a token, or at the issuer of the service.
import { html, useState } from '../core/dom.js';
import { Problem, at, get } from '../core/api.js';
import { displayName } from '../core/format.js';
import { openSession, endSession, session } from '../core/session.js';
import { store, useStore } from '../core/store.js';
import { useLoad, useMutation } from '../core/load.js';
import { Dialog, Icon, Id, ErrorMessage, notify } from './basic.js';

// The open dialog, with the error of a sign-in at the issuer if there was one.
const dialog = store(null);

export const askToSignIn = () => dialog.set({});

export function SignInButton({ children = 'Sign in' }) {
  return html`<button type="button" class="button" onClick=${askToSignIn}><${Icon} name="key" />${children}</button>`;
}

// Finishes a sign-in at the issuer, or looks up the user of the stored token, when the console opens.
export async function loadUser() {
  try {
    // Only the response of an issuer has a query before the hash.
    const token = location.search && await (await import('../core/oidc.js')).finishSignIn();
    if (token) {
      await signIn(token);
      notify('Signed in');
      return;
    }
  } catch (failure) {
    dialog.set({ problem: Problem.of(failure) });
  }
  const { token } = session.get();
  if (!token) return;
  try {
    openSession(token, await get(at`/users`));
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) endSession();
    else session.set({ token, user: null, problem });
  }
}

async function signIn(token) {
  session.set({ token, user: null });
  try {
    openSession(token, await get(at`/users`));
  } catch (problem) {
    endSession();
    throw problem;
  }
}

export function SignIn() {
  const open = useStore(dialog);
  const issuer = useLoad(async () => (open ? (await get('/sign-in')).oidc : null), [Boolean(open)]);
  const [token, setToken] = useState('');
  const work = useMutation();
  if (!open) return null;
  const close = () => { dialog.set(null); setToken(''); work.clear(); };
  const send = async (event) => {
    event.preventDefault();
    const { problem } = await work.run(() => signIn(token.trim()));
    if (problem) return;
    close();
    notify('Signed in');
  };
  const problem = work.problem ?? open.problem;
  return html`<${Dialog} title="Sign in" onClose=${close}>
    <form class="form" onSubmit=${send}>
      ${issuer.data && html`<p><button type="button" class="button" disabled=${work.busy} onClick=${() => work.run(async () => (await import('../core/oidc.js')).startSignIn(issuer.data))}><${Icon} name="key" />Sign in at ${new URL(issuer.data.issuer).host}</button></p>`}
      <p>${issuer.data ? 'Or use' : 'Use'} a user token (<code>mdu_…</code>). The first administrator's token is the setting <code>admin_token</code> or, if that is empty, in the file <code>admin-token</code> in the data directory. Administrators create further tokens.</p>
      ${problem && html`<${ErrorMessage} problem=${explainError(problem)} />`}
      <div class="field"><label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" spellcheck="false" autofocus value=${token} onInput=${(event) => setToken(event.target.value)} />
        <p class="hint">Stored until this tab is closed, and sent only to this service.</p></div>
      <footer><button class="button" disabled=${work.busy || !token.trim()}>${work.busy ? 'Please wait' : 'Sign in'}</button>
        <button type="button" class="button quiet" onClick=${close}>Cancel</button></footer>
    </form>
  </${Dialog}>`;
}

function explainError(problem) {
  if (problem.status === 401) return Object.assign(problem, { title: 'Unknown token', retryAfter: null });
  if (problem.status !== 403) return problem;
  return Object.assign(problem, { title: 'Publisher tokens cannot sign in' });
}

export function AccountMenu() {
  const { user, token } = useStore(session);
  if (user === undefined) return html`<div class="account"><span class="bone"></span></div>`;
  if (!user || !token) return html`<div class="account"><${SignInButton} /></div>`;
  return html`<div class="account"><div class="who"><strong>${displayName(user)}</strong><${Id} label="Copy your user id">${user.id}</${Id}>
    </div>
    <button type="button" class="button quiet small" onClick=${() => { endSession(); notify('Signed out'); }}>Sign out</button></div>`;
}
