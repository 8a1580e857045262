//! Budgets of users, tokens and publishers (contract 11).

use serde::Serialize;

use crate::domain::budget::{BudgetCommand, BudgetLimit, BudgetPeriod, BudgetRejection, BudgetSubject};
use crate::domain::ids::TaskId;
use crate::domain::policy::Action;
use crate::domain::token::TokenSubject;
use crate::domain::value::{InvalidValue, Timestamp};
use crate::domain::video::Credits;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::fields::Fields;
use crate::http::request::json_object::{JsonValue, json_object};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::projections::budget::{BudgetAccount, BudgetExceeded, BudgetUse};
use crate::projections::read_models::{Models, ReadModels};

/// Default page size.
pub const LIMIT_DEFAULT: u64 = 100;

/// A budget and its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetView {
    subject: BudgetSubjectView,
    /// Credits of a period.
    limit: u64,
    period: &'static str,
    /// Credits of completed tasks that were submitted in this period.
    spent: u64,
    /// Credits of unfinished tasks that were submitted in this period.
    held: u64,
    /// Start of the next period, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct BudgetSubjectView {
    kind: &'static str,
    id: String,
}

/// Page of budgets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BudgetList {
    budgets: Vec<BudgetView>,
    total: u64,
    page: u64,
    limit: u64,
    total_pages: u64,
}

impl BudgetView {
    /// Renders a budget, and its use at the time `at`.
    #[must_use]
    pub fn new(subject: &BudgetSubject, account: &BudgetAccount, at: Timestamp) -> Self {
        Self::render(subject, account.limit, account.used(at), account.resets_at(at))
    }

    /// Renders the budget that refused a submission.
    #[must_use]
    pub fn from_refusal(BudgetExceeded { subject, limit, used, resets_at, .. }: &BudgetExceeded) -> Self {
        Self::render(subject, *limit, *used, *resets_at)
    }

    fn render(subject: &BudgetSubject, limit: BudgetLimit, used: BudgetUse, resets_at: Option<Timestamp>) -> Self {
        Self {
            subject: BudgetSubjectView { kind: subject.kind(), id: subject.id() },
            limit: limit.credits,
            period: limit.period.as_str(),
            spent: used.spent,
            held: used.held,
            resets_at: resets_at.map(|at| at.to_string()),
        }
    }
}

json_object! {
    /// Body of `PUT /admin/budgets/{budgetKind}/{budgetId}`.
    pub struct BudgetBody {
        /// Credits that the tasks submitted in one period may cost together.
        credits: BudgetCredits,
        /// Period after which the budget is renewed; days and months begin at midnight UTC.
        period: BudgetPeriod,
    }
}

/// Credits of a budget.
pub struct BudgetCredits(u64);

impl JsonValue for BudgetCredits {
    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": BudgetLimit::CREDITS_MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let invalid = || InvalidValue::new(format!("must be an integer from 0 to {}", BudgetLimit::CREDITS_MAX));
        let parse = |value| u64::try_from(value).ok().filter(|credits| *credits <= BudgetLimit::CREDITS_MAX);
        fields.integer(name, |value| parse(value).map(Self).ok_or_else(invalid))
    }
}

/// `GET /admin/budgets`: a page of all budgets, ordered by subject.
pub async fn list(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    query.finish()?;

    let now = call.services().environment.now();
    let models = call.services().models.read();
    let page = request.paginate(models.budgets.iter());
    let page = page.map(|(subject, account)| BudgetView::new(subject, account, now));
    drop(models);

    ApiResponse::ok(&BudgetList {
        total: page.total,
        page: request.page,
        limit: request.limit,
        total_pages: page.total_pages(),
        budgets: page.entries,
    })
}

/// `GET /admin/budgets/{budgetKind}/{budgetId}`
pub async fn show(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let subject = requested_subject(&call)?;
    reply_with_budget(&call, &subject)
}

/// `PUT /admin/budgets/{budgetKind}/{budgetId}`: sets or replaces a budget.
pub async fn set(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let subject = requested_subject(&call)?;
    check_subject(&subject, &call.services().models.read())?;

    let BudgetBody { credits, period } = call.json_object().await?;
    let command = BudgetCommand::Set(BudgetLimit { credits: credits.0, period });
    call.services().dispatch.budget(&subject, command, call.command_context()).await?;
    reply_with_budget(&call, &subject)
}

