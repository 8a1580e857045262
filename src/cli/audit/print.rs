//! Output of query results: tables and text for people, JSON Lines for programs.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde_json::{Map, Value};

use super::amounts::{AmountTotals, TaskAmounts};
use super::file_notation::{is_input, shorten_files};
use super::names::ResourceNames;
use super::queries::DiffSummary;
use super::text::{printable, printable_json, truncate};
use crate::audit::record::canonical;
use crate::pluralize::pluralize;

/// Maximum characters of a value in a table.
const VALUE_MAX: usize = 40;
/// Maximum characters of a value in a change.
const CHANGE_MAX: usize = 160;
/// Maximum characters of a summary.
const SUMMARY_MAX: usize = 100;
/// Maximum characters of a name beside an id.
const NAME_MAX: usize = 16;
/// Characters of a time up to its milliseconds, such as `2026-01-31 12:00:00.000`.
const SHORT_TIME: usize = 23;
/// Bytes above which an id is shortened, and the characters that are kept at its beginning and end.
const ID_MAX: usize = 24;
const ID_FIRST: usize = 8;
const ID_LAST: usize = 6;

/// Prints results to stdout, as text or as JSON Lines. A closed pipe is not an error.
pub(super) struct Printer {
    out: BufWriter<Stdout>,
    json: bool,
    /// `true` to print everything in full.
    wide: bool,
    /// `true` if stdout is a terminal.
    terminal: bool,
    /// Number of printed events.
    events: u64,
}

impl Printer {
    /// Shortens output only for terminals: lines of a pipe may be long, and its reader cannot ask for the omitted part.
    pub(super) fn new(json: bool, wide: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self::with_terminal(terminal, json, wide || !terminal)
    }

    fn with_terminal(terminal: bool, json: bool, wide: bool) -> Self {
        Self { out: BufWriter::new(io::stdout()), json, wide, terminal, events: 0 }
    }

    /// Returns `true` if the event table has the names of actors and resources; JSON has the recorded ids only.
    pub(super) fn shows_names(&self) -> bool {
        !self.json
    }

    /// Prints a row of the event table, with `names` beside ids.
    pub(super) fn event(&mut self, event: &Value, names: &ResourceNames) -> anyhow::Result<()> {
        self.events += 1;
        if self.json {
            return self.json_line(event);
        }
        if self.events == 1 {
            self.write_event_row(["TIME", "POSITION", "ACTOR", "TYPE", "STREAM", "DATA"].map(str::to_owned))?;
        }

        let text = |name: &str| printable(event[name].as_str().unwrap_or_default());
        let time = text("at").replace('T', " ");
        let time = if self.wide { time } else { cut_time(&time) };
        let columns = [
            time,
            event["position"].to_string(),
            self.with_name(&text("actor"), names),
            text("type"),
            self.with_name(&text("stream"), names),
            self.summary(&event["data"]),
        ];
        self.write_event_row(columns)
    }

    /// Returns an id as a table shows it, followed by the name of what it identifies.
    fn with_name(&self, id: &str, names: &ResourceNames) -> String {
        let shown = self.shorten_id(id);
        match names.get(id).map(printable) {
            Some(name) if self.wide => format!("{shown} ({name})"),
            Some(name) => format!("{shown} ({})", truncate(&name, NAME_MAX)),
            None => shown,
        }
    }

    /// Prints an event of a history with its changes.
    pub(super) fn history_entry(&mut self, entry: &Value) -> anyhow::Result<()> {
        if self.json {
            return self.json_line(entry);
        }

        let event = &entry["event"];
        let text = |name: &str| printable(event[name].as_str().unwrap_or_default());
        let request = event["request"].as_str().map(|id| format!(", request {}", printable(id))).unwrap_or_default();
        self.write_line(&format!(
            "{}  #{}  {}  by {}{request}",
            text("at").replace('T', " "),
            event["position"],
            text("type"),
            text("actor"),
        ))?;

        let changes = entry["changes"].as_array().map_or(&[][..], Vec::as_slice);
        if changes.is_empty() {
            let summary = self.summary(&event["data"]);
            let note = if summary.is_empty() { "no visible change".to_owned() } else { summary };
            return self.write_line(&format!("    ({note})"));
        }
        self.write_changes(changes)
    }

