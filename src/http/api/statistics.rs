//! `GET /nodes/{nodeId}/statistics`: downloads by day, and how often each number of stars was given.

use chrono::{Days, NaiveDate};
use serde::Serialize;

use crate::domain::node::NodeProfile;
use crate::domain::policy::Action;
use crate::domain::value::InvalidValue;
use crate::http::api::version_list::{NodeLookup, look_up_node};
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::node::daily_downloads::{DAYS_MAX, DailyDownloads};

/// Default number of days.
pub const DAYS_DEFAULT: usize = 30;

#[derive(Serialize)]
struct StatisticsView {
    downloads: u64,
    days: Vec<DayView>,
    ratings: RatingsView,
}

#[derive(Serialize)]
struct DayView {
    date: String,
    downloads: u64,
}

#[derive(Serialize)]
struct RatingsView {
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    /// Number of reviews with 1, 2, 3, 4 and 5 stars.
    stars: [u64; 5],
}

/// `GET /nodes/{nodeId}/statistics`.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let days = query.optional("days", parse_days).unwrap_or(DAYS_DEFAULT);
    query.finish()?;
    let entry = match look_up_node(&call, "/statistics")? {
        NodeLookup::Found(entry, _) => entry,
        NodeLookup::Redirect(redirect) => return Ok(redirect),
    };

    let node = entry.profile().ok_or_else(|| Problem::not_found("node"))?;
    let today = call.services().environment.now().utc_date();
    ApiResponse::ok(&StatisticsView {
        downloads: node.downloads,
        days: day_views(entry.daily_downloads(), today, days),
        ratings: ratings_of(node),
    })
}

fn parse_days(text: &str) -> Result<usize, InvalidValue> {
    let days = text.parse().ok().filter(|days| (1..=DAYS_MAX).contains(days));
    days.ok_or_else(|| InvalidValue::new(format!("must be an integer from 1 to {DAYS_MAX}")))
}

/// Returns consecutive days up to `today`, oldest first.
fn day_views(downloads: &DailyDownloads, today: NaiveDate, days: usize) -> Vec<DayView> {
    let ages = (0..days as u64).rev();
    let dates = ages.filter_map(|age| today.checked_sub_days(Days::new(age)));
    dates.map(|date| DayView { date: date.to_string(), downloads: downloads.on(date) }).collect()
}

fn ratings_of(node: &NodeProfile) -> RatingsView {
    let mut stars = [0; 5];
    for (_, rating) in node.reviews.iter() {
        if let Some(count) = stars.get_mut(usize::from(rating.get()).saturating_sub(1)) {
            *count += 1;
        }
    }
    RatingsView { count: stars.iter().sum(), mean: node.rating(), stars }
}
