// Charts of the service over the last hours.
import { html, useMemo } from '../core/dom.js';
import { get } from '../core/api.js';
import { bytes, count, number, toWords } from '../core/format.js';
import { useInterval, useLoad } from '../core/load.js';
import { refine } from '../core/router.js';
import { Loaded, Skeleton } from './basic.js';
import { Chart, StateChart } from './chart.js';
import { Choice } from './usage.js';

const REFRESH_MS = 60000;
const MINUTE_MS = 60000;
// Hours of a period, and the minutes that one point combines.
const PERIODS = [[1, 1], [6, 5], [24, 15]];
// Default period.
const HOURS = 24;
// Failure codes and vendors with a colour of their own; all others are one series.
const SERIES_MAX = 5;
const TONES = [0, 3, 5, 2, 4, 6, 7];
const POINT = 'Time (UTC)';

// From the best to the worst.
const CIRCUITS = [['closed', 'In service'], ['half_open', 'Trial call'], ['held', 'Paused by vendor'], ['open', 'Paused']];
const severity = (state) => CIRCUITS.findIndex(([name]) => name === state);

export function ServiceHistory({ query }) {
  const requested = Number(query.get('hours'));
  const hours = PERIODS.some(([hours]) => hours === requested) ? requested : HOURS;
  const history = useLoad((signal) => get('/admin/state/history', { minutes: hours * 60 }, signal), [hours]);
  useInterval(REFRESH_MS, history.refresh);
  // The page renders every few seconds, the charts only when there are new values.
  const charts = useMemo(() => history.data && html`<${Charts} history=${history.data} />`, [history.data]);
  return html`<section class="panel stack"><div class="row usage-choices"><h2>History</h2><span class="spread"></span>
      <${Choice} label="Period" options=${PERIODS.map(([hours]) => [hours, hours === 1 ? '1 hour' : `${hours} hours`])} value=${hours} onChoose=${(hours) => refine({ hours }, { quiet: true })} /></div>
    <${Loaded} from=${history} skeleton=${html`<${Skeleton} kind="charts" lines=${2} />`}>${() => charts}</${Loaded}></section>`;
}

function Charts({ history }) {
  const minutes = history.columns[0].values.length;
  const { width, labels, full, combine } = timeline(history.from, minutes);
  const of = (name, label) => history.columns.find((column) => column.name === name && column.label === label)?.values ?? [];
  const series = (name, tone, reduce, values) => ({ name, tone, values: combine(values, reduce) });
  // Durations are also unknown while nothing happens; the position of the log is known whenever the service runs.
  const gaps = combine(of('log_position'), last).map((position) => position === null);
  const frame = { labels, full, point: POINT, gaps };
  const failures = largest(history.columns.filter(({ name }) => name === 'task_failures'));
  const vendors = history.columns.filter(({ name }) => name === 'vendor_tasks');
  if (of('log_position').every((value) => value === null)) return html`<p class="muted">No values in this period yet. The service records them once a minute.</p>`;
  return html`<p class="muted small">Each point covers ${count(width, 'minute')}: rates are averages, durations and queues the highest values. Shaded: the service did not run.</p>
  <div class="charts">
    <${Chart} ...${frame} title="Jobs" unit="jobs a minute" format=${decimal} series=${[series('Submitted', 0, mean, of('tasks_submitted')), series('Completed', 2, mean, of('tasks_completed')), series('Failed', 3, mean, of('tasks_failed')), series('Cancelled', 1, mean, of('tasks_cancelled'))]} />
    <${Chart} ...${frame} title="Job duration" unit="time from submission to completion" format=${seconds} series=${[series('Median', 0, highest, of('task_duration_p50')), series('95th percentile', 5, highest, of('task_duration_p95'))]} />
    <${Chart} ...${frame} title="Failed jobs by code" unit="jobs" stacked series=${failures.map(([code, values], index) => series(code, TONES[index], sum, values))} />
    <${Chart} ...${frame} title="Queues" unit="entries" series=${[series('Unfinished jobs', 0, highest, of('queue', 'tasks')), series('Webhooks', 5, highest, of('queue', 'deliveries')), series('Changes to write', 1, highest, of('queue', 'appends'))]} />
    <${StateChart} ...${frame} title="Vendor circuits" states=${CIRCUITS} series=${history.circuits.map(({ vendor, values }) => ({ name: vendor, values: combine(values, worst) }))} />
    <${Chart} ...${frame} title="Jobs at vendors" unit="unfinished jobs" series=${vendors.map(({ label, values }, index) => series(label, TONES[index % TONES.length], highest, values))} />
    <${Chart} ...${frame} title="Webhook deliveries" unit="webhooks a minute" format=${decimal} series=${[series('Delivered', 2, mean, of('deliveries_succeeded')), series('Failed attempts', 5, mean, of('delivery_attempts_failed')), series('Given up', 3, mean, of('deliveries_dead_lettered'))]} />
    <${Chart} ...${frame} title="Requests" unit="requests a minute" format=${decimal} series=${[series('Requests', 0, mean, of('requests'))]} />
    <${Chart} ...${frame} title="Request latency" unit="time to the response" format=${seconds} series=${[series('Median', 0, highest, of('request_duration_p50')), series('95th percentile', 5, highest, of('request_duration_p95'))]} />
    <${Chart} ...${frame} title="Storage" unit="bytes" format=${bytes} binary series=${[series('Free', 0, lowest, of('storage_free')), series('Reserve', 3, highest, of('storage_reserve'))]} />
    <${Chart} ...${frame} title="Memory" unit="bytes" format=${bytes} binary series=${[series('Resident', 0, highest, of('resident_memory'))]} />
    <${Chart} ...${frame} title="Log position" unit="events" zoomed series=${[series('Events', 0, last, of('log_position'))]} />
  </div>`;
}

