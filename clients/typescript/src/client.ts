import { ServiceError, TaskFailed } from "./errors.js";
import { eventsOf } from "./events.js";
import { Music } from "./music.js";
import { hasEnded, hasFailed, type Job, type Schema, type Task } from "./task.js";

/** A file to upload. URLs are given as text. */
export type File = Blob | Uint8Array<ArrayBuffer>;

/** Parameters of a job. Files, also in lists and objects, are uploaded first. */
export type Parameters = Record<string, unknown>;

/** Fields of a new version besides its number. */
export interface VersionFields {
  changelog?: string;
  dependencies?: string[];
  deprecated?: boolean;
  tags?: string[];
  supported_os?: string[];
  supported_accelerators?: string[];
  supported_host_version?: string;
  supported_host_frontend_version?: string;
  /** The service takes this and the following fields from administrators only. */
  createdAt?: string;
  status?: string;
  status_reason?: string;
  tags_admin?: string[];
  host_node_extract_status?: string;
}

export interface MediaryOptions {
  token?: string;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** Attempts to send a request or to reopen a stream. */
const ATTEMPTS = 5;
/** Statuses of a service that is busy or starting. */
const BUSY = [429, 503];
/** Longest pause between two attempts, in seconds. */
const PAUSE_MAX = 30;

/** A service, with the token of a user. */
export class Mediary {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #jobs = new Map<string, Job>();

