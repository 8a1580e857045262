import { linesOf } from "./lines.js";

/** A server-sent event. */
export interface ServerEvent {
  kind: string;
  id: string;
  data: string;
}

/** Yields the events of a stream, as the HTML standard defines them. */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void, undefined> {
  let event = { kind: "", id: "", data: [] as string[] };
  for await (const line of linesOf(body)) {
    if (line === "") {
      if (event.data.length > 0) yield { ...event, data: event.data.join("\n") };
      event = { kind: "", id: "", data: [] };
      continue;
    }
    const [field = "", ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    if (field === "event") event.kind = value;
    if (field === "id") event.id = value;
    if (field === "data") event.data.push(value);
  }
}
