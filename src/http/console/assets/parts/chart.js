// Charts as SVG: stacked bars, lines and states over time, with a legend and a table of the same values.
import { html, useLayoutEffect, useRef, useState } from '../core/dom.js';
import { number } from '../core/format.js';
import { useElementId } from '../core/identity.js';

// Sizes in pixels, and the number of steps of a vertical axis.
const HEIGHT = 190;
const TOP = 10;
const BOTTOM = 24;
const TICKS = 4;
// Height of the title of an axis.
const AXIS_TITLE = 16;
// Height of a row of states (a name and the strip below it), and of the strip alone.
const ROW = 38;
const STRIP = 14;
// Width of a label at the horizontal axis, and of a digit at the vertical one.
const LABEL_WIDTH = 76;
const DIGIT_WIDTH = 7.5;

const total = (values) => values.reduce((sum, value) => sum + (value ?? 0), 0);
const isKnown = (value) => value !== null && value !== undefined;
const isGap = (series, index) => series.every(({ values }) => !isKnown(values[index]));

// Returns the smallest round step with which the ticks cover the range.
function niceStep(range) {
  if (range <= 0) return 1 / TICKS;
  const power = 10 ** Math.floor(Math.log10(range / TICKS));
  return [1, 2, 2.5, 5, 10].find((factor) => factor * power * TICKS >= range) * power;
}

// Returns the range and the ticks of a vertical axis. With `isWhole`, all ticks are integers. An axis that does not start
// at 0 starts at the step below `min`. Steps are round numbers in units of `size`.
function axis(min, max, isWhole, size = 1) {
  const step = niceStep((max - min) / size) * size;
  const bottom = Math.floor(min / step) * step;
  const count = Math.max(TICKS, Math.ceil((max - bottom) / step));
  const top = isWhole ? Math.max(bottom + step * count, bottom + 1) : bottom + step * count;
  const ticks = Array.from({ length: count + 1 }, (_, index) => bottom + ((top - bottom) * index) / count);
  return { bottom, top, ticks: isWhole ? ticks.filter(Number.isInteger) : ticks };
}

// Returns the width of an element, and follows its changes.
function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(ref.current.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}

