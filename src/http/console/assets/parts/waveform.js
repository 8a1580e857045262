// Waveform of a sound.
import { html, useEffect, useState } from '../core/dom.js';

const BARS = 96;
// Sample rate that suffices for a waveform.
const RATE = 8000;
// Minimum peak, so that silence is not divided by zero.
const PEAK_MIN = 0.001;

// Returns the loudest sample of each of `BARS` parts, relative to the loudest of all.
async function peaksOf(bytes) {
  const sound = await new OfflineAudioContext(1, RATE, RATE).decodeAudioData(bytes);
  const samples = sound.getChannelData(0);
  const length = Math.max(1, Math.floor(samples.length / BARS));
  const peaks = Array.from({ length: BARS }, (_, index) => samples.subarray(index * length, (index + 1) * length).reduce((most, sample) => Math.max(most, Math.abs(sample)), 0));
  const most = Math.max(...peaks, PEAK_MIN);
  return peaks.map((peak) => peak / most);
}

// `read` returns the bytes of the sound. If they cannot be decoded, the waveform stays flat. A click moves the `player`.
export function Waveform({ read, about, player }) {
  const [peaks, setPeaks] = useState(null);
  const [played, setPlayed] = useState(0);
  useEffect(() => {
    let isGone = false;
    read().then(peaksOf).then((peaks) => { if (!isGone) setPeaks(peaks); }, () => {});
    return () => { isGone = true; };
  }, [about]);
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
  return html`<svg class="waveform" viewBox=${`0 0 ${BARS * 4} 64`} preserveAspectRatio="none" role="img" aria-label="Waveform" data-decoded=${peaks ? 'true' : undefined} onClick=${seek}>
    ${(peaks ?? Array(BARS).fill(0.04)).map((peak, index) => {
      const height = Math.max(2, peak * 60);
      return html`<rect key=${index} class=${index < played * BARS ? 'played' : ''} x=${index * 4} y=${32 - height / 2} width="2.6" height=${height} rx="1.3" />`;
    })}</svg>`;
}
