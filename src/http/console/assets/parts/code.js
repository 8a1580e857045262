// A request as a program, in several languages.
import { html, useRef, useState } from '../core/dom.js';
import { root } from '../core/api.js';
import { collectFiles } from '../core/curl.js';
import { useElementId } from '../core/identity.js';
import { bodyOf } from '../core/openapi.js';
import { body } from '../core/schema.js';
import { LANGUAGES } from '../core/snippets.js';
import { Code, Icon } from './basic.js';
import { saveFile } from './save.js';

const NAMES = Object.keys(LANGUAGES);
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

// The request of a form.
export function RequestCode({ document, job, values }) {
  const { schema, mediaType } = bodyOf(document, job);
  const { all, of } = collectFiles();
  const json = body(document, schema, values, of);
  return html`<${ProgramTabs} address=${new URL(job.path.slice(1), root).href} request=${mediaType === 'multipart/form-data' ? { form: json } : { json }}>
    ${all.size > 0 && html`<p class="row files"><span class="muted small">Files to save beside it:</span>
      ${[...all].map(([name, { file }]) => html`<button key=${name} type="button" class="button quiet small" onClick=${() => saveFile(file, name)}>
        <${Icon} name="download" />${name}</button>`)}</p>`}</${ProgramTabs}>`;
}

// A request as a program, with a tab for each language.
export function ProgramTabs({ address, request, children }) {
  const [language, setLanguage] = useState(NAMES[0]);
  const id = useElementId('code');
  const tabs = useRef(null);
  const onKey = (event) => {
    if (!STEPS[event.key]) return;
    const next = (NAMES.indexOf(language) + STEPS[event.key] + NAMES.length) % NAMES.length;
    setLanguage(NAMES[next]);
    tabs.current.children[next].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label="Language" ref=${tabs} onKeyDown=${onKey}>${NAMES.map((name) => html`
      <button key=${name} type="button" role="tab" id=${`${id}-${name}`} aria-controls=${`${id}-panel`} aria-selected=${name === language ? 'true' : 'false'} tabindex=${name === language ? 0 : -1}
        onClick=${() => setLanguage(name)}>${name}</button>`)}</div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${language}`}>
      <${Code} label=${`${language} code`} text=${LANGUAGES[language](address, request)} />
      ${request.token !== false && html`<p class="muted small">Set <code>TOKEN</code> in the environment to your token.</p>`}
      ${children}</div>`;
}
