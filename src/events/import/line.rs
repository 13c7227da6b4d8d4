//! The members of a line of an export.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::value::RawValue;

use super::super::time;
use super::error::LineError;
use crate::record::RecordKind;

/// A member with a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Column<'l> {
    /// The line has no such member.
    #[default]
    Missing,
    Null,
    Text(Cow<'l, str>),
}

impl Column<'_> {
    pub(super) fn is_missing(&self) -> bool {
        *self == Self::Missing
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Null => None,
        }
    }

    /// Returns the text, or the derived one if the member is missing.
    pub(super) fn or<'t>(&'t self, derived: Option<&'t str>) -> Option<&'t str> {
        if self.is_missing() { derived } else { self.text() }
    }
}

impl<'de: 'l, 'l> Deserialize<'de> for Column<'l> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ColumnVisitor;

        impl<'de> Visitor<'de> for ColumnVisitor {
            type Value = Column<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or null")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Column::Null)
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Column::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Column::Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_any(ColumnVisitor)
    }
}

/// A line of an export. [`super::super::export::COLUMNS`] has its members in their order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExportLine<'l> {
    #[serde(borrow, default)]
    seq: Column<'l>,
    #[serde(borrow, default)]
    received_at: Column<'l>,
    #[serde(borrow, default)]
    pub(super) timestamp: Column<'l>,
    #[serde(borrow, default)]
    pub(super) client_timestamp: Column<'l>,
    #[serde(borrow, default)]
    pub(super) sent_at: Column<'l>,
    #[serde(borrow, default)]
    pub(super) site: Column<'l>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Column<'l>,
    #[serde(borrow, default)]
    pub(super) message_id: Column<'l>,
    #[serde(borrow, default)]
    pub(super) anon_id: Column<'l>,
    #[serde(borrow, default)]
    pub(super) user_id: Column<'l>,
    #[serde(borrow, default)]
    pub(super) tied: Column<'l>,
    #[serde(borrow, default)]
    pub(super) event: Column<'l>,
    #[serde(borrow, default)]
    pub(super) name: Column<'l>,
    #[serde(borrow, default)]
    pub(super) path: Column<'l>,
    pub(super) bot: Option<bool>,
    pub(super) gpc: Option<bool>,
    #[serde(borrow, default)]
    pub(super) variants: Column<'l>,
    #[serde(borrow, default)]
    pub(super) experiments: Column<'l>,
    #[serde(borrow, default)]
    pub(super) referrer_host: Column<'l>,
    #[serde(borrow, default)]
    pub(super) source: Column<'l>,
    #[serde(borrow, default)]
    pub(super) medium: Column<'l>,
    #[serde(borrow, default)]
    pub(super) campaign: Column<'l>,
    #[serde(borrow, default)]
    pub(super) term: Column<'l>,
    #[serde(borrow, default)]
    pub(super) content: Column<'l>,
    #[serde(borrow, default)]
    pub(super) device: Column<'l>,
    #[serde(borrow, default)]
    pub(super) os: Column<'l>,
    #[serde(borrow, default)]
    pub(super) browser: Column<'l>,
    #[serde(borrow, default)]
    pub(super) country: Column<'l>,
    #[serde(borrow, default)]
    pub(super) language: Column<'l>,
    #[serde(borrow, default)]
    pub(super) ip: Column<'l>,
    #[serde(borrow)]
    payload: &'l RawValue,
}

impl<'l> ExportLine<'l> {
    /// Parses a line.
    ///
    /// # Errors
    /// It is not JSON, has other members, or a member has another type.
    pub(crate) fn parse(text: &'l str) -> Result<Self, LineError> {
        serde_json::from_str(text).map_err(|error| LineError::json(&error))
    }

    /// Returns the ID of the site.
    ///
    /// # Errors
    /// It is missing.
    pub(crate) fn site(&self) -> Result<&str, LineError> {
        self.site.text().ok_or(LineError::Missing("site"))
    }

    /// Returns the seq in the log of the export, if the line has one.
    ///
    /// # Errors
    /// It is no number.
    pub(crate) fn seq(&self) -> Result<Option<u64>, LineError> {
        let seq = self.seq.text().map(str::parse).transpose();
        seq.map_err(|_| LineError::invalid("seq", "expected a decimal number"))
    }

    /// Returns the time of the receipt, else that of the sending, in milliseconds.
    ///
    /// # Errors
    /// Both are missing, or no time from the year 2000 on.
    pub(crate) fn received_ms(&self) -> Result<i64, LineError> {
        let (member, column) = match &self.received_at {
            Column::Text(_) => ("receivedAt", &self.received_at),
            _ => ("sentAt", &self.sent_at),
        };
        let time_ms = read_time(member, column)?.ok_or(LineError::Missing("receivedAt"))?;
        if time_ms < time::EVENT_TIME_MS_MIN {
            return Err(LineError::invalid(member, time::EXPECTED));
        }
        Ok(time_ms)
    }

    /// Returns the kind of the event.
    ///
    /// # Errors
    /// It is missing or unknown.
    pub(super) fn kind(&self) -> Result<RecordKind, LineError> {
        let name = self.kind.text().ok_or(LineError::Missing("type"))?;
        let unknown = || {
            let names = RecordKind::EVENT_KINDS.map(RecordKind::name).join(", ");
            LineError::invalid("type", format!("expected one of {names}, got '{name:.100}'"))
        };
        RecordKind::from_name(name).ok_or_else(unknown)
    }

    /// Returns the text of the payload.
    pub(super) fn payload(&self) -> &'l str {
        self.payload.get()
    }

    /// Returns whether the payload was removed by an erasure. A column has something that only a payload states.
    pub(super) fn is_redacted(&self, kind: RecordKind) -> bool {
        if self.payload().chars().filter(|c| !c.is_ascii_whitespace()).ne("{}".chars()) {
            return false;
        }
        let has = |column: &Column<'_>| column.text().is_some();
        let is_stated = has(&self.user_id)
            || !has(&self.anon_id)
            || has(&self.client_timestamp)
            || has(&self.sent_at)
            || has(&self.name)
            || has(&self.variants)
            || has(&self.experiments)
            || self.message_id.text().is_some_and(|id| !is_generated_id(id));
        match kind {
            // Without a user, a redacted identify event would end a tie.
            RecordKind::Identify => has(&self.tied) || has(&self.user_id) || !has(&self.anon_id),
            RecordKind::Track | RecordKind::Profile => true,
            _ => is_stated,
        }
    }

    /// Returns the columns with texts in the order of an export, without the payload.
    pub(super) fn texts(&self) -> [&Column<'l>; 23] {
        [
            &self.site,
            &self.kind,
            &self.message_id,
            &self.anon_id,
            &self.user_id,
            &self.tied,
            &self.event,
            &self.name,
            &self.path,
            &self.variants,
            &self.experiments,
            &self.referrer_host,
            &self.source,
            &self.medium,
            &self.campaign,
            &self.term,
            &self.content,
            &self.device,
            &self.os,
            &self.browser,
            &self.country,
            &self.language,
            &self.ip,
        ]
    }
}

/// Returns the time of a member, in milliseconds.
///
/// # Errors
/// It is no time.
pub(super) fn read_time(member: &'static str, column: &Column<'_>) -> Result<Option<i64>, LineError> {
    let invalid =
        |text: &str| LineError::invalid(member, format!("expected a time in ISO 8601, got '{text:.100}'"));
    column.text().map(|text| time::parse(text).ok_or_else(|| invalid(text))).transpose()
}

/// Returns whether a message ID has the form of those that the server generates: 16 lower-case hex digits.
pub(super) fn is_generated_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
