// Sign-in at an OpenID Connect issuer: authorization code flow with PKCE (RFC 7636), in a redirect of this tab.
import { Problem, root } from './api.js';

// What must survive the redirect. It is in session storage until the answer of the issuer has been read.
const KEY = 'mediary.sign-in';
const SCOPE = 'openid profile email';

const base64url = (bytes) => btoa(String.fromCodePoint(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const refuse = (detail) => new Problem({ error: 'sign_in_failed', title: 'Sign-in failed', detail });

// Address of the console that the issuer redirects to.
const redirectUri = () => root.href;

async function discover(issuer) {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const found = await fetchJson(address, {}, 'The issuer does not respond, or does not allow this page to read its configuration (CORS).');
  if (found.issuer !== issuer) throw refuse(`The configuration of the issuer names another issuer: ${found.issuer}.`);
  return found;
}

async function fetchJson(address, options, unreachable) {
  let answer;
  try {
    answer = await fetch(address, { ...options, credentials: 'omit' });
  } catch {
    throw refuse(unreachable);
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  throw refuse(told.error_description ?? told.error ?? `The issuer responded with ${answer.status}.`);
}

// Leaves the page for the issuer.
export async function startSignIn({ issuer, client_id: clientId, audience }) {
  // Browsers have these functions only on https and on this machine.
  if (!crypto.subtle) throw refuse('Signing in at the issuer needs https. Use a token instead.');
  const { authorization_endpoint: endpoint } = await discover(issuer);
  const [state, nonce, verifier] = [random(), random(), random()];
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
  sessionStorage.setItem(KEY, JSON.stringify({ state, nonce, verifier, issuer, clientId, audience, hash: location.hash }));
  const address = new URL(endpoint);
  const asked = {
    response_type: 'code', client_id: clientId, redirect_uri: redirectUri(), scope: SCOPE, state, nonce,
    code_challenge: challenge, code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
  location.assign(address);
}

// Reads the answer of the issuer from the address, if there is one. The address is cleaned first, so that a reload does
// not repeat it. Returns the token, or null without an answer.
export async function finishSignIn() {
  const answer = new URLSearchParams(location.search);
  const stored = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
  if (!answer.has('state') || !(answer.has('code') || answer.has('error'))) return null;
  sessionStorage.removeItem(KEY);
  history.replaceState(null, '', `${location.pathname}${stored?.hash ?? ''}`);
  dispatchEvent(new HashChangeEvent('hashchange'));

  if (!stored || answer.get('state') !== stored.state) throw refuse('The answer does not belong to a sign-in of this tab. Try again.');
  if (answer.has('iss') && answer.get('iss') !== stored.issuer) throw refuse('The answer is from another issuer.');
  if (answer.has('error')) throw refuse(answer.get('error_description') ?? answer.get('error'));

  const { token_endpoint: endpoint } = await discover(stored.issuer);
  const body = new URLSearchParams({
    grant_type: 'authorization_code', code: answer.get('code'), redirect_uri: redirectUri(), client_id: stored.clientId, code_verifier: stored.verifier,
  });
  const tokens = await fetchJson(endpoint, { method: 'POST', body }, 'The token endpoint of the issuer does not respond, or is on another origin than the issuer.');
  if (claims(tokens.id_token)?.nonce !== stored.nonce) throw refuse('The ID token of the issuer does not belong to this sign-in.');
  const token = [tokens.access_token, tokens.id_token].find((token) => [claims(token)?.aud].flat().includes(stored.audience));
  if (!token) throw refuse(`The issuer sent no token for the audience ${stored.audience}.`);
  return token;
}

// Claims of a JWT without a check of its signature, which the service does; null if it is none.
function claims(token) {
  try {
    const bytes = Uint8Array.from(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.codePointAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}
