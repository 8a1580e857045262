// Fields of a job: the important ones first, the others in groups.
import { html, useEffect, useMemo, useState } from '../core/dom.js';
import { arrange, infoOf } from '../core/job_info.js';
import { applyChange, fields, isEmpty } from '../core/schema.js';
import { Field } from './fields.js';
import { lazy } from './lazy.js';

const VideoPicker = lazy(() => import('./video_picker.js'), 'VideoPicker');

// Fields that the choice of a video fills in.
const VIDEO_FIELDS = ['video_creation_id', 'video_url'];

// `report` has the understood and ignored words of the last run's prompt.
export function JobFields({ document, job, schema, values, onChange, problem, report, user }) {
  const { main, groups } = useMemo(() => arrange(job, fields(document, schema)), [document, job]);
  const { samples, prompts } = infoOf(job);
  const change = (name) => (value) => onChange((before) => ({ ...before, [name]: applyChange(value, before?.[name]) }));
  const draw = (field) => html`<${Field} key=${field.name} brief ...${{ document, field, problem, samples }} pointer=${`/${field.name}`} value=${values[field.name]} onChange=${change(field.name)}>
    ${field.name === 'prompt' && html`<${Prompts} prompts=${prompts} onChoose=${change('prompt')} /><${PromptReport} of=${report} />`}</${Field}>`;
  const takesVideo = main.some(({ name }) => name === 'video_creation_id');
  const isFaulty = (list) => list.some(({ name }) => problem?.errors?.some((fault) => `${fault.pointer}/`.startsWith(`/${name}/`)));
  const isFilled = (list) => list.some(({ name }) => !isEmpty(values[name]));
  const videoFields = main.filter(({ name }) => VIDEO_FIELDS.includes(name));
  const grouped = groups.flatMap(([, list]) => list);
  return html`${takesVideo && html`<${VideoPicker} chosen=${values.video_creation_id} user=${user}
      onChoose=${(task) => onChange((before) => ({ ...before, video_creation_id: task.task_id, video_url: task.generated[0] }))} />`}
    ${main.filter(({ name }) => !takesVideo || !VIDEO_FIELDS.includes(name)).map(draw)}
    ${takesVideo && html`<${Advanced} name="Another video, by id and URL" faulty=${isFaulty(videoFields)}>${videoFields.map(draw)}</${Advanced}>`}
    ${grouped.length > 0 && html`<${Advanced} faulty=${isFaulty(grouped)} filled=${isFilled(grouped)}>
      ${groups.map(([name, list]) => html`<section key=${name} class="field-group" aria-label=${name}><h3>${name}</h3>${list.map(draw)}</section>`)}</${Advanced}>`}`;
}

// Collapsed fields. Opens if a field inside is filled in or invalid.
function Advanced({ name = 'Advanced', faulty, filled = false, children }) {
  const [isOpen, setIsOpen] = useState(filled);
  useEffect(() => { if (faulty || filled) setIsOpen(true); }, [faulty, filled]);
  return html`<details class="advanced" open=${isOpen} onToggle=${({ target }) => setIsOpen(target.open)}><summary>${name}</summary>
    <div>${children}</div></details>`;
}

function Prompts({ prompts, onChoose }) {
  if (!prompts) return null;
  return html`<ul class="prompts" aria-label="Examples">${prompts.map((prompt) => html`<li key=${prompt}>
    <button type="button" class="chip-button" onClick=${() => onChoose(prompt)}>${prompt}</button></li>`)}</ul>`;
}

// Words of the prompt that had an effect, and those that had none.
export function PromptReport({ of }) {
  if (!of) return null;
  const list = (name, words, tone) => words.length > 0 && html`<li><span class="unseen">${name}: </span>${words.map((word) => html`<span key=${word} class="word ${tone}">${word}</span> `)}</li>`;
  return html`<div class="report" role="status"><p class="hint">${of.understood.length ? 'Words of the last run' : 'No word of the last run was understood'}</p>
    <ul>${list('Understood', of.understood, 'good')}${list('Ignored', of.ignored, 'ignored')}</ul></div>`;
}
