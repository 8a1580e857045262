// Audio player that plays while data arrives if the browser supports it, otherwise after the end.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { bytes } from '../core/format.js';
import { Icon, Tags } from './basic.js';
import { Waveform } from './waveform.js';

const canGrow = (type) => Boolean(type && globalThis.MediaSource?.isTypeSupported(type));

// Player of one piece; use a new key for another piece.
export function Music({ heard, over }) {
  const player = useRef(null);
  const [address, set] = useState(null);
  const grows = canGrow(heard.type);
  const title = heard.titles[0];
  useGrowing(player, heard, over, grows);
  useEffect(() => {
    if (!over || !heard.bytes) return undefined;
    const url = URL.createObjectURL(new Blob(heard.parts, { type: heard.type }));
    set(url);
    return () => URL.revokeObjectURL(url);
  }, [over]);
  // Without streaming support the player appears after the end.
  return html`<figure class="result music">
    <div class="title"><${Icon} name="music" /><div><strong>${title ?? (over ? 'Music' : 'Composing')}</strong><${Tags} of=${heard.tags} label="Tags" /></div>
      </div>
    ${over && heard.bytes > 0 && html`<${Waveform} about=${address} read=${() => new Blob(heard.parts).arrayBuffer()} player=${player} />`}
    ${(grows || address) && html`<audio ref=${player} controls src=${grows ? undefined : address} aria-label=${title ?? 'Result'}></audio>`}
    <figcaption><span class="muted">${loadedSize(heard)}</span>
      ${address && html`<a class="button quiet small" href=${address} download=${`${title ?? 'music'}.${extension(heard.type)}`}>
        <${Icon} name="download" />Download</a>`}</figcaption>
  </figure>`;
}

// Received seconds if known, otherwise bytes.
function loadedSize({ secondsLoaded, bytes: size, seconds }) {
  if (!secondsLoaded) return `${bytes(size)}${seconds ? ` of ${Math.round(seconds)} s` : ''}`;
  return `${Math.floor(secondsLoaded)}${seconds ? ` of ${Math.round(seconds)}` : ''} s, ${bytes(size)}`;
}

const extension = (type) => ({ 'audio/mpeg': 'mp3', 'audio/wav': 'wav', 'audio/ogg': 'ogg', 'audio/flac': 'flac', 'audio/webm': 'webm', 'audio/aac': 'aac', 'audio/mp4': 'm4a' })[type] ?? 'audio';

function useGrowing(player, heard, over, grows) {
  const growing = useRef(null);
  useEffect(() => {
    if (!grows) return undefined;
    const source = new MediaSource();
    growing.current = { source, buffer: null, given: 0 };
    const address = URL.createObjectURL(source);
    player.current.src = address;
    source.addEventListener('sourceopen', () => {
      // The player may be gone by now.
      if (growing.current?.source !== source) return;
      growing.current.buffer = source.addSourceBuffer(heard.type);
      growing.current.buffer.addEventListener('updateend', () => feed(growing.current));
      feed(growing.current);
    }, { once: true });
    return () => { growing.current = null; URL.revokeObjectURL(address); };
  }, [grows]);
  if (growing.current) Object.assign(growing.current, { parts: heard.parts, over });
  useEffect(() => feed(growing.current), [heard.parts.length, over, grows]);
}

function feed(growing) {
  if (!growing?.buffer || growing.buffer.updating || growing.source.readyState !== 'open') return;
  const { parts, given, over, buffer, source } = growing;
  if (given < parts.length) {
    growing.given += 1;
    buffer.appendBuffer(parts[given]);
  } else if (over) source.endOfStream();
}
