//! Jobs of a service, as `GET /models` lists them, and their parameters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::service::ServiceConnection;
use crate::cli::CliError;
use crate::cli::audit::text::{printable, truncate};
use crate::cli::table::{RowColor, TextTable};
use crate::config::edit_distance;
use crate::domain::video::MultiframeJob;

/// Maximum edit distance of a suggestion.
const SUGGESTION_DISTANCE_MAX: usize = 3;
/// Job whose price also depends on the number of key frames, each of which lasts at least a second.
const MULTIFRAME: &str = "multiframe";
/// Maximum characters of the allowed values in a table.
const VALUES_MAX: usize = 70;

/// Response of `GET /models`.
#[derive(Deserialize)]
struct JobList {
    models: Vec<Job>,
}

/// A job that the service takes.
#[derive(Deserialize)]
pub(super) struct Job {
    #[serde(rename = "job")]
    pub(super) name: String,
    pub(super) medium: String,
    pub(super) path: String,
    parameters: Vec<ServiceJobParameter>,
    price: JobPrice,
    available: bool,
}

#[derive(Deserialize)]
struct JobPrice {
    credits: Option<u64>,
    credits_per_second: Option<u64>,
    /// Prices of videos by model and resolution.
    #[serde(default)]
    by_model: BTreeMap<String, BTreeMap<String, LengthPrice>>,
    /// Price of a video that may wait, in percent of the regular one.
    off_peak_percent: Option<u64>,
}

/// Price of a video by its length.
#[derive(Deserialize)]
struct LengthPrice {
    /// Prices of one second, two seconds and so on.
    seconds: Vec<u64>,
    /// Price of each further second.
    #[serde(default)]
    more: u64,
}

impl LengthPrice {
    /// Returns the lowest price of a video of this job, in credits. The shortest `multiframe` video has the minimum
    /// number of key frames, each of which costs a first second and a further second.
    fn lowest(&self, job: &str) -> Option<u64> {
        let first = *self.seconds.first()?;
        let key_frames_min = *MultiframeJob::<()>::COUNT.start() as u64;
        Some(if job == MULTIFRAME { (first + self.more) * key_frames_min } else { first })
    }
}

impl JobPrice {
    /// Returns the price of a job, or the lowest one if it depends on the parameters.
    fn describe(&self, job: &str) -> String {
        match (self.credits, self.credits_per_second) {
            (Some(credits), Some(second)) if second > 0 => format!("{credits} + {second}/s"),
            (Some(credits), _) => credits.to_string(),
            (None, _) => {
                let prices = self.by_model.values().flat_map(BTreeMap::values);
                let lowest = prices.filter_map(|price| price.lowest(job)).min();
                let percent = self.off_peak_percent.unwrap_or(100);
                let reduced = lowest.map(|credits| (credits * percent).div_ceil(100));
                reduced.map_or_else(|| "by length".to_owned(), |credits| format!("from {credits}"))
            }
        }
    }
}

/// Parameter of a job, with the keywords of its JSON schema.
#[derive(Deserialize)]
struct ServiceJobParameter {
    name: String,
    required: bool,
    #[serde(flatten)]
    schema: Map<String, Value>,
}

impl Job {
    /// Reads all jobs of a service.
    ///
    /// # Errors
    /// If the service does not respond.
    pub(super) async fn list(service: &ServiceConnection) -> Result<Vec<Self>, CliError> {
        Self::parse_list(service, service.get("/models").await?)
    }

    /// Parses the response of `GET /models`.
    ///
    /// # Errors
    /// If the response is not of the expected form.
    pub(super) fn parse_list(service: &ServiceConnection, response: Value) -> Result<Vec<Self>, CliError> {
        Ok(service.parse::<JobList>(response)?.models)
    }

    /// Returns the job called `name`.
    ///
    /// # Errors
    /// If there is no such job; the message lists the known jobs.
    pub(super) fn find(jobs: Vec<Self>, name: &str) -> Result<Self, CliError> {
        let names: Vec<_> = jobs.iter().map(|job| job.name.clone()).collect();
        jobs.into_iter().find(|job| job.name == name).ok_or_else(|| {
            CliError::Usage(format!(
                "there is no job {name:?}{}; the jobs are {}",
                suggestion(name, &names),
                names.join(", ")
            ))
        })
    }

