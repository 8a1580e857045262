//! Usage by day, user, token, job or vendor (contract 11).

use std::collections::BTreeMap;

use actix_web::http::header::{Accept, VARY};
use actix_web::{HttpMessage as _, web};
use chrono::{Datelike as _, Days, NaiveDate};
use serde::Serialize;

use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::task::VendorPrice;
use crate::domain::value::{InvalidValue, Timestamp, named_values};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::projections::task::index::{UsageCounts, UsageQuery, UsedTask};

/// Media type of a report for spreadsheets.
pub const CSV: &str = "text/csv";

named_values! {
    /// Property that the tasks of a row share.
    UsageGrouping {
        User = "user",
        Token = "token",
        Job = "job",
        Vendor = "vendor",
        Day = "day",
    }
}

/// Report of a period.
#[derive(Serialize)]
struct UsageReport {
    from: NaiveDate,
    to: NaiveDate,
    group_by: &'static str,
    rows: Vec<UsageRow>,
    total: UsageSums,
}

/// Sums of one group.
#[derive(Serialize)]
struct UsageRow {
    /// Day, id or name; `null` for tasks without one.
    group: Option<String>,
    #[serde(flatten)]
    sums: UsageSums,
}

#[derive(Serialize)]
struct UsageSums {
    submissions: u64,
    unfinished: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
    /// Credits of unfinished tasks.
    held: u64,
    /// Credits of completed tasks, and of streams that their client ended.
    charged: u64,
    /// Credits of other failed and cancelled tasks.
    refunded: u64,
    /// Cost at the vendors.
    cost: f64,
}

impl From<UsageCounts> for UsageSums {
    fn from(counts: UsageCounts) -> Self {
        Self {
            submissions: counts.submissions,
            unfinished: counts.unfinished(),
            completed: counts.completed,
            failed: counts.failed,
            cancelled: counts.cancelled,
            held: counts.held,
            charged: counts.charged,
            refunded: counts.refunded,
            cost: VendorPrice::from_thousandths(counts.cost_thousandths).to_f64(),
        }
    }
}

/// `GET /usage`: the caller's tasks; administrators get those of everyone, or of one user.
pub async fn show(call: Call<{ Action::ReadCredits as u8 }>) -> Result<ApiResponse, Problem> {
    let caller = call.user()?;
    let today = call.services().environment.now().utc_date();
    let mut query = call.query()?;
    let first_of_month = today.checked_sub_days(Days::new(today.day0().into())).unwrap_or(today);
    let from = query.optional_non_empty("from", parse_date).unwrap_or(first_of_month);
    let to = query.optional_non_empty("to", parse_date).unwrap_or_else(|| today.max(from));
    let grouping = query.optional_non_empty("group_by", UsageGrouping::parse).unwrap_or(UsageGrouping::Day);
    let user = query.optional_non_empty("user", UserId::parse);
    if from > to {
        query.add_error("to", &format!("must not be before {from}, the first day"));
    }
    query.finish()?;

    if !caller.is_admin && user.is_some_and(|user| user != caller.id) {
        return Err(Problem::new(Code::Forbidden, "only administrators can read the usage of other users"));
    }

    let owner = if caller.is_admin { user } else { Some(caller.id) };
    let period = UsageQuery { from: Timestamp::midnight(from), to: Timestamp::midnight(to + Days::new(1)), owner };
    let scan = call.services().models.read().tasks.index.usage_scan(period);
    let sums = web::block(move || scan.sum_by(|task| group_of(task, grouping))).await.map_err(Problem::internal)?;

    let report = if prefers_csv(&call) { csv_report(grouping, sums)? } else { json_report(from, to, grouping, sums)? };
    report.with_header(VARY, "accept")
}

fn group_of(task: &UsedTask<'_>, grouping: UsageGrouping) -> Option<String> {
    match grouping {
        UsageGrouping::User => task.user.map(|user| user.to_string()),
        UsageGrouping::Token => task.token.map(|token| token.to_string()),
        UsageGrouping::Job => Some(task.kind.as_str().to_owned()),
        UsageGrouping::Vendor => task.vendor.map(str::to_owned),
        UsageGrouping::Day => Some(task.created_at.utc_date().to_string()),
    }
}

type GroupedUsage = BTreeMap<Option<String>, UsageCounts>;

fn json_report(
    from: NaiveDate,
    to: NaiveDate,
    grouping: UsageGrouping,
    sums: GroupedUsage,
) -> Result<ApiResponse, Problem> {
    let mut total = UsageCounts::default();
    for counts in sums.values() {
        total.merge(counts);
    }
    let rows = sums.into_iter().map(|(group, counts)| UsageRow { group, sums: counts.into() }).collect();
    ApiResponse::ok(&UsageReport { from, to, group_by: grouping.as_str(), rows, total: total.into() })
}

fn csv_report(grouping: UsageGrouping, sums: GroupedUsage) -> Result<ApiResponse, Problem> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = [
        grouping.as_str(),
        "submissions",
        "unfinished",
        "completed",
        "failed",
        "cancelled",
        "held",
        "charged",
        "refunded",
        "cost",
    ];
    writer.write_record(header).map_err(Problem::internal)?;

    for (group, counts) in sums {
        let UsageSums { submissions, unfinished, completed, failed, cancelled, held, charged, refunded, cost } =
            counts.into();
        let record = (group, submissions, unfinished, completed, failed, cancelled, held, charged, refunded, cost);
        writer.serialize(record).map_err(Problem::internal)?;
    }

    let bytes = writer.into_inner().map_err(Problem::internal)?;
    Ok(ApiResponse::csv(bytes))
}

/// Returns `true` if the client prefers CSV to JSON, which is the default.
fn prefers_csv(call: &RequestContext) -> bool {
    let accept = call.request.get_header::<Accept>();
    let ranked = accept.map(|accept| accept.ranked()).unwrap_or_default();
    // The first range that includes one of the two types decides.
    let decisive = ranked.iter().find_map(|range| match range.essence_str() {
        CSV | "text/*" => Some(true),
        "application/json" | "application/*" | "*/*" => Some(false),
        _ => None,
    });
    decisive.unwrap_or(false)
}

fn parse_date(text: &str) -> Result<NaiveDate, InvalidValue> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let date = date.filter(|date| (0..=9999).contains(&date.year()) && date.to_string() == text);
    date.ok_or_else(|| InvalidValue::new("must be a date such as 2026-01-31"))
}
