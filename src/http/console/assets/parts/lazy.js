// Components that are loaded when they are shown for the first time.
import { html, useEffect, useState } from '../core/dom.js';
import { Problem } from '../core/api.js';
import { ErrorMessage, Skeleton } from './basic.js';

// Returns the component `name` of a module. While `load` runs, a skeleton is shown, inside of what `frame` draws.
export function lazy(load, name, frame = (content) => content) {
  let Found;
  return function Lazy(props) {
    const [, redraw] = useState(0);
    const [failure, fail] = useState(null);
    const look = () => {
      fail(null);
      load().then((module) => { Found = module[name]; redraw((count) => count + 1); },
        () => fail(new Problem({ detail: 'A part of the console could not be loaded. Check that the service is running, then try again.' })));
    };
    useEffect(() => { if (!Found) look(); }, []);
    if (Found) return html`<${Found} ...${props} />`;
    const placeholder = failure ? html`<${ErrorMessage} problem=${failure} again=${() => location.reload()} />` : html`<${Skeleton} lines=${5} />`;
    return frame(placeholder);
  };
}
