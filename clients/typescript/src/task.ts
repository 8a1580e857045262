/** JSON schema of a parameter. */
export interface Schema {
  /** Fields of an object. */
  properties?: Record<string, Schema>;
  /** Entries of a list. */
  items?: Schema;
  [keyword: string]: unknown;
}

/** A job that the service takes. */
export interface Job {
  job: string;
  medium: "image" | "video" | "music";
  path: string;
  /** `true` if a vendor or the built-in engine takes it now. */
  available: boolean;
  /** Fields, with the keywords of their JSON schemas. */
  parameters: (Schema & { name: string; required: boolean })[];
}

/** A submitted job, as `GET /tasks/{task_id}` returns it. */
export interface Task {
  task_id: string;
  kind: string;
  /** State in the spelling of its medium, such as `IN_PROGRESS` or `processing`. */
  state: string;
  /** Progress from 0 to 1. */
  progress: number;
  /** Price in credits. */
  cost: number;
  cost_state: "held" | "charged" | "refunded";
  created_at: string;
  updated_at: string;
  /** URLs of the results. */
  generated: string[];
  error?: { code: string; message: string };
  [field: string]: unknown;
}

export const hasSucceeded = (task: Task): boolean => task.state === "COMPLETED" || task.state === "success";

export const hasFailed = (task: Task): boolean => task.state === "FAILED" || task.state === "failed";

export const hasEnded = (task: Task): boolean => hasSucceeded(task) || hasFailed(task);
