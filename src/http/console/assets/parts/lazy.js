// Components that are loaded when they are shown for the first time.
import { html, useEffect, useState } from '../core/dom.js';
import { Problem } from '../core/api.js';
import { ErrorMessage, Skeleton } from './basic.js';

// Returns a component that loads a module with `load` and then renders its export `name`. Until then, it renders
// `frame(skeleton)`. Its `preload` starts loading before the component is shown.
export function lazy(load, name, frame = (content) => content) {
  let Found;
  let loading;
  const preload = () => {
    loading ??= load().then((module) => { Found = module[name]; });
    // The component reports a failure when it is shown; a later visit loads again.
    loading.catch(() => { loading = undefined; });
    return loading;
  };
  function Lazy(props) {
    const [, redraw] = useState(0);
    const [failure, setFailure] = useState(null);
    const isLoaded = Boolean(Found);
    useEffect(() => {
      if (isLoaded) return;
      preload().then(() => redraw((count) => count + 1),
        () => setFailure(new Problem({ detail: 'A part of the console could not be loaded. Check that the service is running, then try again.' })));
    }, []);
    if (Found) return html`<${Found} ...${props} />`;
    const placeholder = failure ? html`<${ErrorMessage} problem=${failure} onRetry=${() => location.reload()} />` : html`<${Skeleton} lines=${5} />`;
    return frame(placeholder);
  }
  return Object.assign(Lazy, { preload });
}
