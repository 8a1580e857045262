// Results: pictures (compared with the input), videos, audio.
import { html, useRef, useState } from '../core/dom.js';
import { toLocalUrl } from '../core/api.js';
import { Icon } from './basic.js';
import { Waveform } from './waveform.js';

const AUDIO = /\.(mp3|ogg|opus|oga|wav|flac|m4a|aac)$/i;
const VIDEO = /\.(mp4|webm|mov)$/i;

const kindOf = (address) => (VIDEO.test(address) ? 'video' : AUDIO.test(address) ? 'audio' : 'picture');

// Results of a task. `before` is the input picture, if known.
export function Results({ task, before }) {
  if (task.expired) return html`<p class="muted">The results have expired and were deleted.</p>`;
  return html`<div class="results">
    ${task.generated.map((address, index) => html`<${Result} key=${address} address=${toLocalUrl(address)} originalUrl=${address} before=${index === 0 ? before : null} cover=${task.cover_url && toLocalUrl(task.cover_url)} />`)}</div>`;
}

function Result({ address, originalUrl, before, cover }) {
  // Results on other hosts are linked, not embedded.
  if (!address) return html`<p><code>${originalUrl}</code></p>`;
  const kind = kindOf(new URL(address).pathname);
  return html`<figure class="result">
    ${kind === 'video' ? html`<video controls playsinline preload=${cover ? 'none' : 'metadata'} src=${address} poster=${cover || null} aria-label="Result"></video>`
      : kind === 'audio' ? html`<${Audio} address=${address} />`
        : before ? html`<${Compare} before=${before} after=${address} />` : html`<img class="shown" src=${address} alt="Result" />`}
    <figcaption><a class="button quiet small" href=${address} download><${Icon} name="download" />Download</a></figcaption>
  </figure>`;
}

function Audio({ address }) {
  const player = useRef(null);
  return html`<${Waveform} address=${address} read=${() => fetch(address, { credentials: 'omit' }).then((response) => response.arrayBuffer())} player=${player} />
    <audio ref=${player} controls preload="metadata" src=${address} aria-label="Result"></audio>`;
}

// Relative difference of aspect ratios up to which pictures can lie on top of each other.
const ASPECT_TOLERANCE = 0.02;

// Compares two pictures with a slider, or side by side if their aspect ratios differ.
export function Compare({ before, after }) {
  const [divider, setDivider] = useState(50);
  const [shapes, setShapes] = useState({});
  const measure = (which) => ({ target }) => setShapes((shapes) => ({ ...shapes, [which]: target.naturalWidth / target.naturalHeight, [`${which}Size`]: `${target.naturalWidth} × ${target.naturalHeight}` }));
  const differ = shapes.before && shapes.after && Math.abs(shapes.before / shapes.after - 1) > ASPECT_TOLERANCE;
  const first = html`<img src=${before} alt="Before" onLoad=${measure('before')} />`;
  const second = html`<img src=${after} alt="After" data-result onLoad=${measure('after')} />`;
  if (differ) return html`<div class="pair"><div>${first}<span>Before</span></div><div>${second}<span>After</span></div></div>`;
  return html`<div class="compare" style=${{ '--at': `${divider}%` }}>
    ${second}<div class="over">${first}</div>
    <span class="line" aria-hidden="true"></span>
    <input type="range" min="0" max="100" value=${divider} aria-label="Compare before and after" onInput=${(event) => setDivider(Number(event.target.value))} />
    <span class="corner left" aria-hidden="true">Before${shapes.beforeSize && html` <small>${shapes.beforeSize}</small>`}</span>
    <span class="corner right" aria-hidden="true">After${shapes.afterSize && html` <small>${shapes.afterSize}</small>`}</span>
  </div>`;
}
