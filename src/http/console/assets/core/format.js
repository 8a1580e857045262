// Formatting of values.

const NUMBERS = new Intl.NumberFormat('en');
const AGO = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
// Units and their lengths in seconds.
const UNITS = [['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600], ['minute', 60]];
const DAY = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' });

export const number = (value) => NUMBERS.format(value);

// Returns a number with its noun: '1 node', '2 nodes'.
export function count(value, singular, plural = `${singular}s`) {
  return `${number(value)} ${value === 1 ? singular : plural}`;
}

const secondsUntil = (iso) => (Date.parse(iso) - Date.now()) / 1000;

function relative(seconds) {
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  return AGO.format(Math.round(seconds / length), unit);
}

// Returns the relative time of a past moment, never in the future: the clock of the browser may be behind that of the service.
export const ago = (iso) => (secondsUntil(iso) > -10 ? 'just now' : relative(secondsUntil(iso)));

// Returns the relative time of a future moment; 'due now' if it has passed while the page was open.
export const until = (iso) => (secondsUntil(iso) < 1 ? 'due now' : relative(secondsUntil(iso)));

// Formats a time in UTC with milliseconds.
export function exact(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? String(iso) : time.toISOString().replace('T', ' ').replace('Z', ' UTC');
}

const SHORT_DAY = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' });
// Formats the day of a date such as 2026-01-31, without its year.
export const shortDay = (date) => SHORT_DAY.format(new Date(`${date}T00:00:00Z`));
export const day = (iso) => DAY.format(new Date(iso));
export const clock = (iso) => exact(iso).slice(11, 19);

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), units.length - 1) : 0;
  const shown = value / 1024 ** power;
  return `${power && shown < 10 ? shown.toFixed(1) : Math.round(shown)} ${units[power]}`;
}

export function duration(from, to) {
  const seconds = Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

// Converts identifiers such as `style_strength`, `NodeVersionStatusActive`, `webhookUrl` and `reference2video` to words.
export function toWords(name) {
  const spaced = String(name)
    .replace(/^(NodeVersionStatus|NodeStatus|PublisherStatus|UserStatus)/, '')
    .replace(/([a-z])2([a-z])/g, '$1 to $2').replace(/([a-z0-9])([A-Z])/g, '$1 $2').replaceAll(/[_-]+/g, ' ').trim().toLowerCase().replaceAll(/\bwm\b/g, 'watermark').replace(/^is rec$/, 'recommended prompt');
  return spaced.replace(/^./, (first) => first.toUpperCase()).replaceAll(/\b(url|os|id|hdr|bgm|api)\b/gi, (word) => word.toUpperCase());
}

// Image, video and music tasks use different names for the same state.
const STATES = { success: 'completed', processing: 'in_progress' };
export const stateName = (state) => toWords(STATES[state] ?? state);

// Describes a stored file in a few words.
export const describeFile = ({ digest, format, bytes: size, width, height }) =>
  [format, width && `${width} × ${height}`, bytes(size), `SHA-256 ${digest.slice(0, 12)}…`].filter(Boolean).join(', ');

const isFile = (value) => typeof value.digest === 'string' && typeof value.bytes === 'number';

// Returns every scalar of a JSON value with its path; a stored file counts as one value.
export function flatten(value, path = []) {
  if (value === null || typeof value !== 'object') return [[path, value]];
  if (isFile(value)) return [[path, describeFile(value)]];
  const members = Object.entries(value);
  return members.length ? members.flatMap(([name, member]) => flatten(member, [...path, name])) : [[path, value]];
}

// Returns the URL if it is http or https, otherwise null: other URLs must not become links.
export function webAddress(text) {
  if (!text || !URL.canParse(text)) return null;
  const url = new URL(text);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
}

// Shortens an id to its last characters, because ids created at the same time share their beginning.
export const idSuffix = (id) => `…${id.slice(-6)}`;

// Returns the name or the e-mail address of a user; null if neither is set.
export const userName = (user) => (user.erased ? 'Erased' : user.name?.trim() || user.email || null);

export const displayName = (user) => userName(user) ?? `User ${idSuffix(user.id)}`;

// Returns a substitute for a picture: two letters of the name, and one of eight colours, derived from the id.
export function monogram(id, name) {
  const parts = String(name || id || '?').split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = parts.length > 1 ? [...parts[0]][0] + [...parts[1]][0] : [...(parts[0] ?? '?')].slice(0, 2).join('');
  const hash = [...String(id)].reduce((hash, letter) => (hash * 31 + letter.codePointAt(0)) >>> 0, 7);
  return { letters: letters.toUpperCase(), tone: hash % 8 };
}
