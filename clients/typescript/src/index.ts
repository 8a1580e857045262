/** Client of a Mediary service: media jobs, webhooks and published nodes. */

export { Mediary, type File, type MediaryOptions, type Parameters, type VersionFields } from "./client.js";
export { ServiceError, TaskFailed, type FieldError } from "./errors.js";
export { Music } from "./music.js";
export { hasEnded, hasFailed, hasSucceeded, type Job, type Schema, type Task } from "./task.js";
export { verifyWebhook } from "./webhook.js";
