// Create a token and show it once.
import { html, useState } from '../core/dom.js';
import { Copy, Dialog, Icon } from './basic.js';
import { OperationForm } from './form.js';

export function NewToken({ operation, path, onMade, label = 'Create token' }) {
  const [open, set] = useState(false);
  const [made, setMade] = useState(null);
  const done = (answer) => { set(false); setMade(answer.token); };
  const close = () => { setMade(null); onMade(); };
  return html`<p><button type="button" class="button quiet" onClick=${() => set(true)}><${Icon} name="plus" />${label}</button></p>
    ${open && html`<${Dialog} title=${label} onClose=${() => set(false)}>
      <${OperationForm} id=${operation} path=${path} submit="Create" onDone=${done} onCancel=${() => set(false)} /></${Dialog}>`}
    ${made && html`<${Dialog} title="New token">
      <div class="form"><p><strong>Copy it now.</strong> It is shown only once: the service stores only a hash.</p>
        <div class="code"><pre tabindex="0" aria-label="Token"><code class="secret">${made}</code></pre></div>
        <footer><${Copy} text=${made} label="Copy token" shown="Copy" /><button type="button" class="button" onClick=${close}>Done</button>
          </footer></div></${Dialog}>`}`;
}
