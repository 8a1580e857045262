// Waveform of a sound.
import { html, useEffect, useState } from '../core/dom.js';

const BARS = 96;
// Sample rate that suffices for a waveform.
const RATE = 8000;
// Lower limit of the loudest sample, so that a silent sound is not divided by zero.
const PEAK_MIN = 0.001;

// Heights of the picture and of its highest bar.
const HEIGHT = 64;
const BAR_HEIGHT_MAX = 60;
// Peak that is drawn while the sound is not decoded.
const FLAT = 0.04;

// Returns the loudest sample of each of `BARS` parts, relative to the loudest of all.
async function peaksOf(bytes) {
  const sound = await new OfflineAudioContext(1, RATE, RATE).decodeAudioData(bytes);
  const samples = sound.getChannelData(0);
  const length = Math.max(1, Math.floor(samples.length / BARS));
  const peaks = Array.from({ length: BARS }, (_, index) => samples.subarray(index * length, (index + 1) * length).reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0));
  const loudest = Math.max(...peaks, PEAK_MIN);
  return peaks.map((peak) => peak / loudest);
}

// `read` returns the bytes of the sound at `address`, and is called again when the address changes. If the bytes cannot
// be decoded, the waveform stays flat. A click seeks in the `player`.
export function Waveform({ read, address, player }) {
  const [peaks, setPeaks] = useState(null);
  const [played, setPlayed] = useState(0);
  useEffect(() => {
    let isUnmounted = false;
    read().then(peaksOf).then((peaks) => { if (!isUnmounted) setPeaks(peaks); }, () => {});
    return () => { isUnmounted = true; };
  }, [address]);
  useEffect(() => {
    const audio = player.current;
    const follow = () => setPlayed(audio.duration ? audio.currentTime / audio.duration : 0);
    audio?.addEventListener('timeupdate', follow);
    return () => audio?.removeEventListener('timeupdate', follow);
  }, [player.current]);
  const seek = ({ currentTarget, clientX }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    if (player.current?.duration) player.current.currentTime = player.current.duration * (clientX - left) / width;
  };
  return html`<svg class="waveform" viewBox=${`0 0 ${BARS * 4} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label="Waveform" data-decoded=${peaks ? 'true' : undefined} onClick=${seek}>
    ${(peaks ?? Array(BARS).fill(FLAT)).map((peak, index) => {
      const height = Math.max(2, peak * BAR_HEIGHT_MAX);
      return html`<rect key=${index} class=${index < played * BARS ? 'played' : ''} x=${index * 4} y=${(HEIGHT - height) / 2} width="2.6" height=${height} rx="1.3" />`;
    })}</svg>`;
}