/// `DELETE /admin/budgets/{budgetKind}/{budgetId}`: removes a budget.
pub async fn remove(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let subject = requested_subject(&call)?;
    call.services().dispatch.budget(&subject, BudgetCommand::Remove, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// Returns the budgets that count the submissions of a caller.
#[must_use]
pub fn budgets_of(call: &RequestContext) -> Vec<BudgetView> {
    let now = call.services().environment.now();
    let subjects = call.budget_subjects();
    let models = call.services().models.read();
    let view = |subject| Some(BudgetView::new(subject, models.budgets.get(subject)?, now));
    subjects.iter().filter_map(view).collect()
}

/// Check of the caller's budgets before the files of a submission are stored. Reserves nothing: the writer checks
/// again, after all earlier submissions.
pub struct EarlyBudgetCheck {
    models: ReadModels,
    subjects: Vec<BudgetSubject>,
    task: TaskId,
    at: Timestamp,
}

impl EarlyBudgetCheck {
    /// Prepares the check of a submission.
    #[must_use]
    pub fn new(call: &RequestContext, task: TaskId) -> Self {
        let services = call.services();
        let models = services.models.clone();
        Self { models, subjects: call.budget_subjects(), task, at: services.environment.now() }
    }

    /// Checks that the budgets allow `credits`. A task that exists already, because its request was repeated, always
    /// passes.
    ///
    /// # Errors
    /// 402 if a budget has fewer credits left.
    pub fn check(&self, credits: Credits) -> Result<(), Problem> {
        let models = self.models.read();
        if credits == 0 || models.tasks.get(self.task).is_some() {
            return Ok(());
        }

        for subject in &self.subjects {
            if let Some(account) = models.budgets.get(subject) {
                // The writer adds the credits of submissions that are not applied yet.
                let pending = 0;
                let checked = account.check(subject, credits.into(), pending, self.at);
                checked.map_err(|exceeded| Problem::budget_exceeded(&exceeded))?;
            }
        }
        Ok(())
    }
}

fn reply_with_budget(call: &RequestContext, subject: &BudgetSubject) -> Result<ApiResponse, Problem> {
    let now = call.services().environment.now();
    let budget =
        call.services().models.read().budgets.get(subject).map(|account| BudgetView::new(subject, account, now));
    ApiResponse::ok(&budget.ok_or_else(|| Problem::not_found("budget"))?)
}

fn requested_subject(call: &RequestContext) -> Result<BudgetSubject, Problem> {
    let kind = call.path_param("budgetKind");
    BudgetSubject::parse(&kind, &call.path_param("budgetId")).map_err(|_| match kind.as_str() {
        "user" | "token" | "publisher" => Problem::not_found(&kind),
        _ => Problem::new(Code::NotFound, "the budget kind must be user, token or publisher"),
    })
}

/// Checks that the subject exists and can submit tasks, or has a budget already: a budget outlives its subject, because
/// it also counts the tasks of the person's next account.
fn check_subject(subject: &BudgetSubject, models: &Models) -> Result<(), Problem> {
    let exists = match subject {
        BudgetSubject::User(user) => models.users.get(*user).is_some(),
        BudgetSubject::Token(token) => {
            let token = models.tokens.get(*token).filter(|token| token.revoked_at.is_none());
            if token.is_some_and(|token| matches!(token.grant.subject, TokenSubject::Publisher { .. })) {
                return Err(Problem::new(Code::NotFound, "tokens of publishers submit no tasks and have no budget"));
            }
            token.is_some()
        }
        BudgetSubject::Publisher(publisher) => models.publishers.get(publisher).is_some(),
    };

    if exists || models.budgets.get(subject).is_some() { Ok(()) } else { Err(Problem::not_found(subject.kind())) }
}

impl From<BudgetRejection> for Problem {
    fn from(BudgetRejection::NotFound: BudgetRejection) -> Self {
        Self::not_found("budget")
    }
}
