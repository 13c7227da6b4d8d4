//! The header section of a request: the fields that the server reads, and their places.
//!
//! A [`FieldIndex`] holds offsets and no references. So it is valid for every section of the same bytes.

use super::authority::is_authority;
use super::forwarded::ForwardedFor;
use super::framing::TransferCodings;
use super::negotiate::{self, has_token, preferred_language};
use crate::limits::FORWARDED_FIELDS_MAX;

/// A header field that the server reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Host,
    Origin,
    Cookie,
    Referer,
    UserAgent,
    Authorization,
    AcceptEncoding,
    /// Accept-Language. Its value is the preferred language alone.
    Language,
    IfMatch,
    IfNoneMatch,
    ContentLength,
    ContentType,
    ContentEncoding,
    Expect,
    Prefer,
    SecGpc,
    SecFetchMode,
    SecFetchSite,
    /// X-Anon-Id
    AnonId,
    /// X-User-Hash
    UserHash,
    /// X-Request-Id
    RequestId,
    /// X-Debug-Timing
    DebugTiming,
    /// X-Preview
    Preview,
    /// X-Forwarded-Proto
    ForwardedProto,
    /// Access-Control-Request-Method: makes an OPTIONS a preflight.
    PreflightMethod,
    /// Access-Control-Request-Headers
    PreflightHeaders,
    /// The visitor's country, in the header that `--country-header` names.
    Country,
}

const FIELD_COUNT: usize = Field::Country as usize + 1;

/// The range of a value in its section. A missing field has the default, because no value begins at offset 0.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    from: u16,
    to: u16,
}

impl Place {
    /// Returns the place of `value`, which is a part of `section`.
    fn of(value: &[u8], section: &[u8]) -> Self {
        let from = value.as_ptr().addr() - section.as_ptr().addr();
        Self { from: from as u16, to: (from + value.len()) as u16 }
    }

    #[inline]
    fn is_missing(self) -> bool {
        self.from == 0
    }

    #[inline]
    fn value(self, section: &[u8]) -> &[u8] {
        &section[usize::from(self.from)..usize::from(self.to)]
    }
}

/// The places of the known fields of a section, and the facts that decide the framing. Of a repeated field, the first
/// one counts. Of some lists all lines count, which methods of [`Headers`] return.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FieldIndex {
    places: [Place; FIELD_COUNT],
    /// The last X-Forwarded-For fields.
    forwarded: [Place; FORWARDED_FIELDS_MAX],
    /// True if a known field is repeated.
    has_repeats: bool,
    is_forwarded: bool,
    pub(super) host_count: usize,
    pub(super) is_host_valid: bool,
    pub(super) content_length_count: usize,
    pub(super) transfer_codings: TransferCodings,
    pub(super) connection_close: bool,
}

impl FieldIndex {
    /// Reads the fields of `section`, whose length fits 16 bits. `country_header_name` is lower case.
    pub(super) fn read<'s>(
        section: &'s [u8],
        fields: impl Iterator<Item = (&'s str, &'s [u8])>,
        country_header_name: Option<&str>,
    ) -> Self {
        let mut index = Self::default();
        for (name, value) in fields {
            index.add(section, name, value, country_header_name);
        }
        // Until here the place has all of Accept-Language. A cached section keeps the result, so no request
        // computes it again.
        let language = &mut index.places[Field::Language as usize];
        let preferred = preferred_language(language.value(section));
        *language = preferred.map_or_else(Place::default, |preferred| Place::of(preferred, section));
        let host = index.places[Field::Host as usize];
        index.is_host_valid = !host.is_missing() && is_authority(host.value(section));
        index
    }

    fn add(&mut self, section: &[u8], name: &str, value: &[u8], country_header_name: Option<&str>) {
        let Some(field) = self.note_field(section, name, value, country_header_name) else { return };
        let place = &mut self.places[field as usize];
        if place.is_missing() {
            *place = Place::of(value, section);
        } else {
            self.has_repeats = true;
        }
    }

    /// Updates the flags and counts that a field determines. Returns the field if its value has a place.
    fn note_field(
        &mut self,
        section: &[u8],
        name: &str,
        value: &[u8],
        country_header_name: Option<&str>,
    ) -> Option<Field> {
        // The length leaves one or two candidates, so that a field costs one comparison.
        Some(match name.len() {
            3 if is_header(name, b"via") => {
                self.is_forwarded = true;
                return None;
            }
            4 if is_header(name, b"host") => {
                self.host_count += 1;
                Field::Host
            }
            6 if is_header(name, b"cookie") => Field::Cookie,
            6 if is_header(name, b"origin") => Field::Origin,
            6 if is_header(name, b"expect") => Field::Expect,
            6 if is_header(name, b"prefer") => Field::Prefer,
            7 if is_header(name, b"referer") => Field::Referer,
            7 if is_header(name, b"sec-gpc") => Field::SecGpc,
            8 if is_header(name, b"if-match") => Field::IfMatch,
            9 if is_header(name, b"x-preview") => Field::Preview,
            9 if is_header(name, b"x-anon-id") => Field::AnonId,
            9 if is_header(name, b"forwarded") => {
                self.is_forwarded = true;
                return None;
            }
            10 if is_header(name, b"user-agent") => Field::UserAgent,
            10 if is_header(name, b"connection") => {
                self.connection_close |= has_token(value, b"close");
                return None;
            }
            11 if is_header(name, b"x-user-hash") => Field::UserHash,
            12 if is_header(name, b"content-type") => Field::ContentType,
            12 if is_header(name, b"x-request-id") => Field::RequestId,
            13 if is_header(name, b"if-none-match") => Field::IfNoneMatch,
            13 if is_header(name, b"authorization") => Field::Authorization,
            14 if is_header(name, b"content-length") => {
                self.content_length_count += 1;
                Field::ContentLength
            }
            14 if is_header(name, b"x-debug-timing") => Field::DebugTiming,
            14 if is_header(name, b"sec-fetch-mode") => Field::SecFetchMode,
            14 if is_header(name, b"sec-fetch-site") => Field::SecFetchSite,
            15 if is_header(name, b"x-forwarded-for") => {
                self.is_forwarded = true;
                self.forwarded.rotate_left(1);
                self.forwarded[FORWARDED_FIELDS_MAX - 1] = Place::of(value, section);
                return None;
            }
            15 if is_header(name, b"accept-encoding") => Field::AcceptEncoding,
            15 if is_header(name, b"accept-language") => Field::Language,
            16 if is_header(name, b"content-encoding") => Field::ContentEncoding,
            17 if is_header(name, b"transfer-encoding") => {
                self.transfer_codings = self.transfer_codings.with_line(value);
                return None;
            }
            17 if is_header(name, b"x-forwarded-proto") => Field::ForwardedProto,
            29 if is_header(name, b"access-control-request-method") => Field::PreflightMethod,
            30 if is_header(name, b"access-control-request-headers") => Field::PreflightHeaders,
            _ if country_header_name.is_some_and(|country| name.eq_ignore_ascii_case(country)) => {
                Field::Country
            }
            _ => return None,
        })
    }
}