    /// Prints the state of a resource at a point in time.
    pub(super) fn state(&mut self, response: &Value) -> anyhow::Result<()> {
        if self.json {
            self.json_line(response)?;
            return self.flush();
        }

        let at = response["at"].as_str().map(|at| format!(" ({at})")).unwrap_or_default();
        let subject = printable(response["thing"].as_str().unwrap_or_default());
        let position = &response["position"];
        match response.get("state") {
            Some(state) => {
                let pretty = serde_json::to_string_pretty(state)?;
                self.write_line(&format!("{subject} at position {position}{at}:"))?;
                self.write_line(&printable_json(&pretty))?;
            }
            None => self.write_line(&format!("{subject} did not exist at position {position}{at}"))?,
        }
        self.flush()
    }

    /// Prints a changed resource.
    pub(super) fn subject_diff(&mut self, subject: &Value) -> anyhow::Result<()> {
        if self.json {
            return self.json_line(subject);
        }
        let text = |name: &str| printable(subject[name].as_str().unwrap_or_default());
        let events = subject["events"].as_u64().unwrap_or_default();
        self.write_line(&format!("{:<9}  {}  ({})", text("change"), text("thing"), pluralize(events, "event")))?;
        self.write_changes(subject["changes"].as_array().map_or(&[][..], Vec::as_slice))
    }

    /// Prints the summary line of a diff.
    pub(super) fn diff_summary(&mut self, summary: &DiffSummary) -> anyhow::Result<()> {
        if !self.json {
            let DiffSummary { from, to, resources } = summary;
            let resources = pluralize(*resources as u64, "resource");
            self.write_line(&format!("{resources} with events after position {from}, up to position {to}"))?;
        }
        self.flush()
    }

    /// Prints what a task cost.
    pub(super) fn amounts(&mut self, task: &TaskAmounts) -> anyhow::Result<()> {
        self.events += 1;
        if self.json {
            return self.json_line(&serde_json::to_value(task)?);
        }

        if self.events == 1 {
            self.write_amount_row(["SUBMITTED", "POSITION", "TASK", "CREDITS", "STATE", "VENDOR", "COST", "PAYERS"])?;
        }
        let time = task.submitted_at.replace('T', " ");
        let time = if self.wide { time } else { cut_time(&time) };
        let payers: Vec<_> = task.payers.iter().map(|payer| self.shorten_id(&printable(payer))).collect();
        self.write_amount_row([
            &time,
            &task.position.to_string(),
            &self.shorten_id(&format!("task/{}", printable(&task.task))),
            &task.credits.to_string(),
            &task.state.to_string(),
            &printable(task.vendor.as_deref().unwrap_or("-")),
            &task.cost.to_string(),
            &payers.join(" "),
        ])
    }

    /// Prints the sums of all selected tasks, including those that cost nothing.
    pub(super) fn amount_totals(&mut self, totals: &AmountTotals) -> anyhow::Result<()> {
        if self.json {
            self.json_line(&serde_json::json!({"total": totals}))?;
        } else {
            self.write_line(&totals.to_string())?;
        }
        self.flush()
    }

    fn write_amount_row(&mut self, columns: [&str; 8]) -> anyhow::Result<()> {
        let [time, position, task, credits, state, vendor, cost, payers] = columns;
        // Wide enough for complete or for shortened times and ids.
        let (time_width, task_width) = if self.wide { (27, 41) } else { (SHORT_TIME, 20) };
        self.write_line(&format!(
            "{time:<time_width$}  {position:>8}  {task:<task_width$}  {credits:>7}  {state:<8}  {vendor:<16}  {cost:>6}  \
             {payers}"
        ))
    }

