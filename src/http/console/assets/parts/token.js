// A new token: asked for, and shown this once.
import { html, useState } from '../core/dom.js';
import { Copy, Dialog, Icon } from './basic.js';
import { OperationForm } from './form.js';

export function NewToken({ operation, path, onMade, label = 'Create a token' }) {
  const [open, set] = useState(false);
  const [made, setMade] = useState(null);
  const done = (answer) => { set(false); setMade(answer.token); };
  const close = () => { setMade(null); onMade(); };
  return html`<p><button type="button" class="button quiet" onClick=${() => set(true)}><${Icon} name="plus" />${label}</button></p>
    ${open && html`<${Dialog} title=${label} onClose=${() => set(false)}>
      <${OperationForm} id=${operation} path=${path} submit="Create" onDone=${done} onCancel=${() => set(false)} /></${Dialog}>`}
    ${made && html`<${Dialog} title="Your new token">
      <div class="form"><p><strong>Copy it now.</strong> It is shown this once: the service keeps a hash of it and nothing else.</p>
        <div class="code"><pre tabindex="0" aria-label="The token"><code class="secret">${made}</code></pre></div>
        <footer><${Copy} text=${made} label="Copy the token" shown="Copy" /><button type="button" class="button" onClick=${close}>I have it</button>
          </footer></div></${Dialog}>`}`;
}
