// Budgets: how much of each is spent and held.
import { html } from '../core/dom.js';
import { count, number } from '../core/format.js';
import { Time } from './basic.js';
import { LimitBar } from './chart.js';

export const PERIOD_NAMES = { day: 'a day', month: 'a month', total: 'in total' };

export function BudgetUse({ budget }) {
  const { limit, spent, held, period, resets_at: resetsAt } = budget;
  const left = Math.max(0, limit - spent - held);
  const label = `${number(spent)} spent and ${number(held)} held of ${count(limit, 'credit')}`;
  return html`<div class="budget-use">
    <p><strong>${number(left)}</strong> of ${count(limit, 'credit')} ${PERIOD_NAMES[period]} left</p>
    <${LimitBar} ...${{ spent, held, limit, label }} />
    <p class="muted small"><i class="swatch series-0"></i>${number(spent)} spent <i class="swatch series-5"></i>${number(held)} held${resetsAt && html` · resets <${Time} at=${resetsAt} due />`}</p></div>`;
}
