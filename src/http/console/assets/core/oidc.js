// Sign-in at an OpenID Connect issuer: authorization code flow with PKCE (RFC 7636), in a redirect of this tab.
import { Problem, root } from './api.js';

// Session storage key of the sign-in in progress, whose state must survive the redirect to the issuer.
const SIGN_IN_KEY = 'mediary.sign-in';
const SCOPE = 'openid profile email';

const base64url = (bytes) => btoa(String.fromCodePoint(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const randomText = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const signInFailed = (detail) => new Problem({ error: 'sign_in_failed', title: 'Sign-in failed', detail });

// Returns the URL of the console, to which the issuer redirects.
const redirectUri = () => root.href;

// Loads the metadata of the issuer (OpenID Connect Discovery).
async function discover(issuer) {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const metadata = await fetchJson(address, {}, 'The issuer does not respond, or does not allow this page to read its configuration (CORS).');
  if (metadata.issuer !== issuer) throw signInFailed(`The configuration of the issuer names another issuer: ${metadata.issuer}.`);
  return metadata;
}

// Sends a request to the issuer. `unreachable` is the error message without a readable response.
async function fetchJson(address, options, unreachable) {
  let response;
  try {
    response = await fetch(address, { ...options, credentials: 'omit' });
  } catch {
    throw signInFailed(unreachable);
  }
  const json = await response.json().catch(() => ({}));
  if (response.ok) return json;
  throw signInFailed(json.error_description ?? json.error ?? `The issuer responded with ${response.status}.`);
}

// Redirects the tab to the issuer.
export async function startSignIn({ issuer, client_id: clientId, audience }) {
  // Browsers have these functions only on https and on this machine.
  if (!crypto.subtle) throw signInFailed('Signing in at the issuer needs https. Use a token instead.');
  const { authorization_endpoint: endpoint } = await discover(issuer);
  const [state, nonce, verifier] = [randomText(), randomText(), randomText()];
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
  sessionStorage.setItem(SIGN_IN_KEY, JSON.stringify({ state, nonce, verifier, issuer, clientId, audience, hash: location.hash }));
  const address = new URL(endpoint);
  const parameters = {
    response_type: 'code', client_id: clientId, redirect_uri: redirectUri(), scope: SCOPE, state, nonce,
    code_challenge: challenge, code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
  location.assign(address);
}

// Reads the response of the issuer from the address and exchanges its code for a token. Returns the token, or null if the
// address has no response. A response with another state does not end the sign-in in progress.
export async function finishSignIn() {
  const response = new URLSearchParams(location.search);
  if (!response.has('state') || !(response.has('code') || response.has('error'))) return null;
  const signIn = JSON.parse(sessionStorage.getItem(SIGN_IN_KEY) ?? 'null');
  const isExpected = signIn !== null && response.get('state') === signIn.state;
  // The code is used only once, so a reload must not send it again.
  removeResponse(isExpected ? signIn.hash : location.hash);
  if (!isExpected) throw signInFailed('The response does not belong to a sign-in of this tab. Try again.');

  sessionStorage.removeItem(SIGN_IN_KEY);
  if (response.has('iss') && response.get('iss') !== signIn.issuer) throw signInFailed('The response is from another issuer.');
  if (response.has('error')) throw signInFailed(response.get('error_description') ?? response.get('error'));
  return requestToken(signIn, response.get('code'));
}

// Removes the response of the issuer from the address, and returns to the page from which the sign-in started.
function removeResponse(hash) {
  history.replaceState(null, '', `${location.pathname}${hash}`);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

async function requestToken({ issuer, clientId, verifier, nonce, audience }, code) {
  const { token_endpoint: endpoint } = await discover(issuer);
  const body = new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: redirectUri(), client_id: clientId, code_verifier: verifier });
  const tokens = await fetchJson(endpoint, { method: 'POST', body }, 'The token endpoint of the issuer does not respond, or is on another origin than the issuer.');
  if (claims(tokens.id_token)?.nonce !== nonce) throw signInFailed('The ID token of the issuer does not belong to this sign-in.');
  const token = [tokens.access_token, tokens.id_token].find((token) => [claims(token)?.aud].flat().includes(audience));
  if (!token) throw signInFailed(`The issuer sent no token for the audience ${audience}.`);
  return token;
}

// Returns the claims of a JWT; null if it is malformed. Does not verify the signature, which the service does.
function claims(token) {
  try {
    const bytes = Uint8Array.from(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.codePointAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}
