// Element ids and idempotency keys.
import { useRef } from './dom.js';

let ids = 0;

// Returns an element id that stays the same across renders.
export function useElementId(kind) {
  const id = useRef(null);
  id.current ??= `${kind}-${(ids += 1)}`;
  return id.current;
}

// Creates an idempotency key. `crypto.randomUUID` is not available on plain http.
export const newIdempotencyKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