    /// Returns `true` if the job has a parameter called `name`.
    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == name)
    }

    /// Parses `NAME=VALUE` by the type of the parameter and returns both parts.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is not of its type.
    pub(super) fn parse_assignment(&self, assignment: &str) -> Result<(String, Value), CliError> {
        let (name, text) = assignment
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| CliError::Usage(format!("-s {assignment}: must be NAME=VALUE, such as scale_factor=4x")))?;
        let Some(parameter) = self.parameters.iter().find(|parameter| parameter.name == name) else {
            let names: Vec<_> = self.parameters.iter().map(|parameter| parameter.name.clone()).collect();
            let hint = suggestion(name, &names);
            return Err(CliError::Usage(format!(
                "{} has no parameter {name:?}{hint}; its parameters are {}",
                self.name,
                names.join(", ")
            )));
        };
        let value =
            parameter.parse(text).map_err(|kind| CliError::Usage(format!("-s {assignment}: must be {kind}")))?;
        Ok((name.to_owned(), value))
    }

    /// Formats jobs as a table.
    pub(super) fn describe_all(jobs: &[Self]) -> String {
        let mut table = TextTable::new(&["JOB", "MEDIUM", "CREDITS", "AVAILABLE"]);
        for job in jobs {
            let price = job.price.describe(&job.name);
            let (color, available) = if job.available { (RowColor::Plain, "yes") } else { (RowColor::Bad, "no") };
            let cells = [job.name.clone(), job.medium.clone(), price, available.to_owned()];
            table.push(color, cells.map(|cell| printable(&cell)));
        }
        format!(
            "{table}\n`mediary run JOB --list` lists the parameters of a job, `mediary run JOB --estimate` prints its \
             price.\n"
        )
    }

    /// Formats the parameters as a table, required ones first.
    pub(super) fn describe(&self) -> String {
        let mut table = TextTable::new(&["PARAMETER", "DEFAULT", "VALUES", "DESCRIPTION"]);
        let (required, optional): (Vec<_>, Vec<_>) = self.parameters.iter().partition(|parameter| parameter.required);
        for parameter in required.into_iter().chain(optional) {
            let default = match parameter.schema.get("default") {
                _ if parameter.required => "required".to_owned(),
                None | Some(Value::Null) => "-".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            };
            let description = parameter.schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let cells = [parameter.name.clone(), default, parameter.describe_values(), description.to_owned()];
            table.push(RowColor::Plain, cells.map(|cell| printable(&cell)));
        }
        table.to_string()
    }
}

impl ServiceJobParameter {
    /// Returns the JSON type, ignoring `null`; `None` if the schema allows any type or several types.
    fn kind(&self) -> Option<&str> {
        match self.schema.get("type")? {
            Value::String(kind) => Some(kind),
            Value::Array(kinds) => {
                let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
                kinds.next().filter(|_| kinds.next().is_none())
            }
            _ => None,
        }
    }

    /// Parses a value; the error says what it must be.
    fn parse(&self, text: &str) -> Result<Value, &'static str> {
        match self.kind() {
            Some("string") => Ok(text.into()),
            Some("integer") => text.parse::<i64>().map(Value::from).map_err(|_| "an integer"),
            Some("number") => text.parse::<f64>().map(Value::from).map_err(|_| "a number"),
            Some("boolean") => text.parse::<bool>().map(Value::from).map_err(|_| "true or false"),
            Some("array") if !text.trim_start().starts_with('[') => {
                Ok(text.split(',').map(|item| Value::from(item.trim())).collect())
            }
            Some("array") => serde_json::from_str(text).map_err(|_| "a list, as a,b or as JSON"),
            Some("object") => serde_json::from_str(text).map_err(|_| "a JSON object"),
            _ => Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
        }
    }

    fn describe_values(&self) -> String {
        let schema = |keyword: &str| self.schema.get(keyword);
        if let Some(values) = schema("enum").and_then(Value::as_array) {
            let values = values.iter().filter(|value| !value.is_null());
            let values = values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            return truncate(&values.collect::<Vec<_>>().join(", "), VALUES_MAX);
        }
        let mut text = self.kind().unwrap_or("value").to_owned();
        let _ = match (schema("minimum"), schema("maximum")) {
            (Some(minimum), Some(maximum)) => write!(text, ", {minimum} to {maximum}"),
            (Some(minimum), None) => write!(text, ", at least {minimum}"),
            (None, Some(maximum)) => write!(text, ", at most {maximum}"),
            (None, None) => Ok(()),
        };
        text
    }
}

