// Observable values, and a hook that renders a component again when a value changes.
import { useEffect, useState } from './dom.js';

// Creates a store of `value`. `follow` calls `reader` after each change and returns a function that unsubscribes.
export function store(value) {
  const readers = new Set();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const reader of [...readers]) reader(value);
    },
    follow(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },
  };
}

// Returns the value of a store, and renders the component again when it changes.
export function useStore(followed) {
  const [value, setValue] = useState(followed.get());
  useEffect(() => {
    // The value may have changed between the first render and the subscription.
    setValue(followed.get());
    return followed.follow(setValue);
  }, [followed]);
  return value;
}
