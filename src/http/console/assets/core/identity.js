// Ids for what has to be named: labels by elements of the page, requests by the service.
import { useRef } from './dom.js';

let ids = 0;

// An id of an element, the same at every drawing.
export function useIdentity(kind) {
  const id = useRef(null);
  id.current ??= `${kind}-${(ids += 1)}`;
  return id.current;
}

// A name for a request (`Idempotency-Key`). Not by `randomUUID`, which pages on plain http do not have.
export const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
