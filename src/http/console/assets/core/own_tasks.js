// Tasks of a caller without a token, whose ids only this browser knows.
import { store } from './store.js';

const KEY = 'mediary.tasks';
const MAX = 24;

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter((task) => typeof task?.id === 'string' && typeof task.job === 'string') : [];
  } catch { return []; }
}

// Newest first: id, operation id of the job, time, and the settings without pictures.
export const ownTasks = store(read());

function keep(tasks) {
  ownTasks.set(tasks);
  // The storage may be full or disabled; the list then lasts until the page is left.
  try { localStorage.setItem(KEY, JSON.stringify(tasks)); } catch { /* kept in memory */ }
}

export const rememberTask = (task) => keep([task, ...ownTasks.get()].slice(0, MAX));
export const forgetTasks = () => keep([]);
