//! `mediary audit amounts`: what each task cost, recomputed from its events alone, without the sums of the service.

use std::collections::HashMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::OutputFlags;
use super::log::{LogQuery, for_each_event, or_usage_error, parse_option};
use super::print::Printer;
use super::target::{AuditTarget, AuditTargetArguments};
use crate::audit::filter::{AuditFilter, StreamFilter};
use crate::audit::point_in_time::{DayEdge, PointInTime};
use crate::audit::subject::AuditSubject;
use crate::cli::{CliError, SettingFlags};
use crate::domain::ids::StreamKind;
use crate::domain::task::{RecordedVendor, TaskFailure, VendorPrice};
use crate::domain::value::{InvalidValue, Timestamp};
use crate::pluralize::pluralize;

#[derive(Debug, Args)]
pub(in crate::cli) struct AmountsArguments {
    /// Only tasks that count for this payer: user/<uuid>, token/<uuid> or publisher/<id>
    #[arg(long, value_name = "PAYER")]
    payer: Option<String>,
    /// Only tasks of this vendor
    #[arg(long, value_name = "NAME")]
    vendor: Option<String>,
    /// Only tasks submitted from here on: log position, time or date (from the start of the day)
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// Only tasks submitted up to here: log position, time or date (to the end of the day)
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    target: AuditTargetArguments,
}

/// The amounts of one task.
#[derive(Debug, Default, Serialize)]
pub(super) struct TaskAmounts {
    pub(super) task: String,
    pub(super) submitted_at: String,
    /// Position of the submission.
    pub(super) position: u64,
    pub(super) credits: u64,
    pub(super) state: CreditState,
    /// Position of the event that charged or refunded the credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settled_position: Option<u64>,
    /// Budgets and accounts that count the task, such as `user/<uuid>`.
    pub(super) payers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<String>,
    /// Cost at the vendor.
    pub(super) cost: f64,
    #[serde(skip)]
    cost_thousandths: u64,
    /// `true` for music, which stays charged if its client ends the stream.
    #[serde(skip)]
    is_stream: bool,
    /// `true` if the vendor may have a job of an earlier submission.
    #[serde(skip)]
    is_in_doubt: bool,
    #[serde(skip)]
    is_built_in: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CreditState {
    #[default]
    Held,
    Charged,
    Refunded,
}

/// Sums over tasks, as `GET /usage` returns them.
#[derive(Debug, Default, Serialize)]
pub(super) struct AmountTotals {
    submissions: u64,
    held: u64,
    charged: u64,
    refunded: u64,
    cost: f64,
    #[serde(skip)]
    cost_thousandths: u64,
}

pub(super) fn run(arguments: AmountsArguments, outer: SettingFlags) -> Result<(), CliError> {
    let AmountsArguments { payer, vendor, from, to, output, target } = arguments;
    let payer = payer.map(|payer| or_usage_error("--payer", &payer, parse_payer(&payer))).transpose()?;
    let end = parse_option("--to", to.as_deref(), |text| PointInTime::parse(text, DayEdge::End))?;
    let start = parse_option("--from", from.as_deref(), |text| PointInTime::parse(text, DayEdge::Start))?;
    // The filter has no end, because the events that charge or refund the credits can come after it.
    let filter = AuditFilter { streams: StreamFilter::Kind(StreamKind::Task), from: start, ..AuditFilter::default() };
    let texts = [("stream", "task/"), ("from", from.as_deref().unwrap_or_default())];

    let mut ledger = RecomputedLedger { end, ..RecomputedLedger::default() };
    let target = AuditTarget::open(target, outer)?;
    for_each_event(&target, &LogQuery::new(filter, &texts), |event| {
        ledger.apply(event);
        Ok(())
    })?;

    let is_selected = |task: &TaskAmounts| {
        payer.as_ref().is_none_or(|payer| task.payers.contains(payer))
            && vendor.as_ref().is_none_or(|vendor| task.vendor.as_ref() == Some(vendor))
    };
    let selected: Vec<_> = ledger.tasks.into_iter().filter(is_selected).collect();
    print(&selected, &mut output.printer())
}

fn print(tasks: &[TaskAmounts], printer: &mut Printer) -> Result<(), CliError> {
    let mut totals = AmountTotals::default();
    for task in tasks {
        totals.add(task);
        if task.credits > 0 || task.cost_thousandths > 0 {
            printer.amounts(task)?;
        }
    }
    totals.cost = VendorPrice::from_thousandths(totals.cost_thousandths).to_f64();
    printer.amount_totals(&totals)?;
    Ok(())
}

/// Parses a payer into the name of its resource.
fn parse_payer(text: &str) -> Result<String, InvalidValue> {
    let payer = AuditSubject::parse(text).ok();
    let is_payer =
        |subject: &AuditSubject| matches!(subject.kind(), StreamKind::User | StreamKind::Token | StreamKind::Publisher);
    let payer = payer.filter(is_payer).map(|subject| subject.to_string());
    payer.ok_or_else(|| InvalidValue::new("must be user/<uuid>, token/<uuid> or publisher/<id>"))
}

/// Amounts of the tasks submitted in a range, computed from events as JSON.
#[derive(Debug, Default)]
struct RecomputedLedger {
    /// End of the range.
    end: Option<PointInTime>,
    tasks: Vec<TaskAmounts>,
    /// Index of each task, by stream.
    indices: HashMap<String, usize>,
}

impl RecomputedLedger {
    fn apply(&mut self, event: &Value) {
        let kind = text_of(event, "type");
        let stream = text_of(event, "stream");
        let data = &event["data"];
        if kind == "TaskSubmitted" {
            if !self.is_after_end(event) {
                self.indices.insert(stream.to_owned(), self.tasks.len());
                self.tasks.push(TaskAmounts::from_submission(event));
            }
            return;
        }

        let Some(task) = self.indices.get(stream).and_then(|index| self.tasks.get_mut(*index)) else { return };
        match kind {
            "SubmissionStarted" => task.start_submission(&data["vendor"]),
            // This submission did not arrive, but an earlier one may have, and may cost something.
            "SubmissionUndelivered" if task.is_in_doubt => {}
            "SubmissionUndelivered" | "VendorForgot" => task.remove_vendor(),
            "VendorRefused" => task.set_cost(0),
            "TaskCompleted" | "VideoCompleted" | "StreamCompleted" => task.settle(CreditState::Charged, event),
            "TaskFailed" | "TaskCancelled" if task.is_stream && is_end_by_client(event) => {
                task.settle(CreditState::Charged, event);
            }
            "TaskFailed" | "TaskCancelled" => task.settle(CreditState::Refunded, event),
            _ => {}
        }
    }

