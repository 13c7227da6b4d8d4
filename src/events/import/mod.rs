//! A line of an export becomes a record again.
//!
//! The payload is decoded by the same functions as the body of a POST, which give the traits, the touch and the `previousId`. The
//! columns of the line have precedence: they are those of the record, and the request that gave them is not known any more. A
//! column that the line lacks is derived from the payload, as for a POST. So a line that another program wrote needs few columns.
//!
//! Invariant: the record, exported again, has the same columns as the line, except `seq`. A line for which this is not
//! possible is refused, with the name of the column that would differ.
//!
//! An erasure leaves redacted records, whose payload is `{}`. An export has only their columns. So the trait changes of a redacted
//! identify or profile event, and the URL of a redacted referrer except its host, are not in the record any more.

mod build;
mod compare;
mod error;
mod line;

pub(crate) use self::build::{ImportRules, LineDecoder};
pub(crate) use self::error::LineError;
pub(crate) use self::line::ExportLine;
