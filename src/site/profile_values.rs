//! The values that the fields of a profile can have, for warnings about comparisons that never match.

use std::ops::RangeInclusive;

use jiff::civil::Date;

use super::profile_fields::ProfileField;
use crate::country::country_code;
use crate::record::primary_language;

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Any JSON value, or a value that the parser of conditions checks (a time, a history).
    Any,
    Boolean,
    Number,
    /// A text that is never a number.
    Text,
    /// A text that can be a number, such as a parameter of the URL.
    NumericText,
}

/// A closed list of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueList {
    /// All values of the type.
    All,
    Names(&'static [&'static str]),
    Integers(u8, u8),
    /// Two letters in upper case, or digits.
    Country,
    /// Two or three letters in lower case.
    Language,
    /// A date such as 2026-01-05.
    Date,
}

/// The possible values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldValues {
    pub value_type: ValueType,
    pub list: ValueList,
}

const DEVICE_TYPES: [&str; 5] = ["desktop", "mobile", "tablet", "bot", "unknown"];

impl FieldValues {
    pub fn of(field: ProfileField) -> Self {
        use ProfileField as F;
        let (value_type, list) = match field {
            F::IsNew | F::IsReturning => (ValueType::Boolean, ValueList::All),
            F::Visits | F::PageViews | F::Events | F::EventCount | F::PageCount => {
                (ValueType::Number, ValueList::All)
            }
            F::Hour => (ValueType::Number, ValueList::Integers(0, 23)),
            F::Weekday => (ValueType::Number, ValueList::Integers(1, 7)),
            F::DeviceType => (ValueType::Text, ValueList::Names(&DEVICE_TYPES)),
            F::Country => (ValueType::Text, ValueList::Country),
            F::Language => (ValueType::Text, ValueList::Language),
            F::Date => (ValueType::Text, ValueList::Date),
            F::DeviceOs | F::DeviceBrowser | F::Locale | F::UrlPath => (ValueType::Text, ValueList::All),
            F::UserId | F::UrlQuery => (ValueType::NumericText, ValueList::All),
            field if field.is_of_touch() => (ValueType::NumericText, ValueList::All),
            _ => (ValueType::Any, ValueList::All),
        };
        Self { value_type, list }
    }
}

impl ValueType {
    /// Returns the type as a noun with its article.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Text | Self::NumericText => "a text",
        }
    }
}

impl ValueList {
    /// Returns whether the list has this number. A list of texts has all numbers.
    pub(crate) fn has_number(self, number: f64) -> bool {
        match self {
            Self::Integers(min, max) => {
                let range: RangeInclusive<f64> = f64::from(min)..=f64::from(max);
                number.fract() == 0.0 && range.contains(&number)
            }
            _ => true,
        }
    }

    /// Returns whether the list has this text. A list of numbers has all texts.
    pub(crate) fn has_text(self, text: &str, ignores_case: bool) -> bool {
        match self {
            Self::All | Self::Integers(..) => true,
            Self::Names(names) => {
                names.iter().any(|name| *name == text || ignores_case && name.eq_ignore_ascii_case(text))
            }
            Self::Country => {
                let code = country_code(text.as_bytes());
                code.is_some_and(|code| {
                    code == *text.as_bytes() || ignores_case && code.eq_ignore_ascii_case(text.as_bytes())
                })
            }
            Self::Language => primary_language(text).is_some_and(|language| {
                language.as_str() == text || ignores_case && language.as_str().eq_ignore_ascii_case(text)
            }),
            Self::Date => is_date(text),
        }
    }

    /// Returns the value of the list that `text` means in another notation.
    pub(crate) fn suggest(self, text: &str) -> Option<String> {
        match self {
            Self::Country => country_code(text.as_bytes()).map(|code| code.map(char::from).iter().collect()),
            Self::Language => primary_language(text).map(|language| language.as_str().to_owned()),
            Self::Date => rewrite_date(text),
            _ => None,
        }
    }

    pub(crate) fn names(self) -> &'static [&'static str] {
        if let Self::Names(names) = self { names } else { &[] }
    }

    pub(crate) fn description(self) -> String {
        match self {
            Self::All => "a value of the field".to_owned(),
            Self::Names(names) => format!("one of {}", names.join(", ")),
            Self::Integers(min, max) => format!("a whole number from {min} to {max}"),
            Self::Country => "a country in upper case, such as \"DE\"".to_owned(),
            Self::Language => "a language in lower case without a region, such as \"de\"".to_owned(),
            Self::Date => "a date such as \"2026-01-05\"".to_owned(),
        }
    }
}

/// Returns whether the text is a date of the calendar, such as 2026-01-05.
pub(crate) fn is_date(text: &str) -> bool {
    let form = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    form.eq(*b"0000-00-00") && text.parse::<Date>().is_ok()
}

/// Returns whether the text is the beginning of a date, up to the year or the month. Dates are in order with it.
pub(crate) fn is_date_prefix(text: &str) -> bool {
    matches!(text.len(), 4 | 7) && is_date(&format!("{text}{}", &"0000-01-01"[text.len()..]))
}

/// Returns the date of a text such as `1.12.2026`, `2026-12-1`, `2026/12/01` or `2026-12-01T09:00`. Returns `None` if
/// day and month could be confused.
fn rewrite_date(text: &str) -> Option<String> {
    if let Some(date) = text.get(..10).filter(|date| is_date(date)) {
        return Some(date.to_owned());
    }
    let parts: Vec<&str> = text.split(['.', '-', '/']).collect();
    let numbers: Vec<u16> = parts.iter().map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
    let [first, second, third] = numbers[..] else { return None };
    let [year, month, day] = if parts[0].len() == 4 {
        [first, second, third]
    } else if text.contains('.') || first > 12 {
        [third, second, first]
    } else if second > 12 {
        [third, first, second]
    } else {
        return None;
    };
    Some(format!("{year:04}-{month:02}-{day:02}")).filter(|date| is_date(date))
}