    fn is_after_end(&self, event: &Value) -> bool {
        match self.end {
            None => false,
            Some(PointInTime::Position(end)) => event["position"].as_u64().is_some_and(|position| position > end.0),
            Some(PointInTime::Time(end)) => Timestamp::parse(text_of(event, "at")).is_ok_and(|at| at > end),
        }
    }
}

impl TaskAmounts {
    fn from_submission(event: &Value) -> Self {
        let data = &event["data"];
        // The work is an object whose only field is named after its kind. Images and music have no `credits` if they
        // cost nothing.
        let work = data["work"].as_object().and_then(|work| work.iter().next());
        // Names one or several resources of a kind; an absent field names none.
        let resources = |kind: &str, ids: &Value| {
            let ids = ids.as_array().map_or(std::slice::from_ref(ids), Vec::as_slice);
            ids.iter().filter_map(Value::as_str).map(|id| format!("{kind}/{id}")).collect::<Vec<_>>()
        };

        let payers = &data["payers"];
        Self {
            task: text_of(data, "task").to_owned(),
            submitted_at: text_of(event, "at").to_owned(),
            position: event["position"].as_u64().unwrap_or_default(),
            credits: work.and_then(|(_, work)| work["credits"].as_u64()).unwrap_or_default(),
            is_stream: work.is_some_and(|(kind, _)| kind.ends_with("Music")),
            payers: [
                resources("user", &data["owner"]),
                resources("token", &payers["token"]),
                resources("user", &payers["former_accounts"]),
                resources("publisher", &payers["publishers"]),
            ]
            .concat(),
            ..Self::default()
        }
    }

    /// Records the vendor of a submission by the rules of the task (`TaskRecord::assign_vendor`).
    fn start_submission(&mut self, vendor: &Value) {
        self.is_in_doubt = self.vendor.is_some() && !self.is_built_in;
        self.is_built_in = vendor["profile"] == RecordedVendor::BUILT_IN_PROFILE;
        self.vendor = vendor["name"].as_str().map(str::to_owned);
        self.set_cost(vendor["price_thousandths"].as_u64().unwrap_or_default());
    }

    fn remove_vendor(&mut self) {
        self.vendor = None;
        self.set_cost(0);
    }

    fn set_cost(&mut self, thousandths: u64) {
        self.cost_thousandths = thousandths;
        self.cost = VendorPrice::from_thousandths(thousandths).to_f64();
    }

    fn settle(&mut self, state: CreditState, event: &Value) {
        self.state = state;
        self.settled_position = event["position"].as_u64();
    }
}

impl AmountTotals {
    fn add(&mut self, task: &TaskAmounts) {
        self.submissions += 1;
        let sum = match task.state {
            CreditState::Held => &mut self.held,
            CreditState::Charged => &mut self.charged,
            CreditState::Refunded => &mut self.refunded,
        };
        *sum += task.credits;
        self.cost_thousandths += task.cost_thousandths;
    }
}

impl std::fmt::Display for AmountTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { submissions, held, charged, refunded, cost, .. } = self;
        let tasks = pluralize(*submissions, "task");
        write!(
            f,
            "{tasks}, including free ones: {held} credits held, {charged} charged, {refunded} refunded; cost {cost}"
        )
    }
}

impl std::fmt::Display for CreditState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Charged => "charged",
            Self::Refunded => "refunded",
        })
    }
}

/// Returns `true` if the client ended the task: by a cancellation, or by leaving a music stream.
fn is_end_by_client(event: &Value) -> bool {
    let code = text_of(&event["data"]["failure"], "code");
    text_of(event, "type") == "TaskCancelled"
        || [TaskFailure::CANCELLED, TaskFailure::CLIENT_DISCONNECTED].contains(&code)
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