  constructor(url: string, options: MediaryOptions = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = options.token;
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** Lists the jobs of the service. */
  async jobs(): Promise<Job[]> {
    const { models } = await this.#json<{ models: Job[] }>("GET", "/models");
    for (const job of models) this.#jobs.set(job.job, job);
    return models;
  }

  /**
   * Submits an image or video job. Throws a `TypeError` for a parameter that the job does not have, because the service
   * ignores it.
   */
  async submit(job: string, parameters: Parameters): Promise<Task> {
    const found = await this.#job(job);
    if (found.medium === "music") throw new TypeError("music is made while it is received: call stream()");
    checkNames(found, parameters);
    const body = await this.#withUploads(parameters);
    type Submitted = { task_id?: string; data?: { task_id: string } };
    const submitted = await this.#json<Submitted>("POST", found.path, body, true);
    return this.task(submitted.data?.task_id ?? submitted.task_id ?? "");
  }

  /** Submits a job and waits for its end. Throws `TaskFailed` if it fails. */
  async run(job: string, parameters: Parameters): Promise<Task> {
    return this.wait((await this.submit(job, parameters)).task_id);
  }

  /** Reads a task. */
  async task(taskId: string): Promise<Task> {
    return this.#json<Task>("GET", `/tasks/${encodeURIComponent(taskId)}`);
  }

  /** Cancels a task. One that has ended stays as it is. */
  async cancel(taskId: string): Promise<Task> {
    await this.#json("POST", `/tasks/${encodeURIComponent(taskId)}/cancel`);
    return this.task(taskId);
  }

  /** Waits for the end of a task. Throws `TaskFailed` if it fails. */
  async wait(taskId: string): Promise<Task> {
    for await (const task of this.follow(taskId)) {
      if (hasFailed(task)) throw new TaskFailed(task);
      if (hasEnded(task)) return task;
    }
    throw new Error(`the events of task ${taskId} ended before the task`);
  }

  /** Yields a task and each change of it, to its end. Reopens broken streams. */
  async *follow(taskId: string): AsyncGenerator<Task, void, undefined> {
    let lastEvent = "";
    for (let attempt = 0; ; ) {
      let failure: unknown = new Error(`the events of task ${taskId} keep breaking off`);
      try {
        const headers: Record<string, string> = lastEvent ? { "Last-Event-ID": lastEvent } : {};
        const response = await this.#send("GET", `/tasks/${encodeURIComponent(taskId)}/events`, { headers });
        if (response.status === 204 || !response.body) {
          // The task ended while the stream was broken.
          yield await this.task(taskId);
          return;
        }
        for await (const event of eventsOf(response.body)) {
          if (event.kind === "failed") break;
          attempt = 0;
          lastEvent = event.id || lastEvent;
          const task = JSON.parse(event.data) as Task;
          yield task;
          if (hasEnded(task)) return;
        }
      } catch (error) {
        failure = error;
      }
      attempt += 1;
      if (attempt === ATTEMPTS || !isTemporary(failure)) throw failure;
      await pause(attempt, failure);
    }
  }

  /** Downloads a result of a task. */
  async result(task: Task, index = 0): Promise<Response> {
    const url = task.generated[index];
    if (url === undefined) throw new RangeError(`task ${task.task_id} has ${task.generated.length} results`);
    // Results may be at another host, which must not get the token.
    return throwIfNotOk(await this.#fetch.call(globalThis, url));
  }

  /** Makes music. */
  async stream(prompt: string, options: { duration?: number; signal?: AbortSignal } = {}): Promise<Music> {
    const { path } = await this.#job("music");
    const form = new FormData();
    form.set("prompt", prompt);
    if (options.duration !== undefined) form.set("duration", String(options.duration));
    return new Music(await this.#send("POST", path, { body: form, signal: options.signal ?? null }));
  }

  /** Uploads a picture or a video, and returns the URL that stands for it in jobs. */
  async upload(file: File, name = "upload"): Promise<string> {
    const bytes = file instanceof Blob ? file.size : file.byteLength;
    type Announced = { upload_url: string; url: string };
    const announced = await this.#json<Announced>("POST", "/files", { name, bytes }, true);
    await this.#put(announced.upload_url, file, "application/octet-stream");
    return announced.url;
  }

  /**
   * Publishes a version of a node and returns it. The node is created if it is new. Continues after an upload that was
   * interrupted.
   */
  async publish(
    publisher: string,
    node: string,
    version: string,
    archive: File,
    fields: VersionFields = {},
  ): Promise<Record<string, unknown>> {
    const path = `/publishers/${encodeURIComponent(publisher)}/nodes/${encodeURIComponent(node)}/versions`;
    const body = { node_version: { version, ...fields } };
    const created = await this.#json<{ signedUrl: string }>("POST", path, body, true).catch((error: unknown) => {
      if (!(error instanceof ServiceError) || error.code !== "already_exists") throw error;
      // Only a version that has no archive yet gets another URL for one.
      const again = this.#json<{ signedUrl: string }>("POST", `${path}/${encodeURIComponent(version)}/upload`);
      return again.catch(() => Promise.reject(error));
    });
    return (await this.#put(created.signedUrl, archive, "application/zip")).json();
  }

  async #job(name: string): Promise<Job> {
    if (!this.#jobs.has(name)) await this.jobs();
    const job = this.#jobs.get(name);
    if (!job) throw new TypeError(`there is no job ${name}; the jobs are ${[...this.#jobs.keys()].join(", ")}`);
    return job;
  }

  /** Replaces files by the URLs of their uploads. */
  async #withUploads(value: unknown): Promise<unknown> {
    if (value instanceof Blob) return this.upload(value);
    if (value instanceof Uint8Array) return this.upload(value as Uint8Array<ArrayBuffer>);
    if (Array.isArray(value)) return Promise.all(value.map((entry) => this.#withUploads(entry)));
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(async ([name, entry]) => [name, await this.#withUploads(entry)]);
    return Object.fromEntries(await Promise.all(entries));
  }

  /** Sends a file, once: the URL allows one upload. */
  async #put(url: string, file: File, type: string): Promise<Response> {
    return throwIfNotOk(await this.#fetch.call(globalThis, url, { method: "PUT", body: file, headers: { "Content-Type": type } }));
  }

  /** Sends a request, again after temporary failures. With `once`, its key lets the service execute it once. */
  async #json<T>(method: string, path: string, body?: unknown, once = false): Promise<T> {
    const headers: Record<string, string> = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (once) headers["Idempotency-Key"] = crypto.randomUUID();
    const init = { headers, body: body === undefined ? null : JSON.stringify(body) };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return (await (await this.#send(method, path, init)).json()) as T;
      } catch (error) {
        const mayRepeat = once || method === "GET";
        if (attempt === ATTEMPTS || !mayRepeat || !isTemporary(error)) throw error;
        await pause(attempt, error);
      }
    }
  }

  async #send(method: string, path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#token) headers.set("Authorization", `Bearer ${this.#token}`);
    return throwIfNotOk(await this.#fetch.call(globalThis, this.#url + path, { ...init, method, headers }));
  }
}

/** Throws for the first name that is not a parameter of the job, also in objects and lists. */
function checkNames({ job, parameters }: Job, values: Parameters): void {
  checkObject(job, values, Object.fromEntries(parameters.map((parameter) => [parameter.name, parameter])), "");
}

function checkObject(job: string, values: Parameters, known: Record<string, Schema>, place: string): void {
  for (const [name, value] of Object.entries(values)) {
    const schema = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!schema) {
      const names = Object.keys(known).join(", ");
      throw new TypeError(`${job} has no parameter ${name}${place}; its parameters are ${names}`);
    }

    const inner = schema.properties ?? schema.items?.properties;
    if (!inner) continue;
    for (const entry of Array.isArray(value) ? value : [value]) {
      if (isObject(entry)) checkObject(job, entry, inner, ` in ${name}`);
    }
  }
}

/** Returns `true` for an object of fields: neither a list nor a file. */
function isObject(value: unknown): value is Parameters {
  const isFile = value instanceof Blob || value instanceof Uint8Array;
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isFile;
}

/** Returns a successful response, and throws for others. */
async function throwIfNotOk(response: Response): Promise<Response> {
  if (!response.ok) throw await ServiceError.fromResponse(response);
  return response;
}

/** Returns `true` if the same request may succeed later. A quota of a day is not worth waiting for. */
function isTemporary(error: unknown): boolean {
  if (error instanceof ServiceError) return BUSY.includes(error.status) && error.code !== "quota_exceeded";
  // `fetch` reports a broken connection as a TypeError.
  return error instanceof TypeError || (error instanceof Error && error.name === "Error");
}

async function pause(attempt: number, error: unknown): Promise<void> {
  const requested = error instanceof ServiceError ? error.retryAfter : undefined;
  const seconds = Math.min(requested ?? 0.25 * 2 ** attempt, PAUSE_MAX);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
