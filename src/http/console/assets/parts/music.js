// Audio player of a music stream. Plays while data arrives if the browser supports it, otherwise after the end.
import { html, useEffect, useRef, useState } from '../core/dom.js';
import { bytes } from '../core/format.js';
import { Icon, Tags } from './basic.js';
import { Waveform } from './waveform.js';

const canPlayGrowing = (type) => Boolean(type && globalThis.MediaSource?.isTypeSupported(type));

// Player of one piece; use a new key for another piece.
export function Music({ music, over }) {
  const player = useRef(null);
  const [address, setAddress] = useState(null);
  const grows = canPlayGrowing(music.type);
  const title = music.titles[0];
  useGrowing(player, music, over, grows);
  useEffect(() => {
    if (!over || !music.bytes) return undefined;
    const url = URL.createObjectURL(new Blob(music.parts, { type: music.type }));
    setAddress(url);
    return () => URL.revokeObjectURL(url);
  }, [over]);
  // Without streaming support the player appears after the end.
  return html`<figure class="result music">
    <div class="title"><${Icon} name="music" /><div><strong>${title ?? (over ? 'Music' : 'Composing')}</strong><${Tags} of=${music.tags} label="Tags" /></div>
      </div>
    ${over && music.bytes > 0 && html`<${Waveform} address=${address} read=${() => new Blob(music.parts).arrayBuffer()} player=${player} />`}
    ${(grows || address) && html`<audio ref=${player} controls src=${grows ? undefined : address} aria-label=${title ?? 'Result'}></audio>`}
    <figcaption><span class="muted">${loadedSize(music)}</span>
      ${address && html`<a class="button quiet small" href=${address} download=${`${title ?? 'music'}.${extension(music.type)}`}>
        <${Icon} name="download" />Download</a>`}</figcaption>
  </figure>`;
}

// Describes how much was received: seconds if known, otherwise bytes.
function loadedSize({ secondsLoaded, bytes: size, seconds }) {
  if (!secondsLoaded) return `${bytes(size)}${seconds ? ` of ${Math.round(seconds)} s` : ''}`;
  return `${Math.floor(secondsLoaded)}${seconds ? ` of ${Math.round(seconds)}` : ''} s, ${bytes(size)}`;
}

const extension = (type) => ({ 'audio/mpeg': 'mp3', 'audio/wav': 'wav', 'audio/ogg': 'ogg', 'audio/flac': 'flac', 'audio/webm': 'webm', 'audio/aac': 'aac', 'audio/mp4': 'm4a' })[type] ?? 'audio';

// Feeds the chunks of the music to the player as they arrive, if `grows`.
function useGrowing(player, music, over, grows) {
  const feedState = useRef(null);
  useEffect(() => {
    if (!grows) return undefined;
    const source = new MediaSource();
    feedState.current = { source, buffer: null, appended: 0 };
    const address = URL.createObjectURL(source);
    player.current.src = address;
    source.addEventListener('sourceopen', () => {
      // The player may be gone by now.
      if (feedState.current?.source !== source) return;
      feedState.current.buffer = source.addSourceBuffer(music.type);
      feedState.current.buffer.addEventListener('updateend', () => feed(feedState.current));
      feed(feedState.current);
    }, { once: true });
    return () => { feedState.current = null; URL.revokeObjectURL(address); };
  }, [grows]);
  if (feedState.current) Object.assign(feedState.current, { parts: music.parts, over });
  useEffect(() => feed(feedState.current), [music.parts.length, over, grows]);
}

// Appends the next chunk to the buffer, which takes one at a time, or ends the stream after the last one.
function feed(feedState) {
  if (!feedState?.buffer || feedState.buffer.updating || feedState.source.readyState !== 'open') return;
  const { parts, appended, over, buffer, source } = feedState;
  if (appended < parts.length) {
    feedState.appended += 1;
    buffer.appendBuffer(parts[appended]);
  } else if (over) source.endOfStream();
}