// Frame of a chart: title, legend, drawing, and a table of the values. `draw(width)` returns the drawing.
function ChartFrame({ title, about, legend, height = HEIGHT, draw, table }) {
  const area = useRef(null);
  const width = useWidth(area);
  const id = useElementId('chart');
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong>${legend}</figcaption>
    <div ref=${area} class="chart-area ${height === HEIGHT ? '' : 'rows'}">${width > 0 && html`<svg role="img" aria-labelledby="${id}-title ${id}-about" width=${width} height=${height} viewBox="0 0 ${width} ${height}">
      <title id="${id}-title">${title}</title><desc id="${id}-about">${about}</desc>
      ${draw(width)}</svg>`}</div>
    <details class="more"><summary>Table</summary><div class="chart-table" tabindex="0" role="region" aria-label=${`Table: ${title}`}>${table}</div></details>
  </figure>`;
}

const ChartTable = ({ point, full, series, format }) => html`<table>
  <thead><tr><th scope="col">${point}</th>${series.map(({ name }) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
  <tbody>${full.map((label, index) => html`<tr key=${label}><th scope="row">${label}</th>${series.map(({ name, values }) => html`
    <td key=${name}>${isKnown(values[index]) ? format(values[index]) : '–'}</td>`)}</tr>`).reverse()}</tbody></table>`;

// Chart of series over time. `labels` name the points of the horizontal axis, `full` is their form in the table. A series
// has a name, a tone, and a value or null for each point.
//
// - `stacked` draws bars instead of lines.
// - `zoomed` starts the vertical axis near the smallest value, `binary` divides it by powers of 1024.
// - `format` renders a value. With a `unit`, the axes have titles and the legend shows the last values.
// - `gaps` has true for each point that is drawn as a gap; by default, a point without a value.
export function Chart({ title, unit, labels, full = labels, series, stacked = false, zoomed = false, binary = false, format = number, point = 'Time', gaps = labels.map((_, index) => isGap(series, index)), summary }) {
  const about = summary ?? describe(series, full, format, stacked);
  return html`<${ChartFrame} title=${title} about=${about} legend=${html`<${Legend} series=${series} format=${unit && format} />`}
    draw=${(width) => html`<${Drawing} ...${{ width, labels, full, series, stacked, zoomed, binary, format, unit, point, gaps }} />`}
    table=${html`<${ChartTable} ...${{ point, full, series, format }} />`} />`;
}

// States over time: a strip for each series. `states` are pairs of a value and its text.
export function StateChart({ title, labels, full = labels, series, states, point = 'Time' }) {
  const texts = new Map(states);
  const format = (state) => texts.get(state) ?? state;
  const about = series.map(({ name, values }) => `${name}: ${lastOf(values, format)}`).join('. ');
  const legend = html`<span class="legend">${states.map(([state, text]) => html`<span key=${state}><i class="swatch state-${state}"></i>${text}</span>`)}</span>`;
  const draw = (width) => html`<${Strips} ...${{ width, labels, full, series, format, point }} />`;
  return html`<${ChartFrame} title=${title} about=${`${about}.`} legend=${legend} height=${TOP + ROW * series.length + BOTTOM + AXIS_TITLE}
    draw=${draw} table=${html`<${ChartTable} ...${{ point, full, series, format }} />`} />`;
}

// Returns the last value as text.
const lastOf = (values, format) => (isKnown(values.at(-1)) ? format(values.at(-1)) : 'no value');

// Names of the series; with `format`, also their last values.
function Legend({ series, format }) {
  if (series.length < 2 && !format) return null;
  return html`<span class="legend">${series.map(({ name, tone, values }) => html`
    <span key=${name}><i class="swatch series-${tone}"></i>${name}${format && html` <strong>${lastOf(values, format)}</strong>`}</span>`)}</span>`;
}

// Describes the chart for people who cannot see it.
function describe(series, full, format, stacked) {
  if (full.length === 0) return 'No values.';
  const parts = series.map(({ name, values }) => {
    const known = values.filter(isKnown);
    if (known.length === 0) return `${name}: no values`;
    const highest = Math.max(...known);
    const most = `at most ${format(highest)} (${full[values.indexOf(highest)]})`;
    return stacked ? `${name}: ${format(total(known))} in total, ${most}` : `${name}: ${most}, last ${format(known.at(-1))}`;
  });
  return `${full[0]} to ${full.at(-1)}. ${parts.join('. ')}.`;
}

function Drawing({ width, labels, full, series, stacked, zoomed, binary, format, unit, point, gaps }) {
  const sums = labels.map((_, index) => total(series.map(({ values }) => values[index])));
  const known = series.flatMap(({ values }) => values).filter(isKnown);
  const max = Math.max(0, ...(stacked ? sums : known));
  const min = zoomed && known.length > 0 ? Math.min(...known) : 0;
  const size = binary && max > 0 ? 1024 ** Math.floor(Math.log2(max) / 10) : 1;
  const { bottom, top, ticks } = axis(min, max, known.every(Number.isInteger), size);
  const left = Math.max(...ticks.map((tick) => format(tick).length)) * DIGIT_WIDTH + 10;
  const above = TOP + (unit ? AXIS_TITLE : 0);
  const ground = HEIGHT - BOTTOM - (unit ? AXIS_TITLE : 0);
  const scale = timeScale(width, left, labels.length);
  const y = (value) => above + (ground - above) * (1 - (value - bottom) / (top - bottom));
  const Marks = stacked ? Bars : Lines;
  return html`${unit && html`<g class="grid"><text x="0" y=${TOP + 2}>${unit}</text></g>`}
    <g class="grid">${ticks.map((tick) => html`<g key=${tick}><line x1=${left} x2=${width - 4} y1=${y(tick)} y2=${y(tick)} />
      <text x=${left - 8} y=${y(tick) + 4} text-anchor="end">${format(tick)}</text></g>`)}</g>
    <${TimeAxis} ...${{ width, left, labels, scale, ground, point: unit && point }} />
    <${Gaps} ...${{ gaps, scale, above, ground }} />
    <${Marks} ...${{ series, points: labels.length, x: scale.x, y, step: scale.step }} />
    <${Tooltips} ...${{ full, series, format, scale, above, ground }} />`;
}

// Positions of the points of the horizontal axis.
function timeScale(width, left, points) {
  const inside = width - left - 4;
  const step = inside / Math.max(points, 1);
  return { step, inside, start: (index) => left + step * index, x: (index) => left + step * (index + 0.5) };
}

function TimeAxis({ width, left, labels, scale, ground, point }) {
  const points = labels.length;
  const every = Math.max(1, Math.ceil(points / Math.max(1, Math.floor(scale.inside / LABEL_WIDTH))));
  return html`<g class="grid">${labels.map((label, index) => (points - 1 - index) % every === 0 && scale.x(index) > left + LABEL_WIDTH / 4 && html`
    <text key=${index} x=${Math.min(scale.x(index), width - label.length * 3.6)} y=${ground + 18} text-anchor="middle">${label}</text>`)}
    ${point && html`<text x=${width - 4} y=${ground + 18 + AXIS_TITLE} text-anchor="end">${point}</text>`}</g>`;
}

// Gaps, as shaded areas.
function Gaps({ gaps, scale, above, ground }) {
  return runsOf(gaps).filter(({ state }) => state).map(({ start, end }) => html`<rect key=${start} class="gap" x=${scale.start(start)} y=${above} width=${scale.step * (end - start)} height=${ground - above} />`);
}

// Invisible areas that show the values of a point as a tooltip.
const Tooltips = ({ full, series, format, scale, above, ground }) => full.map((label, index) => html`<rect key=${index} class="hit" x=${scale.start(index)} y=${above} width=${scale.step} height=${ground - above}>
  <title>${[label, ...series.filter(({ values }) => isKnown(values[index])).map(({ name, values }) => `${name}: ${format(values[index])}`)].join('\n')}</title></rect>`);

// A strip of states for each series, its name above.
function Strips({ width, labels, full, series, format, point }) {
  const scale = timeScale(width, 0, labels.length);
  const ground = TOP + ROW * series.length;
  return html`${series.map(({ name, values }, row) => html`<g key=${name}>
      <text class="strip-name" x="0" y=${TOP + ROW * row + 12}>${name}</text>
      ${runsOf(values).map(({ state, start, end }) => html`<rect key=${start} class=${isKnown(state) ? `state-${state}` : 'gap'}
        x=${scale.start(start)} y=${TOP + ROW * row + 18} width=${scale.step * (end - start)} height=${STRIP} />`)}</g>`)}
    <${TimeAxis} ...${{ width, left: 0, labels, scale, ground, point }} />
    <${Tooltips} ...${{ full, series, format, scale, above: TOP, ground }} />`;
}

// Returns the runs of equal values, each with its start and end.
function runsOf(values) {
  const runs = [];
  values.forEach((state, index) => {
    if (runs.at(-1)?.state === state) runs.at(-1).end = index + 1;
    else runs.push({ state, start: index, end: index + 1 });
  });
  return runs;
}

function Bars({ series, points, x, y, step }) {
  const wide = Math.max(1, Math.min(step - (step > 6 ? 2 : 0), 36));
  return Array.from({ length: points }, (_, index) => {
    let below = 0;
    return series.map(({ name, tone, values }) => {
      const value = values[index] ?? 0;
      if (value <= 0) return null;
      const bottom = y(below);
      below += value;
      const top = y(below);
      return html`<rect key=${`${index} ${name}`} class="series-${tone}" x=${x(index) - wide / 2} y=${top} width=${wide} height=${Math.max(bottom - top, 1)} />`;
    });
  });
}

// Lines end where a value is missing; a single value is a dot.
function Lines({ series, x, y }) {
  return series.map(({ name, tone, values }) => {
    const runs = [];
    values.forEach((value, index) => {
      if (!isKnown(value)) { runs.push([]); return; }
      if (runs.length === 0) runs.push([]);
      runs.at(-1).push(`${x(index).toFixed(1)},${y(value).toFixed(1)}`);
    });
    return runs.filter((run) => run.length > 0).map((run) => (run.length > 1
      ? html`<polyline key=${`${name} ${run[0]}`} class="line-${tone}" points=${run.join(' ')} />`
      : html`<circle key=${`${name} ${run[0]}`} class="series-${tone}" cx=${run[0].split(',')[0]} cy=${run[0].split(',')[1]} r="2" />`));
  });
}

// Bar that shows how much of a limit is spent and held.
export function LimitBar({ spent, held, limit, label }) {
  const share = (value) => (limit > 0 ? Math.min(100, (100 * value) / limit) : value > 0 ? 100 : 0);
  const first = share(spent);
  const second = Math.min(100 - first, share(held));
  return html`<div class="limit-bar ${spent + held >= limit ? 'full' : ''}" role="img" aria-label=${label}>
    <div class="spent" style=${{ width: `${first}%` }}></div><div class="held" style=${{ width: `${second}%` }}></div></div>`;
}
