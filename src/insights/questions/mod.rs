//! Answers questions about page views. Also has the code that `experiment` and `zones` use.
//!
//! ```text
//! parameters --question--> question --ask--> plan --scan, row_reader--> rows of each visitor --count, visits--> numbers
//! numbers --answer--> JSON, CSV and tables; --sql--> a query that gives the same numbers over an export
//! ```
//!
//! [`steps`] has the events that a question names. [`credits`] finds the visitor to whom an event of a user belongs.
//! [`sealed`] keeps counts for the next answer.

pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod blocks;
pub(crate) mod calendar;
mod cell;
mod channel_rule;
pub(crate) mod channels;
mod conversion_answer;
pub(crate) mod conversion_sql;
pub(crate) mod conversions;
pub(crate) mod count;
pub(crate) mod credits;
pub(crate) mod goal_sql;
pub(crate) mod goals;
pub(crate) mod limits;
pub(crate) mod money;
pub(crate) mod pairs;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod question;
pub(crate) mod row;
pub(crate) mod row_reader;
pub(crate) mod scan;
pub(crate) mod sealed;
pub(crate) mod site;
pub(crate) mod sql;
pub(crate) mod sql_parts;
pub(crate) mod steps;
pub(crate) mod unknown;
pub(crate) mod values;
pub(crate) mod visit_scan;
pub(crate) mod visitor_rows;
mod visitor_tables;
pub(crate) mod visits;
