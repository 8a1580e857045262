//! Credit ledger of a user: credits of tasks that are held, charged or refunded.

use serde::Serialize;

use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::http::api::budget::{BudgetView, budgets_of};
use crate::http::api::task::{LIMIT_DEFAULT, LIMIT_MAX, decode_cursor, encode_cursor};
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::projections::task::index::{Ledger, LedgerEntry, TaskListPart};

/// Maximum number of tasks scanned for a page; tasks without a price are skipped.
const SCANNED_MAX: usize = 65_536;

/// Totals of a user and a page of entries.
#[derive(Serialize)]
struct LedgerView {
    /// Zero or negative: credits spent or held; there are no deposits.
    balance: i64,
    held: u64,
    charged: u64,
    refunded: u64,
    /// Budgets that count the submissions of this request's caller; empty for other users.
    budgets: Vec<BudgetView>,
    entries: Vec<LedgerEntryView>,
    limit: u64,
    /// Value of `cursor` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct LedgerEntryView {
    task_id: String,
    kind: &'static str,
    credits: u32,
    state: &'static str,
    held_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<String>,
}

/// `GET /users/credits`: the caller's ledger; administrators may read any user's.
pub async fn show(call: Call<{ Action::ReadCredits as u8 }>) -> Result<ApiResponse, Problem> {
    let caller = call.user()?;
    let mut query = call.query()?;
    let user = query.optional_non_empty("user", UserId::parse);
    let limit = query.limit(LIMIT_DEFAULT).min(LIMIT_MAX);
    let before = query.optional("cursor", decode_cursor);
    query.finish()?;

    if !caller.is_admin && user.is_some_and(|user| user != caller.id) {
        return Err(Problem::new(Code::Forbidden, "only administrators can read the credits of other users"));
    }

    let owner = Some(user.unwrap_or(caller.id));
    let (ledger, part) = {
        let models = call.services().models.read();
        let index = &models.tasks.index;
        let page_size = usize::try_from(limit).unwrap_or(1);
        (index.ledger_of(owner), index.ledger_entries(owner, before, page_size, SCANNED_MAX))
    };

    let Ledger { held, charged, refunded } = ledger;
    let TaskListPart { tasks, continue_before } = part;
    let is_own = user.is_none_or(|user| user == caller.id);
    let budgets = if is_own { budgets_of(&call) } else { Vec::new() };
    ApiResponse::ok(&LedgerView {
        balance: -i64::try_from(held.saturating_add(charged)).unwrap_or(i64::MAX),
        held,
        charged,
        refunded,
        budgets,
        entries: tasks.iter().map(entry_view).collect(),
        limit,
        next_cursor: continue_before.map(encode_cursor),
    })
}

fn entry_view(entry: &LedgerEntry) -> LedgerEntryView {
    let LedgerEntry { task, kind, credits, state, held_at, settled_at } = *entry;
    LedgerEntryView {
        task_id: task.to_string(),
        kind: kind.as_str(),
        credits,
        state: state.as_str(),
        held_at: held_at.to_string(),
        settled_at: settled_at.map(|at| at.to_string()),
    }
}