    /// Ends a table of events, which may be empty.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        if self.events == 0 && !self.json {
            self.write_line("no matching events")?;
        }
        self.flush()
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        exit_if_pipe_closed(self.out.flush())
    }

    /// Prints the changed fields: `+` for added ones, `-` for removed ones, and both values of the others.
    fn write_changes(&mut self, changes: &[Value]) -> anyhow::Result<()> {
        for change in changes {
            let path = change["path"].as_str().unwrap_or_default();
            match (change.get("before"), change.get("after")) {
                (None, Some(Value::Object(created))) if path.is_empty() => self.write_fields('+', created)?,
                (Some(Value::Object(removed)), None) if path.is_empty() => self.write_fields('-', removed)?,
                (None, Some(after)) => {
                    self.write_line(&format!("    + {}: {}", format_pointer(path), self.format_value(after)))?;
                }
                (Some(before), None) => {
                    self.write_line(&format!("    - {}: {}", format_pointer(path), self.format_value(before)))?;
                }
                (Some(before), Some(after)) => {
                    let before = self.format_value(before);
                    let after = self.format_value(after);
                    self.write_line(&format!("      {}: {before} → {after}", format_pointer(path)))?;
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Prints all fields of a created or deleted resource, one per line.
    fn write_fields(&mut self, sign: char, members: &Map<String, Value>) -> anyhow::Result<()> {
        let shortened = shorten_files(&Value::Object(members.clone()), self.wide);
        let mut lines = Vec::new();
        for_each_leaf(&mut Vec::new(), &shortened, &mut |path, value| {
            lines.push(format!("    {sign} {}: {}", printable(&path.join(" · ")), self.format_value(value)));
        });
        lines.iter().try_for_each(|line| self.write_line(line))
    }

    fn format_value(&self, value: &Value) -> String {
        let text = printable_json(&value.to_string());
        if self.wide { text } else { truncate(&text, CHANGE_MAX) }
    }

    /// Formats the fields of an event on one line, job inputs first.
    fn summary(&self, data: &Value) -> String {
        let mut inputs = Vec::new();
        let mut others = Vec::new();
        for_each_field("", &shorten_files(data, self.wide), &mut |name, value| {
            let text = if let Value::String(text) = value { quote_if_needed(text) } else { value.to_string() };
            let text = printable_json(&text);
            let text = if self.wide { text } else { truncate(&text, VALUE_MAX) };
            let field = format!("{}={text}", printable(name));
            if is_input(name) { inputs.push(field) } else { others.push(field) }
        });
        inputs.append(&mut others);
        let summary = inputs.join(" ");
        if self.wide { summary } else { truncate(&summary, SUMMARY_MAX) }
    }

    /// Shortens a long id to its beginning and end, unless `wide`.
    fn shorten_id(&self, name: &str) -> String {
        match name.split_once('/') {
            Some((kind, id)) if !self.wide && id.len() > ID_MAX => {
                let chars: Vec<char> = id.chars().collect();
                let first: String = chars[..ID_FIRST].iter().collect();
                let last: String = chars[chars.len() - ID_LAST..].iter().collect();
                format!("{kind}/{first}…{last}")
            }
            _ => name.to_owned(),
        }
    }

    fn write_event_row(&mut self, [time, position, actor, kind, stream, summary]: [String; 6]) -> anyhow::Result<()> {
        // Wide enough for complete or for shortened times, ids and names.
        let (time_width, actor_width, stream_width) = if self.wide { (27, 56, 58) } else { (SHORT_TIME, 38, 38) };
        let line = format!(
            "{time:<time_width$}  {position:>8}  {actor:<actor_width$}  {kind:<20}  {stream:<stream_width$}  {summary}"
        );
        self.write_line(line.trim_end())
    }

    /// Prints canonical JSON; on a terminal with control characters escaped.
    fn json_line(&mut self, value: &Value) -> anyhow::Result<()> {
        let text = canonical(value);
        let text = if self.terminal { printable_json(&text) } else { text };
        self.write_line(&text)
    }

    fn write_line(&mut self, text: &str) -> anyhow::Result<()> {
        exit_if_pipe_closed(writeln!(self.out, "{text}"))
    }
}

/// Exits successfully if the reader has closed the pipe: `mediary audit log | head`.
fn exit_if_pipe_closed(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Formats a JSON pointer for people.
fn format_pointer(path: &str) -> String {
    let names = path.trim_start_matches('/').split('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
    printable(&names.collect::<Vec<_>>().join(" · "))
}

/// Calls `each` for every value that is not a non-empty object, with its path.
fn for_each_leaf<'v>(path: &mut Vec<&'v str>, value: &'v Value, each: &mut impl FnMut(&[&str], &Value)) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                path.push(name);
                for_each_leaf(path, member, each);
                path.pop();
            }
        }
        value => each(path, value),
    }
}

/// Cuts a time after its milliseconds.
fn cut_time(time: &str) -> String {
    time.get(..SHORT_TIME).unwrap_or(time).to_owned()
}

/// Quotes text unless it is a single plain word.
fn quote_if_needed(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-._:/@+".contains(c));
    if is_plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

/// Field names that only group other fields and are not printed.
const WRAPPERS: [&str; 5] = ["change", "fields", "facts", "version", "work"];

/// Calls `each` for every field that is not an object, with its dotted name.
fn for_each_field(name: &str, value: &Value, each: &mut impl FnMut(&str, &Value)) {
    let Value::Object(members) = value else { return each(name, value) };
    for (member, value) in members {
        let is_wrapper = value.is_object() && WRAPPERS.contains(&member.as_str());
        let nested_name = match (is_wrapper, name) {
            (true, name) => name.to_owned(),
            (false, "") => member.clone(),
            (false, name) => format!("{name}.{member}"),
        };
        for_each_field(&nested_name, value, each);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a printer of shortened text.
    fn narrow_printer() -> Printer {
        Printer::with_terminal(true, false, false)
    }

    #[test]
    fn the_fields_of_an_event_are_printed_on_one_line() {
        let printer = narrow_printer();
        let data =
            json!({"id": "face-tools", "fields": {"name": "Face Tools", "tags": ["a", "b"]}, "subject": {"User": "u"}});
        assert_eq!(printer.summary(&data), r#"name="Face Tools" tags=["a","b"] id=face-tools subject.User=u"#);

        let long = json!({"a": "x".repeat(500), "b": "\u{1b}[2J"});
        let summary = printer.summary(&long);
        assert!(
            summary.contains("a=xxx")
                && summary.contains("…")
                && summary.contains("\\u001b")
                && summary.chars().count() <= 100,
            "{summary}"
        );
    }

    #[test]
    fn long_ids_are_shortened_to_their_beginning_and_end() {
        let id = "user/0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10";
        let wide_printer = Printer { wide: true, ..narrow_printer() };
        assert_eq!(narrow_printer().shorten_id(id), "user/0198c9a2…9b7c10");
        assert_eq!(wide_printer.shorten_id(id), id);
        assert_eq!(narrow_printer().shorten_id("publisher/acme"), "publisher/acme");
    }

    #[test]
    fn inputs_of_a_job_come_first() {
        let picture = json!({"bytes": 259, "digest": "3".repeat(64), "format": "png", "height": 16, "width": 18});
        let data =
            json!({"owner": "o", "task": "t", "work": {"ImageUpscale": {"input": picture, "parameters": {"hdr": 0}}}});
        let expected = "ImageUpscale.input=png:18x16:259B:333333333333 owner=o task=t ImageUpscale.parameters.hdr=0";
        assert_eq!(narrow_printer().summary(&data), expected);
    }

    #[test]
    fn json_pointers_are_formatted_for_people() {
        assert_eq!(format_pointer("/versions/1.0.0/status"), "versions · 1.0.0 · status");
        assert_eq!(format_pointer("/a~1b"), "a/b");
    }
}
