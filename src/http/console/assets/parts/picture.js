// Picture input: drop, paste, file, URL or sample.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../core/dom.js';
import { root } from '../core/api.js';
import { bytes } from '../core/format.js';
import { useElementId } from '../core/identity.js';
import { Icon, notify } from './basic.js';

const hasFiles = (event) => Boolean(event.dataTransfer?.types.includes('Files'));

// Without this, a file dropped outside an input would replace the page.
for (const kind of ['dragover', 'drop']) {
  addEventListener(kind, (event) => {
    if (event.defaultPrevented || !hasFiles(event) || event.target.closest?.('input[type=file]')) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = 'none';
  });
}

// Reads a file as a picture of a form, which is { url } or { file, name, size, base64 }.
export async function readPicture(file, name = file.name || 'picture') {
  const data = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { file, name, size: file.size, base64: data.slice(data.indexOf(',') + 1) };
}

export const encodePicture = (picture) => picture.url ?? picture.base64;

// Reads one of the sample pictures of the console.
export async function readSample(name) {
  const response = await fetch(new URL(`console/samples/${name}`, root), { credentials: 'omit' });
  return readPicture(new File([await response.blob()], name, { type: 'image/webp' }));
}

// Returns an object URL of a file, which is revoked when the component no longer shows the file.
export function useAddress(file) {
  const address = useMemo(() => file && URL.createObjectURL(file), [file]);
  useEffect(() => () => { if (address) URL.revokeObjectURL(address); }, [address]);
  return address;
}

// Returns true if a paste into a text field has text. It stays text then: word processors copy a picture along with it.
const isText = ({ target, clipboardData }) => Boolean(target.closest?.('textarea, input:not([type=file])') && clipboardData.getData('text/plain'));

export function Picture({ label, value, onChange, describedBy, invalid, samples }) {
  const [isDraggedOver, setIsDraggedOver] = useState(false);
  const isReading = useRef(false);
  const id = useElementId('picture');
  const address = useAddress(value?.file);
  const acceptFiles = async (files) => {
    const file = [...(files ?? [])].find((file) => file.type.startsWith('image/'));
    if (!file) {
      if (files?.length) notify(`${files[0].name} is not a picture`, 'warn');
      return;
    }
    isReading.current = true;
    try {
      onChange(await readPicture(file));
    } catch {
      notify(`${file.name} cannot be read`, 'warn');
    } finally {
      isReading.current = false;
    }
  };
  // Clearing the input allows the same file to be chosen again.
  const choose = ({ target }) => { acceptFiles(target.files); target.value = ''; };
  // The first empty input takes a pasted picture. A layout effect removes the listener before the next paste; with a
  // normal effect, that paste could still replace the picture.
  useLayoutEffect(() => {
    const pasted = (event) => {
      if (event.defaultPrevented || value || isReading.current || !event.clipboardData?.files.length || isText(event)) return;
      event.preventDefault();
      acceptFiles(event.clipboardData.files);
    };
    addEventListener('paste', pasted);
    return () => removeEventListener('paste', pasted);
  });
  const drag = (event) => { if (hasFiles(event)) { event.preventDefault(); setIsDraggedOver(true); } };
  const drop = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setIsDraggedOver(false);
    acceptFiles(event.dataTransfer.files);
  };
  const dropping = { onDragOver: drag, onDragLeave: () => setIsDraggedOver(false), onDrop: drop };
  if (address) {
    return html`<div class="given ${isDraggedOver ? 'over' : ''}" ...${dropping}>
      <img src=${address} alt=${`${label}: ${value.name}`} />
      <div><strong>${value.name}</strong><span class="muted small">${bytes(value.size)}</span></div>
      <button type="button" class="button quiet small" onClick=${() => onChange(undefined)} aria-label=${`Remove ${value.name}`}>Remove</button>
    </div>`;
  }
  return html`<div class="drop ${isDraggedOver ? 'over' : ''} ${invalid ? 'invalid' : ''}" ...${dropping}>
    <input id=${id} class="unseen" type="file" accept="image/png,image/jpeg,image/webp,image/gif,image/bmp,image/tiff"
      aria-label=${label} aria-describedby=${describedBy} aria-invalid=${invalid ? 'true' : undefined} onChange=${choose} />
    <label for=${id}><${Icon} name="upload" /><span><strong>Choose a picture</strong>, drop it here, or paste it</span></label>
    <div class="or">
      <input type="url" placeholder="or a URL" aria-label=${`${label}: URL`} value=${value?.url ?? ''}
        onInput=${(event) => onChange(event.target.value ? { url: event.target.value } : undefined)} />
      ${samples?.[0] && html`<button type="button" class="button quiet small" onClick=${async () => onChange(await readSample(samples[0]))}>Use sample</button>`}
    </div>
  </div>`;
}
