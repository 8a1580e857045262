// Form fields with the limits, defaults, choices and descriptions of a schema.
import { html, useEffect, useMemo, useState } from '../core/dom.js';
import { count, toWords } from '../core/format.js';
import { useElementId } from '../core/identity.js';
import { describeLimits, applyChange, fields, initialValue, isEmpty } from '../core/schema.js';
import { plain } from '../core/openapi.js';
import { Icon } from './basic.js';
import { Picture } from './picture.js';
import { inline } from './inline.js';

// Forms with at least this many fields collapse those that are rarely used.
const FOLDED_FROM = 13;

// Fields of a schema. `pointer` is their location in the body, by which errors are matched.
export function Fields({ document, schema, values, onChange, problem, samples, pointer = '', skip = [], brief }) {
  const all = useMemo(() => fields(document, schema).filter((field) => !skip.includes(field.name)), [document, schema]);
  // A single required group needs no frame.
  const group = all.length === 1 && all[0].kind === 'group' && all[0].required ? all[0] : null;
  if (group) {
    return html`<${Fields} ...${{ document, problem, samples, brief }} schema=${group.schema} pointer=${`${pointer}/${group.name}`} values=${values?.[group.name]}
      onChange=${(value) => onChange((before) => ({ ...before, [group.name]: applyChange(value, before?.[group.name] ?? {}) }))} />`;
  }
  const change = (name) => (value) => onChange((before) => ({ ...before, [name]: applyChange(value, before?.[name]) }));
  const drawn = (fields) => fields.map((field) => html`<${Field} key=${field.name} ...${{ document, field, problem, samples, brief }} pointer=${`${pointer}/${field.name}`}
    value=${values?.[field.name]} onChange=${change(field.name)} />`);
  const folded = all.length < FOLDED_FROM ? [] : all.filter((field) => !field.first);
  if (folded.length === 0) return drawn(all);
  const isFaulty = folded.some(({ name }) => problem?.errors?.some((fault) => `${fault.pointer}/`.startsWith(`${pointer}/${name}/`)));
  return html`${drawn(all.filter((field) => field.first))}
    <${Folded} name=${count(folded.length, 'more field')} open=${isFaulty} filled=${folded.some(({ name }) => !isEmpty(values?.[name]))}>${drawn(folded)}</${Folded}>`;
}

// Collapsed fields. Opens if a field inside is filled in or invalid.
function Folded({ name, open, filled, children }) {
  const [isOpen, setIsOpen] = useState(filled);
  useEffect(() => { if (open) setIsOpen(true); }, [open]);
  return html`<details class="field more folded" open=${isOpen} onToggle=${({ target }) => setIsOpen(target.open)}><summary>${name}</summary>
    <div>${children}</div></details>`;
}