/// Returns ` (did you mean …?)` with the most similar known name; empty if none is similar.
fn suggestion(name: &str, known: &[String]) -> String {
    let nearest = known.iter().map(|known| (edit_distance(known, name), known)).min();
    let nearest = nearest.filter(|(distance, _)| *distance <= SUGGESTION_DISTANCE_MAX);
    nearest.map(|(_, known)| format!(" (did you mean {known}?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Job {
        let parameters = json!([
            {"name": "engine", "required": true, "type": "string", "enum": ["a", "b"], "default": "a"},
            {"name": "hdr", "required": false, "type": ["integer", "null"], "minimum": -10, "maximum": 10, "default": 0},
            {"name": "strength", "required": false, "type": "number"},
            {"name": "deep", "required": false, "type": "boolean"},
            {"name": "images", "required": false, "type": "array"},
            {"name": "advanced_settings", "required": false, "type": "object"},
        ]);
        let job = json!({"job": "x", "medium": "image", "path": "/x", "parameters": parameters, "price": {"credits": 2},
                         "available": true});
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn values_have_the_type_of_their_parameter() {
        let parse = |assignment: &str| job().parse_assignment(assignment).unwrap().1;
        assert_eq!(parse("engine=4"), json!("4"));
        assert_eq!(parse("hdr=-2"), json!(-2));
        assert_eq!(parse("strength=0.5"), json!(0.5));
        assert_eq!(parse("deep=true"), json!(true));
        assert_eq!(parse("images=http://a, http://b"), json!(["http://a", "http://b"]));
        assert_eq!(parse("images=[\"a\"]"), json!(["a"]));
        assert_eq!(parse("advanced_settings={\"whites\": 1}"), json!({"whites": 1}));
    }

    #[test]
    fn the_error_for_a_wrong_assignment_says_what_is_allowed() {
        let error = |assignment: &str| job().parse_assignment(assignment).unwrap_err().to_string();
        assert!(error("hdr=high").ends_with("must be an integer"));
        assert!(error("deep=yes").ends_with("must be true or false"));
        assert!(error("hdr").contains("NAME=VALUE"), "an assignment without a value");
        let unknown = error("strenght=1");
        assert!(unknown.contains("did you mean strength?") && unknown.contains("engine, hdr"), "{unknown}");
    }

    #[test]
    fn an_unknown_job_lists_the_known_ones() {
        let error = Job::find(vec![job()], "y").err().unwrap().to_string();
        assert!(error.ends_with("the jobs are x"), "{error}");
    }

    #[test]
    fn the_lowest_price_of_a_video_is_listed() {
        let price_of = |job: &str, price: Value| serde_json::from_value::<JobPrice>(price).unwrap().describe(job);
        let price = |price: Value| price_of("x", price);
        let by_model = json!({"a": {"720p": {"seconds": [20, 30], "more": 8}, "540p": {"seconds": [12], "more": 4}}});
        assert_eq!(price(json!({"by_model": by_model})), "from 12");
        assert_eq!(price(json!({"by_model": by_model, "off_peak_percent": 45})), "from 6");
        assert_eq!(price_of("multiframe", json!({"by_model": by_model})), "from 32");
        assert_eq!(price(json!({"credits": 5, "credits_per_second": 2})), "5 + 2/s");
        assert_eq!(price(json!({"credits": 5})), "5");
    }

    #[test]
    fn the_parameters_are_listed_with_their_values() {
        let text = job().describe();
        assert!(text.contains("engine") && text.contains("required") && text.contains("a, b"), "{text}");
        assert!(text.contains("integer, -10 to 10"), "{text}");
    }
}
