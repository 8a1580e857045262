// Tasks that were submitted without a token, whose ids only this browser knows.
import { store } from './store.js';

const KEY = 'mediary.tasks';
const TASKS_MAX = 24;

function read() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(stored) ? stored.filter((task) => typeof task?.id === 'string' && typeof task.job === 'string') : [];
  } catch { return []; }
}

// Newest first: id, operation id of the job, time, and the settings without pictures.
export const ownTasks = store(read());

function save(tasks) {
  ownTasks.set(tasks);
  // The storage may be full or disabled; the list then lasts until the page is left.
  try { localStorage.setItem(KEY, JSON.stringify(tasks)); } catch { /* kept in memory */ }
}

export const rememberTask = (task) => save([task, ...ownTasks.get()].slice(0, TASKS_MAX));
export const forgetTasks = () => save([]);
