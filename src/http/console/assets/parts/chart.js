// Charts as SVG: stacked bars and lines over time, with a legend and a table of the same values.
import { html, useLayoutEffect, useRef, useState } from '../core/dom.js';
import { number } from '../core/format.js';
import { useElementId } from '../core/identity.js';

const HEIGHT = 190;
const TOP = 10;
const BOTTOM = 24;
const TICKS = 4;
// Width of a label at the horizontal axis, and of a digit at the vertical one.
const LABEL_WIDTH = 76;
const DIGIT_WIDTH = 7.5;

const total = (values) => values.reduce((sum, value) => sum + (value ?? 0), 0);

// Rounded maximum of the vertical axis.
function niceMax(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value / TICKS));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power * TICKS >= value) * power;
  return step * TICKS;
}

// Largest values are not integers only if the values themselves are not.
function axis(max, isWhole) {
  const top = isWhole ? Math.max(niceMax(max), 1) : niceMax(max);
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => (top * at) / TICKS);
  return { top, ticks: isWhole ? ticks.filter(Number.isInteger) : ticks };
}

// Width of the place of a chart, which follows the window.
function useWidth(place) {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const measure = () => set(Math.floor(place.current.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(place.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}

// `labels` name the points of the horizontal axis, `full` is their form in the table. A series has a name, a tone and a
// value or null for each point. `stacked` draws bars, otherwise lines. `format` renders a value.
export function Chart({ title, labels, full = labels, series, stacked = false, format = number, point = 'Time', summary }) {
  const place = useRef(null);
  const width = useWidth(place);
  const id = useElementId('chart');
  const about = summary ?? describe(series, full, format, stacked);
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong><${Legend} series=${series} /></figcaption>
    <div ref=${place} class="chart-area">${width > 0 && html`<svg role="img" aria-labelledby="${id}-title ${id}-about" width=${width} height=${HEIGHT} viewBox="0 0 ${width} ${HEIGHT}">
      <title id="${id}-title">${title}</title><desc id="${id}-about">${about}</desc>
      <${Drawing} ...${{ width, labels, full, series, stacked, format }} /></svg>`}</div>
    <details class="more"><summary>Table</summary><div class="chart-table" tabindex="0" role="region" aria-label=${`Table: ${title}`}>
      <table><thead><tr><th scope="col">${point}</th>${series.map(({ name }) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
        <tbody>${full.map((label, at) => html`<tr key=${label}><th scope="row">${label}</th>${series.map(({ name, values }) => html`
          <td key=${name}>${values[at] === null || values[at] === undefined ? '–' : format(values[at])}</td>`)}</tr>`).reverse()}</tbody></table></div></details>
  </figure>`;
}

const Legend = ({ series }) => (series.length < 2 ? null : html`<span class="legend">${series.map(({ name, tone }) => html`
  <span key=${name}><i class="swatch series-${tone}"></i>${name}</span>`)}</span>`);

// Sentence for those who do not see the drawing.
function describe(series, full, format, stacked) {
  if (full.length === 0) return 'No values.';
  const parts = series.map(({ name, values }) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    if (known.length === 0) return `${name}: no values`;
    const highest = Math.max(...known);
    const most = `at most ${format(highest)} (${full[values.indexOf(highest)]})`;
    return stacked ? `${name}: ${format(total(known))} in total, ${most}` : `${name}: ${most}, last ${format(known.at(-1))}`;
  });
  return `${full[0]} to ${full.at(-1)}. ${parts.join('. ')}.`;
}

function Drawing({ width, labels, full, series, stacked, format }) {
  const points = labels.length;
  const sums = labels.map((_, at) => total(series.map(({ values }) => values[at])));
  const known = series.flatMap(({ values }) => values).filter((value) => value !== null && value !== undefined);
  const { top, ticks } = axis(Math.max(0, ...(stacked ? sums : known)), known.every(Number.isInteger));
  const left = Math.max(...ticks.map((tick) => format(tick).length)) * DIGIT_WIDTH + 10;
  const inside = width - left - 4;
  const step = inside / Math.max(points, 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const x = (at) => left + step * (at + 0.5);
  const every = Math.max(1, Math.ceil(points / Math.max(1, Math.floor(inside / LABEL_WIDTH))));
  const Marks = stacked ? Bars : Lines;
  return html`<g class="grid">${ticks.map((tick) => html`<g key=${tick}><line x1=${left} x2=${width - 4} y1=${y(tick)} y2=${y(tick)} />
      <text x=${left - 8} y=${y(tick) + 4} text-anchor="end">${format(tick)}</text></g>`)}
    ${labels.map((label, at) => (points - 1 - at) % every === 0 && x(at) > left + LABEL_WIDTH / 4 && html`<text key=${at} x=${Math.min(x(at), width - label.length * 3.6)} y=${HEIGHT - 6} text-anchor="middle">${label}</text>`)}</g>
    <${Marks} ...${{ series, points, x, y, step, top }} />
    ${full.map((label, at) => html`<rect key=${at} class="hit" x=${left + step * at} y=${TOP} width=${step} height=${HEIGHT - TOP - BOTTOM}>
      <title>${[label, ...series.filter(({ values }) => values[at] !== null && values[at] !== undefined).map(({ name, values }) => `${name}: ${format(values[at])}`)].join('\n')}</title></rect>`)}`;
}

function Bars({ series, points, x, y, step }) {
  const wide = Math.max(1, Math.min(step - (step > 6 ? 2 : 0), 36));
  return Array.from({ length: points }, (_, at) => {
    let below = 0;
    return series.map(({ name, tone, values }) => {
      const value = values[at] ?? 0;
      if (value <= 0) return null;
      const bottom = y(below);
      below += value;
      const top = y(below);
      return html`<rect key=${`${at} ${name}`} class="series-${tone}" x=${x(at) - wide / 2} y=${top} width=${wide} height=${Math.max(bottom - top, 1)} />`;
    });
  });
}

// Lines end where a value is missing; a single value is a dot.
function Lines({ series, x, y }) {
  return series.map(({ name, tone, values }) => {
    const runs = [];
    values.forEach((value, at) => {
      if (value === null || value === undefined) { runs.push([]); return; }
      if (runs.length === 0) runs.push([]);
      runs.at(-1).push(`${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    });
    return runs.filter((run) => run.length > 0).map((run) => (run.length > 1
      ? html`<polyline key=${`${name} ${run[0]}`} class="line-${tone}" points=${run.join(' ')} />`
      : html`<circle key=${`${name} ${run[0]}`} class="series-${tone}" cx=${run[0].split(',')[0]} cy=${run[0].split(',')[1]} r="2" />`));
  });
}

// Bar of a limit of which a part is spent and another held.
export function LimitBar({ spent, held, limit, label }) {
  const share = (value) => (limit > 0 ? Math.min(100, (100 * value) / limit) : value > 0 ? 100 : 0);
  const first = share(spent);
  const second = Math.min(100 - first, share(held));
  return html`<div class="limit-bar ${spent + held >= limit ? 'full' : ''}" role="img" aria-label=${label}>
    <div class="spent" style=${{ width: `${first}%` }}></div><div class="held" style=${{ width: `${second}%` }}></div></div>`;
}
