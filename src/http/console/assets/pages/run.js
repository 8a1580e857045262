// Result of the latest run of a job: a task that is followed, or a music stream.
import { html, useEffect } from '../core/dom.js';
import { toWords } from '../core/format.js';
import { to } from '../core/router.js';
import { Icon, Skeleton, State, ErrorMessage } from '../parts/basic.js';
import { CancelTask } from '../parts/cancel.js';
import { hasEnded, useAnonymousTask, useTask } from '../parts/live.js';
import { Results } from '../parts/media.js';
import { Music } from '../parts/music.js';
import { useAddress } from '../parts/picture.js';
import { TaskState } from '../parts/task_state.js';

// `onReport` receives the report of the prompt, once it is known.
export function JobResult({ run, onReport }) {
  if (run?.music) return html`<${MusicResult} run=${run} onReport=${onReport} />`;
  if (run?.task) return html`<${run.anonymous ? AnonymousResult : TaskResult} run=${run} onReport=${onReport} />`;
  return html`<div class="idle"><${Skeleton} lines=${2} /></div>`;
}

const TaskResult = ({ run, onReport }) => html`<${Outcome} run=${run} onReport=${onReport} ...${useTask(run.task)} />`;

// Anonymous callers have no page for the task to link to.
const AnonymousResult = ({ run, onReport }) => html`<${Outcome} run=${run} onReport=${onReport} ...${useAnonymousTask(run.task)} isAnonymous />`;

function Outcome({ run, task, connection, problem, isAnonymous, onReport }) {
  const input = useAddress(run.input);
  useReport(run, task, onReport);
  if (!task) return problem ? html`<${ErrorMessage} problem=${problem} />` : html`<${Skeleton} lines=${2} />`;
  return html`<${TaskState} task=${task} connection=${connection} />
    ${hasEnded(task) ? html`<${Results} task=${task} before=${input} />`
      : input && html`<img class="shown waiting" src=${input} alt="Input" />`}
    ${!isAnonymous && html`<p class="row"><a href=${to('tasks', task.task_id)}>Task details</a>
      <${CancelTask} task=${task} small /></p>`}`;
}

function useReport(run, task, onReport) {
  const report = task?.prompt_report;
  useEffect(() => { if (report && !run.report) onReport(report); }, [Boolean(report), Boolean(run.report)]);
}

// While music is generated, the task shows the state; afterwards the stream does.
function MusicResult({ run, onReport }) {
  const { music, over } = run;
  const { task, connection } = useTask(music.task);
  useReport(run, task, onReport);
  return html`${over ? html`<${MusicOutcome} music=${music} />`
    : task ? html`<${TaskState} task=${{ ...task, progress: music.seconds ? Math.min(music.secondsLoaded / music.seconds, 1) : task.progress }} connection=${connection} />`
      : html`<div class="task-state"><div class="row"><${State} of="processing">Composing</${State}></div></div>`}
    <${Music} music=${music} over=${over} />
    ${music.task && html`<p class="row"><a href=${to('tasks', music.task)}>Task details</a>
      ${task && html`<${CancelTask} task=${task} small />`}</p>`}`;
}

function MusicOutcome({ music: { error } }) {
  return html`<div class="task-state"><div aria-live="polite" class="row"><${State} of=${error ? 'failed' : 'completed'} /></div></div>
    ${error && html`<div class="trouble" role="alert"><${Icon} name="warn" /><div><strong>${toWords(error.code)}</strong><p>${error.message}</p></div></div>`}`;
}