// Returns the points of the horizontal axis, and `combine`, which reduces the values of the minutes of each point to one
// value with the function `reduce`.
// Points begin at full multiples of their width.
function timeline(from, minutes) {
  const [, width] = PERIODS.find(([hours]) => minutes <= hours * 60);
  // A value belongs to the minute that ends at its time.
  const first = Date.parse(from) / MINUTE_MS - 1;
  const start = Math.floor(first / width);
  const points = Math.floor((first + minutes - 1) / width) - start + 1;
  const times = Array.from({ length: points }, (_, index) => new Date((start + index) * width * MINUTE_MS).toISOString());
  const combine = (values, reduce) => {
    const groups = Array.from({ length: points }, () => []);
    values.forEach((value, index) => { if (value !== null) groups[Math.floor((first + index) / width) - start].push(value); });
    return groups.map((group) => (group.length > 0 ? reduce(group) : null));
  };
  return { width, labels: times.map((time) => time.slice(11, 16)), full: times.map((time) => time.slice(0, 16).replace('T', ' ')), combine };
}

const sum = (values) => values.reduce((sum, value) => sum + value, 0);
const mean = (values) => Math.round((100 * sum(values)) / values.length) / 100;
const highest = (values) => Math.max(...values);
const lowest = (values) => Math.min(...values);
const last = (values) => values.at(-1);
const worst = (states) => states.reduce((worst, state) => (severity(state) > severity(worst) ? state : worst));

// Returns the codes with the most failures as pairs of name and values, and the other codes as one pair. Without failures,
// returns a single pair whose values are 0.
function largest(columns) {
  const failing = columns.map(({ label, values }) => ({ name: toWords(label), values, failures: sum(values) })).filter(({ failures }) => failures > 0);
  failing.sort((left, right) => right.failures - left.failures);
  if (failing.length === 0) return [['Failed', columns[0].values]];
  const shown = failing.slice(0, SERIES_MAX).map(({ name, values }) => [name, values]);
  const others = failing.slice(SERIES_MAX).map(({ values }) => values);
  if (others.length === 0) return shown;
  const sums = others[0].map((value, index) => (value === null ? null : sum(others.map((values) => values[index]))));
  return [...shown, ['Further codes', sums]];
}

const decimal = (value) => number(Math.round(100 * value) / 100);

function seconds(value) {
  if (value === 0) return '0';
  if (value < 0.995) return `${number(Number((1000 * value).toPrecision(2)))} ms`;
  return value < 120 ? `${number(Number(value.toPrecision(2)))} s` : `${number(Math.round(value / 6) / 10)} min`;
}
