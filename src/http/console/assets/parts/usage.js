// Usage of tasks as a chart: choice of the period and of the values, and the report as CSV.
import { html, useEffect, useState } from '../core/dom.js';
import { get, send } from '../core/api.js';
import { count, number, shortDay } from '../core/format.js';
import { useLoad, useMutation } from '../core/load.js';
import { refine } from '../core/router.js';
import { Empty, ErrorMessage, Icon, Loaded, Skeleton } from './basic.js';
import { Chart } from './chart.js';
import { saveFile } from './save.js';

const DAY_MS = 86400000;
const PERIODS = [7, 30, 90];
const DEFAULT_PERIOD = 30;
// Values that the reader can choose: title of the chart, and its series as [field of the report, name, tone].
const MEASURES = {
  tasks: ['Tasks', [['completed', 'Completed', 0], ['unfinished', 'Unfinished', 5], ['failed', 'Failed', 3], ['cancelled', 'Cancelled', 1]]],
  credits: ['Credits', [['charged', 'Charged', 0], ['held', 'Held', 5]]],
  cost: ['Vendor cost', [['cost', 'Cost', 2]]],
};
// Maximum number of groups in a chart and its table, except days; the CSV file has all.
const GROUPS_MAX = 12;
// Maximum number of groups whose names are looked up. More than are shown, because the report is not in the order of
// the chart.
const NAMED_GROUPS_MAX = 4 * GROUPS_MAX;

const dateOf = (time) => new Date(time).toISOString().slice(0, 10);

// Returns all days of the period, so that days without tasks are shown too.
export function daysOf(days, today = Date.now()) {
  return Array.from({ length: days }, (_, index) => dateOf(today - (days - 1 - index) * DAY_MS));
}

export function periodOf(query) {
  const days = Number(query.get('days'));
  return PERIODS.includes(days) ? days : DEFAULT_PERIOD;
}

export function Choice({ label, options, value, onChoose }) {
  return html`<fieldset class="chips"><legend>${label}</legend>${options.map(([key, text]) => html`<label key=${key} class="chip">
    <input type="radio" name=${label} checked=${key === value} onChange=${() => onChoose(key)} /><span>${text}</span></label>`)}</fieldset>`;
}

// Usage of `user`, or of all users if it is undefined. `groupings` are the offered values of `group_by`, as pairs of value and
// label. `onGroups` gets the ids of the groups, so that the caller can look up the names for `nameOf`.
export function Usage({ query, user, groupings = [['day', 'Day']], nameOf = (id) => id, onGroups }) {
  const days = periodOf(query);
  const grouping = groupings.some(([key]) => key === query.get('by')) ? query.get('by') : groupings[0][0];
  const measure = Object.hasOwn(MEASURES, query.get('show') ?? '') ? query.get('show') : 'tasks';
  const dates = daysOf(days);
  const parameters = { from: dates[0], to: dates.at(-1), group_by: grouping, user };
  const loading = useLoad((signal) => get('/usage', parameters, signal), [JSON.stringify(parameters)]);
  // The report of the previous grouping remains until the new one is loaded.
  const rows = loading.data?.group_by === grouping ? loading.data.rows : [];
  const groups = rows.map(({ group }) => group).filter(Boolean).slice(0, NAMED_GROUPS_MAX);
  useEffect(() => onGroups?.(groups), [groups.join()]);
  return html`<div class="row usage-choices">
      ${groupings.length > 1 && html`<${Choice} label="By" options=${groupings} value=${grouping} onChoose=${(by) => refine({ by }, { quiet: true })} />`}
      <${Choice} label="Show" options=${Object.entries(MEASURES).map(([key, [text]]) => [key, text])} value=${measure} onChoose=${(show) => refine({ show }, { quiet: true })} />
      <${Choice} label="Period" options=${PERIODS.map((days) => [days, `${days} days`])} value=${days} onChoose=${(days) => refine({ days }, { quiet: true })} />
      <span class="spread"></span><${CsvButton} parameters=${parameters} />
    </div>
    <${Loaded} from=${loading} skeleton=${html`<${Skeleton} kind="charts" lines=${1} />`}>${(report) => (report.group_by === grouping
      ? html`<${UsageChart} ...${{ report, measure, dates, nameOf }} />` : html`<${Skeleton} kind="charts" lines=${1} />`)}</${Loaded}>`;
}

function UsageChart({ report, measure, dates, nameOf }) {
  const [title, fields] = MEASURES[measure];
  const byDay = report.group_by === 'day';
  const rowByGroup = new Map(report.rows.map((row) => [row.group, row]));
  const weight = (row) => fields.reduce((sum, [name]) => sum + row[name], 0);
  const rows = byDay ? dates.map((date) => rowByGroup.get(date)) : [...report.rows].sort((one, other) => weight(other) - weight(one));
  const [shown, rest] = byDay ? [rows, 0] : [rows.slice(0, GROUPS_MAX), Math.max(0, rows.length - GROUPS_MAX)];
  const label = (row) => (row.group === null ? 'None' : nameOf(row.group));
  const series = fields.map(([name, text, tone]) => ({ name: text, tone, values: shown.map((row) => row?.[name] ?? 0) }));
  const sums = `${count(report.total.submissions, 'task')}, ${count(report.total.charged + report.total.held, 'credit')}, vendor cost ${number(report.total.cost)}`;
  if (report.total.submissions === 0) {
    return html`<${Empty} icon="tasks" title="No tasks in this period">Submitted tasks are counted here by the day of their submission.</${Empty}>`;
  }
  const names = { user: 'User', vendor: 'Vendor', token: 'Token', job: 'Job', day: 'Day' };
  return html`<p class="summary">${sums}</p>
    <${Chart} title=${`${title} by ${names[report.group_by].toLowerCase()}`} stacked point=${names[report.group_by]} series=${series}
      labels=${byDay ? dates.map(shortDay) : shown.map((row) => label(row).slice(0, 14))} full=${byDay ? dates : shown.map((row) => `${label(row)}${row.group && label(row) !== row.group ? ` (${row.group})` : ''}`)} />
    ${rest > 0 && html`<p class="muted small">${count(rest, `more ${names[report.group_by].toLowerCase()}`, `more ${names[report.group_by].toLowerCase()}s`)} in the CSV file.</p>`}`;
}

// Saves the report as CSV. A link could not send the token, so the page fetches the file.
function CsvButton({ parameters }) {
  const work = useMutation();
  const [saved, setSaved] = useState(0);
  const load = async () => {
    const { problem, done } = await work.run(async () => (await send('GET', '/usage', { query: parameters, headers: { Accept: 'text/csv' } })).blob());
    if (!problem) { saveFile(done, `usage-by-${parameters.group_by}-${parameters.from}-${parameters.to}.csv`); setSaved(saved + 1); }
  };
  return html`<button type="button" class="button quiet small" disabled=${work.busy} onClick=${load}><${Icon} name="download" />CSV</button>
    <span class="unseen" role="status">${saved > 0 ? `Saved ${saved}` : ''}</span>${work.problem && html`<${ErrorMessage} problem=${work.problem} />`}`;
}