/// The header section of a request, with the fields that the server reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a> {
    /// All fields with their line ends, and the empty line after them.
    pub(crate) section: &'a [u8],
    pub(super) index: FieldIndex,
}

impl<'a> Headers<'a> {
    /// Returns the value of a field.
    #[inline]
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        let place = self.index.places[field as usize];
        (!place.is_missing()).then(|| place.value(self.section))
    }

    /// Returns whether a proxy sent the request: it has Forwarded, X-Forwarded-For or Via.
    pub fn is_forwarded(&self) -> bool {
        self.index.is_forwarded
    }

    /// Returns the values of the last X-Forwarded-For fields.
    pub(crate) fn forwarded(&self) -> ForwardedFor<'a> {
        ForwardedFor(self.index.forwarded.map(|place| place.value(self.section)))
    }

    /// Returns the values of all `Accept-Encoding` fields.
    pub(crate) fn accept_encoding_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(Field::AcceptEncoding, b"accept-encoding")
    }

    /// Returns the values of all `If-None-Match` fields.
    pub(crate) fn if_none_match_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(Field::IfNoneMatch, b"if-none-match")
    }

    /// Returns the values of all `If-Match` fields.
    pub(crate) fn if_match_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(Field::IfMatch, b"if-match")
    }

    /// Returns whether the request has the preference `name` with `value`, such as `return=minimal`.
    pub(crate) fn has_preference(&self, name: &[u8], value: &[u8]) -> bool {
        let mut lines = self.lines(Field::Prefer, b"prefer");
        lines.any(|line| negotiate::has_preference(line, name, value))
    }

    /// Returns the values of all `Cookie` fields.
    pub(crate) fn cookie_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(Field::Cookie, b"cookie")
    }

    /// Returns the values of all `Access-Control-Request-Headers` fields.
    pub(crate) fn preflight_headers_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(Field::PreflightHeaders, b"access-control-request-headers")
    }

    /// Returns the value of the first field and then those of its repetitions, which are rare: they are read
    /// from the section again.
    fn lines(&self, field: Field, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let all_lines = || {
            self.section.split(|b| *b == b'\n').filter_map(move |line| {
                let (field, value) = line.split_at_checked(name.len())?;
                let value = value.strip_prefix(b":")?;
                field.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
            })
        };
        let repetitions = self.index.has_repeats.then(|| all_lines().skip(1));
        self.get(field).into_iter().chain(repetitions.into_iter().flatten())
    }
}

/// Returns whether a field name, which is a token, equals `lower_name` in any case. `lower_name` has only lower-case
/// letters and hyphens. Bit 0x20, which distinguishes the cases, is set in all of them. No other byte of a
/// token becomes one of them when that bit is set.
fn is_header<const LENGTH: usize>(name: &str, lower_name: &[u8; LENGTH]) -> bool {
    let name: Option<&[u8; LENGTH]> = name.as_bytes().try_into().ok();
    // `fold` has no early return, so that it compiles to a few wide comparisons.
    name.is_some_and(|name| {
        name.iter().zip(lower_name).fold(0, |other, (a, b)| other | ((a | 0x20) ^ b)) == 0
    })
}
