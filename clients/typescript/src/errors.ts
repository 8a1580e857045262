import type { Task } from "./task.js";

/** An invalid field of a request. */
export interface FieldError {
  /** JSON pointer into the body, or the name of a parameter after a slash. */
  pointer: string;
  reason: string;
  /** Value that was sent: a number, a boolean or the start of a text. Absent if the service does not repeat it. */
  value?: string | number | boolean;
}

interface Problem {
  error?: string;
  detail?: string;
  errors?: FieldError[];
}

/** The service refused a request. */
export class ServiceError extends Error {
  /** Stable code; `docs/errors.md` lists all of them. */
  readonly code: string;
  readonly fields: readonly FieldError[];

  constructor(
    readonly status: number,
    problem: Problem,
    /** Seconds after which the service asks to try again. */
    readonly retryAfter?: number,
  ) {
    super(`${status} ${problem.error ?? ""}: ${problem.detail ?? "no description"}`);
    this.name = "ServiceError";
    this.code = problem.error ?? "";
    this.fields = problem.errors ?? [];
  }

  static async fromResponse(response: Response): Promise<ServiceError> {
    // A proxy in between may send anything.
    const problem: unknown = await response.json().catch(() => ({}));
    const seconds = Number(response.headers.get("retry-after") ?? NaN);
    const isObject = typeof problem === "object" && problem !== null;
    return new ServiceError(response.status, isObject ? problem : {}, Number.isNaN(seconds) ? undefined : seconds);
  }
}

/** A task ended without a result. */
export class TaskFailed extends Error {
  /** Stable code; `docs/tasks.md` lists all of them. */
  readonly code: string;

  constructor(readonly task: Task) {
    super(`task ${task.task_id} failed: ${task.error?.code ?? ""}: ${task.error?.message ?? ""}`);
    this.name = "TaskFailed";
    this.code = task.error?.code ?? "";
  }
}