// Returns the first sentence of a description. Periods within abbreviations and file names do not end it.
const firstSentence = (text) => text?.split(/(?<=[.;])\s+(?=[A-Z`])/)[0];

// Returns the description and the limits of a field. A description that only repeats the name is left out, and so are limits
// that the description already states.
function hintOf({ name }, description = '', limits) {
  const isName = description.replace(/\.$/, '').toLowerCase() === toWords(name).toLowerCase();
  return [!isName && description, !description.endsWith(` ${limits}`) && limits].filter(Boolean).join(' ');
}

// One field; `brief` shortens its description. `samples` has the sample pictures by field name; `children` follow the hints.
export function Field({ document, field, value, onChange, problem, samples, pointer, brief, children }) {
  const id = useElementId('field');
  const fault = problem?.at?.(pointer);
  const limits = describeLimits(field).replace(/^./, (first) => first.toUpperCase()).replace(/.$/, '$&.');
  const about = hintOf(field, brief ? firstSentence(field.schema.description) : field.schema.description, limits);
  const hints = html`
    ${about && html`<p class="hint" id=${`${id}-about`}>${inline(about)}</p>`}
    ${fault && html`<p class="fault" id=${`${id}-fault`}><${Icon} name="warn" />${fault}</p>`}`;
  const described = [about && `${id}-about`, fault && `${id}-fault`].filter(Boolean).join(' ') || undefined;
  const shared = { id, 'aria-describedby': described, 'aria-invalid': fault ? 'true' : undefined };
  const name = toWords(field.name);
  const needed = field.required ? 'required' : field.either && `${field.either.map(toWords).join(' or ')} is required`;
  const label = html`${name}${needed && html` <span class="required">${needed}</span>`}`;
  if (field.kind === 'group' || field.kind === 'groups') {
    const Inner = field.kind === 'group' ? Group : Groups;
    return html`<${Inner} ...${{ document, field, value, onChange, problem, samples, pointer, label, hints, brief }} />`;
  }
  if (field.kind === 'flag') {
    return html`<div class="field flag ${fault ? 'faulty' : ''}">
      <label><input type="checkbox" ...${shared} checked=${value ?? initialValue(field) ?? false} onChange=${(event) => onChange(event.target.checked)} />
        <span>${label}</span></label>${hints}</div>`;
  }
  if (field.kind === 'picture' || field.kind === 'pictures') {
    return html`<div class="field ${fault ? 'faulty' : ''}"><span class="label">${label}</span>
      <${field.kind === 'picture' ? Picture : Pictures} label=${name} value=${value} onChange=${onChange} describedBy=${described}
        invalid=${Boolean(fault)} samples=${samples?.[field.name]} most=${field.schema.maxItems} />${hints}${children}</div>`;
  }
  return html`<div class="field ${field.kind} ${fault ? 'faulty' : ''}"><label for=${id}>${label}</label>
    <${Input} ...${{ field, value, onChange, shared }} />${hints}${children}</div>`;
}

function Input({ field: { kind, schema, required, name }, value, onChange, shared }) {
  const take = (event) => onChange(event.target.value);
  const preset = schema.default;
  switch (kind) {
    case 'choice':
      return html`<div class="select"><select ...${shared} value=${value ?? preset ?? ''} onChange=${take}>
        ${preset === undefined && html`<option value="">${required ? 'Choose' : 'Not set'}</option>`}
        ${schema.enum.map((choice) => html`<option key=${choice} value=${choice} selected=${choice === (value ?? preset)}>
          ${choice}${choice === preset ? ' (default)' : ''}</option>`)}
      </select></div>`;
    case 'range': {
      const middle = preset ?? schema.minimum;
      return html`<div class="slider">
        <input type="range" ...${shared} min=${schema.minimum} max=${schema.maximum} step=${schema.type === 'integer' ? 1 : 'any'}
          value=${value ?? middle} onInput=${take} />
        <input type="number" aria-label=${`${toWords(name)}, as a number`} min=${schema.minimum} max=${schema.maximum} value=${value ?? preset ?? ''} placeholder="–" onInput=${take} /></div>`;
    }
    case 'number':
      return html`<input type="number" ...${shared} min=${schema.minimum} max=${schema.maximum} value=${value ?? ''} placeholder=${preset ?? ''} onInput=${take} />`;
    case 'long': case 'json':
      return html`<textarea ...${shared} rows=${kind === 'json' ? 5 : 3} value=${value ?? ''} placeholder=${kind === 'json' ? '{ }' : preset ?? ''} onInput=${take}></textarea>`;
    case 'list':
      return html`<textarea ...${shared} rows="3" placeholder="one per line" value=${Array.isArray(value) ? value.join('\n') : value ?? ''} onInput=${take}></textarea>`;
    case 'url':
      return html`<input type="url" ...${shared} value=${value ?? ''} placeholder="https://…" onInput=${take} />`;
    default:
      return html`<input type="text" ...${shared} value=${value ?? ''} placeholder=${preset ?? ''} required=${required} autocomplete="off" onInput=${take} />`;
  }
}

function Group({ document, field, value, onChange, problem, pointer, label, hints, brief }) {
  const faulty = problem?.errors?.some((fault) => fault.pointer.startsWith(`${pointer}/`));
  if (field.required) {
    return html`<fieldset class="field group"><legend>${label}</legend>${hints}
      <${Fields} ...${{ document, problem, pointer, brief }} schema=${field.schema} values=${value ?? {}} onChange=${onChange} /></fieldset>`;
  }
  return html`<details class="field group" open=${faulty || undefined}><summary>${label}</summary>${hints}
    <${Fields} ...${{ document, problem, pointer, brief }} schema=${field.schema} values=${value ?? {}} onChange=${onChange} /></details>`;
}

function Groups({ document, field, value, onChange, problem, samples, pointer, label, hints, brief }) {
  const schema = plain(document, field.schema.items);
  const least = field.schema.minItems ?? 0;
  const padded = (value) => (value?.length ? value : Array.from({ length: least }, () => ({})));
  const entries = padded(value);
  const setEntry = (position, entry) => onChange((before) => padded(before).map((current, index) => (index === position ? applyChange(entry, current) : current)));
  const most = field.schema.maxItems ?? Infinity;
  return html`<fieldset class="field groups"><legend>${label}</legend>${hints}
    ${entries.map((entry, position) => html`<fieldset key=${position}><legend>${position + 1}</legend>
      <${Fields} ...${{ document, schema, problem, brief }} samples=${rotate(samples, position)} pointer=${`${pointer}/${position}`} values=${entry} onChange=${(entry) => setEntry(position, entry)} />
      ${entries.length > least && html`<button type="button" class="button quiet small" onClick=${() => onChange((before) => before.filter((_, index) => index !== position))}>Remove</button>`}</fieldset>`)}
    ${entries.length < most && html`<button type="button" class="button quiet small" onClick=${() => onChange((before) => [...padded(before), {}])}>
      <${Icon} name="plus" />Add</button>`}</fieldset>`;
}

// Returns one sample for each field, so that consecutive entries of a list offer different ones.
const rotate = (samples, by) => samples && Object.fromEntries(Object.entries(samples).map(([name, files]) => [name, [files[by % files.length]]]));

function Pictures({ label, value = [], onChange, most = 7, samples, ...others }) {
  const setPicture = (position, picture) => onChange((before = []) => (picture ? Object.assign([...before], { [position]: picture }) : before.filter((_, index) => index !== position)));
  const places = value.length < most ? [...value, undefined] : value;
  return html`<div class="pictures">${places.map((picture, index) => html`
    <${Picture} key=${index} label=${`${label} ${index + 1}`} value=${picture} onChange=${(picture) => setPicture(index, picture)} samples=${samples && [samples[index % samples.length]]} ...${others} />`)}</div>`;
}
