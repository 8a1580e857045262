// Components that are loaded when they are shown for the first time.
import { html, useEffect, useState } from '../core/dom.js';
import { Problem } from '../core/api.js';
import { ErrorMessage, Skeleton } from './basic.js';

// Returns a component that loads a module with `load` and then renders its export `name`. Until then, it renders
// `frame(skeleton)`.
export function lazy(load, name, frame = (content) => content) {
  let Found;
  return function Lazy(props) {
    const [, redraw] = useState(0);
    const [failure, setFailure] = useState(null);
    const start = () => {
      setFailure(null);
      load().then((module) => { Found = module[name]; redraw((count) => count + 1); },
        () => setFailure(new Problem({ detail: 'A part of the console could not be loaded. Check that the service is running, then try again.' })));
    };
    useEffect(() => { if (!Found) start(); }, []);
    if (Found) return html`<${Found} ...${props} />`;
    const placeholder = failure ? html`<${ErrorMessage} problem=${failure} onRetry=${() => location.reload()} />` : html`<${Skeleton} lines=${5} />`;
    return frame(placeholder);
  };
}
