//! Tables on stdout: columns without borders, as wide as the terminal, with one line for each row.

use std::fmt;
use std::io::{self, IsTerminal};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, presets};
use console::{Style, Term};

/// Colour of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowColor {
    Plain,
    /// Something went well.
    Good,
    /// Something failed or is withdrawn.
    Bad,
    /// Something is in progress or waits.
    Pending,
}

impl RowColor {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Good => Style::new().green(),
            Self::Bad => Style::new().red(),
            Self::Pending => Style::new().yellow(),
        }
    }
}

/// Table of text. Its `Display` writes one line for the headers and one for each row, each ended by a line break.
pub(super) struct TextTable {
    table: Table,
    colors: Vec<RowColor>,
}

impl TextTable {
    /// Creates an empty table. A terminal that is too narrow cuts the last column.
    pub(super) fn new(headers: &[&str]) -> Self {
        let stdout = Term::stdout();
        let width = io::stdout().is_terminal().then(|| stdout.size().1);
        Self::with_width(headers, width)
    }

    fn with_width(headers: &[&str], width: Option<u16>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(headers);
        match width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let last = headers.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index == last { 0 } else { 2 }));
            if index != last {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        Self { table, colors: Vec::new() }
    }

    /// Right-aligns the columns at `indexes`, counted from 0.
    pub(super) fn right_align(mut self, indexes: &[usize]) -> Self {
        for index in indexes {
            if let Some(column) = self.table.column_mut(*index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    /// Appends a row with one cell for each header. Only the first line of a cell is shown.
    pub(super) fn push(&mut self, color: RowColor, cells: impl IntoIterator<Item = String>) {
        let mut row = Row::from(cells.into_iter().collect::<Vec<_>>());
        row.max_height(1);
        self.table.add_row(row);
        self.colors.push(color);
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = std::iter::once(Style::new().bold());
        let styles = header.chain(self.colors.iter().map(|color| color.style()));
        for (line, style) in self.table.lines().zip(styles) {
            writeln!(f, "{}", style.apply_to(line.trim_end()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<u16>) -> String {
        let mut table = TextTable::with_width(&["NODE", "DOWNLOADS", "DESCRIPTION"], width).right_align(&[1]);
        table.push(RowColor::Plain, ["film-grain".to_owned(), "7".to_owned(), "Grain of 35 mm film".to_owned()]);
        table.push(RowColor::Plain, ["masks".to_owned(), "1042".to_owned(), String::new()]);
        table.to_string()
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_without_a_terminal() {
        let expected = "\
NODE        DOWNLOADS  DESCRIPTION
film-grain          7  Grain of 35 mm film
masks            1042
";
        assert_eq!(table(None), expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_last_column() {
        let text = table(Some(34));
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("film-grain          7  Grain") && line.ends_with('…'), "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
