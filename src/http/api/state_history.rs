//! `GET /admin/state/history`: the main metrics of the last 24 hours, minute by minute, for operators.

use serde::Serialize;

use crate::actors::poller::breaker::CircuitState;
use crate::domain::policy::Action;
use crate::domain::value::{InvalidValue, Timestamp};
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::telemetry::history::{HISTORY_MINUTES, HistoryColumn, HistoryValue, HistoryWindow};

const MINUTE_SECONDS: i64 = 60;

#[derive(Serialize)]
struct ServiceHistoryView<'h> {
    /// Time of the first value.
    from: String,
    /// Seconds between two values.
    step: i64,
    columns: Vec<ColumnView<'h>>,
    circuits: Vec<CircuitView<'h>>,
}

#[derive(Serialize)]
struct ColumnView<'h> {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'h str>,
    unit: &'static str,
    values: Vec<HistoryValue>,
}

/// Circuit breaker states of a vendor.
#[derive(Serialize)]
struct CircuitView<'h> {
    vendor: &'h str,
    /// `None` where the service did not run.
    values: Vec<Option<&'static str>>,
}

/// `GET /admin/state/history`.
pub(in crate::http) async fn show(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let minutes = query.optional("minutes", parse_minutes).unwrap_or(HISTORY_MINUTES);
    query.finish()?;

    let services = call.services();
    let history = &services.operations.history;
    let current_minute = services.environment.now().seconds().div_euclid(MINUTE_SECONDS);
    let HistoryWindow { first_minute, values } = history.window(current_minute, minutes);

    let mut columns = Vec::new();
    let mut circuits = Vec::new();
    for (column, values) in history.columns().iter().zip(values) {
        let HistoryColumn { name, label, unit, .. } = column;
        if column.is_state() {
            let values = values.into_iter().map(circuit_name).collect();
            circuits.push(CircuitView { vendor: label.as_deref().unwrap_or_default(), values });
        } else {
            columns.push(ColumnView { name, label: label.as_deref(), unit, values });
        }
    }

    let from = Timestamp::from_micros(first_minute * MINUTE_SECONDS * 1_000_000).to_string();
    ApiResponse::ok(&ServiceHistoryView { from, step: MINUTE_SECONDS, columns, circuits })
}

fn parse_minutes(text: &str) -> Result<u16, InvalidValue> {
    let is_numeric = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let minutes = text.parse().ok().filter(|minutes| is_numeric && (1..=HISTORY_MINUTES).contains(minutes));
    minutes.ok_or_else(|| InvalidValue::new(format!("must be an integer from 1 to {HISTORY_MINUTES}")))
}

/// Returns the name of the circuit breaker state with this index; `None` where the service did not run.
fn circuit_name(index: HistoryValue) -> Option<&'static str> {
    let mut states = (0..).zip(CircuitState::NAMES);
    states.find(|(state, _)| HistoryValue::from_count(*state) == index).map(|(_, name)| name)
}
