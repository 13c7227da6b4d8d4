//! The cells of answers as CSV and as tables.

/// A cell of a line of CSV or of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Number(i64),
    /// A number with decimals.
    Decimal(f64),
    /// A text. `None` gives an empty cell in CSV, and `-` in a table.
    Text(Option<String>),
}
