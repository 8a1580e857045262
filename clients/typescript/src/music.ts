import { ServiceError } from "./errors.js";
import { linesOf } from "./lines.js";

type Line =
  | { type: "duration"; duration_sec: number }
  | { type: "title"; title: string }
  | { type: "audio_chunk"; data: string }
  | { type: "error"; code: string; message: string }
  | { type: "complete" };

/** Music, received while it is made: iterate over it for the chunks of one Ogg Opus file. */
export class Music {
  readonly taskId: string;
  title = "";
  /** Length in seconds, known from the first chunk on. */
  seconds = 0;
  readonly #body: ReadableStream<Uint8Array>;

  constructor(response: Response) {
    if (!response.body) throw new TypeError("the response has no body");
    this.#body = response.body;
    this.taskId = response.headers.get("x-task-id") ?? "";
  }

  /** Yields the chunks. The service makes the next one when this one was read, and stops when the loop is left. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const text of linesOf(this.#body)) {
      if (text.trim() === "") continue;
      const line = JSON.parse(text) as Line;
      if (line.type === "duration") this.seconds = line.duration_sec;
      if (line.type === "title") this.title = line.title;
      if (line.type === "audio_chunk") yield Uint8Array.from(atob(line.data), (char) => char.charCodeAt(0));
      if (line.type === "error") throw new ServiceError(200, { error: line.code, detail: line.message });
      if (line.type === "complete") return;
    }
    throw new Error("the music stream ended early");
  }
}
