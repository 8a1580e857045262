// Observable values, and the hook that renders a component again when one changes.
import { useEffect, useState } from './dom.js';

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

export function useStore(followed) {
  const [value, setValue] = useState(followed.get());
  useEffect(() => {
    // The value may have changed between the first render and the subscription.
    setValue(followed.get());
    return followed.follow(setValue);
  }, [followed]);
  return value;
}
