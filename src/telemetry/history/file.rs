//! File of the history: a line with format and checksum, then JSON.
//!
//! ```text
//! mediary-metrics-history 1 <CRC-32C of the JSON in hexadecimal>
//! {"columns": ["tasks_submitted", "queue/tasks", …], "samples": [[<minute>, <value or null>, …], …]}
//! ```
//!
//! Columns are matched by name: values of a removed vendor are dropped, and those of a new one are unknown.

use serde::Deserialize;
use serde_json::json;

use super::{HistoryColumn, HistoryRing, HistorySample, HistoryValue, MetricsHistory};

const NAME: &str = "mediary-metrics-history";
const FORMAT: &str = "1";

/// Reason why a file is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryFileError {
    /// Another release wrote it.
    #[error("unknown format {0}, expected {FORMAT}")]
    OtherFormat(String),
    #[error("the file is damaged: {0}")]
    Damaged(String),
}

#[derive(Deserialize)]
struct StoredHistory {
    columns: Vec<String>,
    samples: Vec<Vec<Option<f64>>>,
}

impl MetricsHistory {
    /// Encodes all samples as a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let columns: Vec<_> = self.columns().iter().map(HistoryColumn::key).collect();
        let samples: Vec<_> = self.samples.lock().0.iter().map(encode_sample).collect();
        let body = json!({"columns": columns, "samples": samples}).to_string();
        format!("{NAME} {FORMAT} {:08x}\n{body}", crc32c::crc32c(body.as_bytes())).into_bytes()
    }

    /// Replaces the samples by those of a file and returns their number.
    ///
    /// # Errors
    /// If the file has another format or is damaged. The samples are then unchanged.
    pub fn restore(&self, bytes: &[u8]) -> Result<usize, HistoryFileError> {
        let stored = decode(bytes)?;
        let index = |column: &HistoryColumn| stored.columns.iter().position(|key| *key == column.key());
        let indices: Vec<_> = self.columns().iter().map(index).collect();

        let mut ring = HistoryRing::default();
        for row in &stored.samples {
            if row.len() != stored.columns.len() + 1 {
                return Err(damaged("a sample has the wrong number of values"));
            }
            let minute = row[0].and_then(parse_minute).ok_or_else(|| damaged("a sample has no valid time"))?;
            let value = |index: &Option<usize>| index.and_then(|index| row[index + 1]);
            let values = indices.iter().map(|index| value(index).map_or(HistoryValue::UNKNOWN, HistoryValue::new));
            ring.push(HistorySample { minute, values: values.collect() });
        }

        let count = ring.0.len();
        *self.samples.lock() = ring;
        Ok(count)
    }
}

fn encode_sample(sample: &HistorySample) -> serde_json::Value {
    let minute = std::iter::once(json!(sample.minute));
    minute.chain(sample.values.iter().map(|value| json!(value))).collect()
}

fn decode(bytes: &[u8]) -> Result<StoredHistory, HistoryFileError> {
    let text = std::str::from_utf8(bytes).map_err(|error| damaged(&error.to_string()))?;
    let (header, body) = text.split_once('\n').ok_or_else(|| damaged("it has no header"))?;
    let mut words = header.split(' ');
    if words.next() != Some(NAME) {
        return Err(damaged("it has another header"));
    }

    let format = words.next().unwrap_or_default();
    if format != FORMAT {
        return Err(HistoryFileError::OtherFormat(format.chars().take(20).collect()));
    }
    if words.next() != Some(&format!("{:08x}", crc32c::crc32c(body.as_bytes()))) {
        return Err(damaged("its checksum is wrong"));
    }
    serde_json::from_str(body).map_err(|error| damaged(&error.to_string()))
}

/// Returns a minute between the years 1970 and 9999.
fn parse_minute(value: f64) -> Option<i64> {
    let is_minute = value.fract() == 0.0 && (0.0..4_223_371_680.0).contains(&value);
    #[expect(clippy::cast_possible_truncation, reason = "an integer in range")]
    is_minute.then_some(value as i64)
}

fn damaged(reason: &str) -> HistoryFileError {
    HistoryFileError::Damaged(reason.to_owned())
}
