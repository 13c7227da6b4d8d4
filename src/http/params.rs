//! The query string of our endpoints: form-urlencoded parameters, decoded once, each one at most once.
//!
//! A value without escapes borrows from the request target. The others are decoded into a buffer that the
//! caller reuses for the next request.

use std::ops::Range;

use super::body::JsonObject;
use super::short_search;
use crate::limits::QUERY_PARAMS_MAX;
use crate::percent;
use crate::problem::{self, Problem};

macro_rules! params {
    ($($name:ident = $text:literal)*) => {
        /// A parameter that an endpoint knows. All other parameters are ignored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Param { $(#[doc = $text] $name),* }

        const NAMES: &[&str] = &[$($text),*];

        impl Param {
            /// All parameters, in order.
            pub const ALL: [Self; NAMES.len()] = [$(Self::$name),*];
        }

        /// Returns the parameter of this name. Comparing lengths first leaves one or two texts to compare.
        fn named(name: &[u8]) -> Option<Param> {
            $(if name.len() == $text.len() && name == $text.as_bytes() { return Some(Param::$name); })*
            None
        }
    };
}

params! {
    TrackingId = "trackingId"
    Site = "site"
    Query = "query"
    Route = "route"
    AnonId = "anonId"
    Variants = "variants"
    Strict = "strict"
    Explain = "explain"
    Url = "url"
    Referrer = "referrer"
    UserAgent = "userAgent"
    Locale = "locale"
    Country = "country"
    Prefix = "prefix"
    Since = "since"
    Wait = "wait"
    Limit = "limit"
    Cursor = "cursor"
    Include = "include"
    DryRun = "dryRun"
    UserId = "userId"
    Override = "override"
    Personalize = "personalize"
    ContentHash = "h"
    Now = "now"
    WriteKey = "writeKey"
    Visitor = "visitor"
}

impl Param {
    /// Returns the name of the parameter in the query string.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The parameter values of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params<'a> {
    values: [Option<&'a str>; NAMES.len()],
}

impl<'a> Params<'a> {
    /// Parses `query`. Values with escapes are decoded into `buffer`, which is cleared first.
    ///
    /// # Errors
    /// `repeated_param`, `invalid_query`.
    pub fn parse(query: &'a str, buffer: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        let mut params = Self::default();
        params.read(query, buffer)?;
        Ok(params)
    }

    /// Parses `query` like [`Self::parse`], in place: the values of a request are not moved. `self` must be empty.
    ///
    /// # Errors
    /// `repeated_param`, `invalid_query`.
    pub(crate) fn read(&mut self, query: &'a str, buffer: &'a mut Vec<u8>) -> Result<(), Problem<'a>> {
        buffer.clear();
        // Many queries have no escape at all. Then names and values need no check for escapes.
        let has_escapes = short_search::contains(query.as_bytes(), *b"%+");
        let mut escaped = 0;
        for pair in Pairs::new(query) {
            let name = &query.as_bytes()[pair.name];
            let value = &query[pair.value];
            let Some(param) = (if has_escapes { param_by_name(name) } else { named(name) }) else { continue };
            if self.values[param as usize].replace(value).is_some() {
                return Err(repeated_param(param));
            }
            escaped |= u32::from(has_escapes && is_escaped(value.as_bytes())) << param as u32;
        }
        if escaped != 0 {
            self.decode(escaped, buffer)?;
        }
        Ok(())
    }

    /// Decodes the values of the parameters whose bits are set.
    fn decode(&mut self, escaped_param_bits: u32, buffer: &'a mut Vec<u8>) -> Result<(), Problem<'a>> {
        let mut ends = [0; NAMES.len()];
        for at in set_bits(escaped_param_bits) {
            percent::decode_form(self.values[at].unwrap_or_default().as_bytes(), buffer);
            ends[at] = buffer.len();
        }
        let buffer = &buffer[..];
        let mut from = 0;
        for at in set_bits(escaped_param_bits) {
            self.values[at] = Some(utf8(&buffer[from..ends[at]])?);
            from = ends[at];
        }
        Ok(())
    }

    /// Takes the parameters from an object in a request body. If a member is repeated, the last one counts.
    /// Every value may be a string, except for `limit`, which must be a JSON number.
    pub fn from_object(object: &'a JsonObject<'_>) -> Self {
        let mut values = [None; NAMES.len()];
        for member in object.members() {
            let Some(param) = named(member.name().as_bytes()) else { continue };
            let text = if param == Param::Limit { member.raw() } else { member.text() };
            values[param as usize] = (!member.is_absent()).then_some(text);
        }
        Self { values }
    }

    /// Returns the value, even if it is empty. Returns `None` if the parameter is missing.
    pub fn get_even_if_empty(&self, param: Param) -> Option<&'a str> {
        self.values[param as usize]
    }

    /// Returns the value, or `None` if the parameter is missing or empty.
    pub fn get(&self, param: Param) -> Option<&'a str> {
        self.get_even_if_empty(param).filter(|value| !value.is_empty())
    }

    /// Returns whether a switch such as `strict=1` is on. A missing or empty one is off.
    ///
    /// # Errors
    /// `invalid_param`, if the value is not `1`, `0` or empty.
    pub fn flag(&self, param: Param) -> Result<bool, Problem<'a>> {
        self.flag_or(param, false)
    }

    /// Returns whether a switch is on. A missing or empty one has the value `default`.
    ///
    /// # Errors
    /// `invalid_param`, if the value is not `1`, `0` or empty.
    pub fn flag_or(&self, param: Param, default: bool) -> Result<bool, Problem<'a>> {
        match self.get(param) {
            None => Ok(default),
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(actual) => {
                let problem = Problem::invalid_value(problem::INVALID_PARAM, "1 or 0", actual);
                Err(problem.at(param.name()))
            }
        }
    }
}

/// The name of a parameter in a query string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodedName<'a> {
    text: &'a str,
    is_escaped: bool,
}

impl EncodedName<'_> {
    /// Returns whether the name decodes to `name`.
    pub(crate) fn is(self, name: &str) -> bool {
        if self.is_escaped { decodes_to(self.text.as_bytes(), name) } else { self.text == name }
    }
}

/// Returns the names of the parameters that are not empty.
pub(crate) fn names_with_values(query: &str) -> impl Iterator<Item = EncodedName<'_>> {
    let has_escapes = short_search::contains(query.as_bytes(), *b"%+");
    let pairs = Pairs::new(query).filter(|pair| !pair.value.is_empty());
    pairs.map(move |pair| {
        let text = &query[pair.name];
        EncodedName { text, is_escaped: has_escapes && is_escaped(text.as_bytes()) }
    })
}

/// The parameters `group.name` of a query string, in order.
#[derive(Debug)]
pub struct ParamGroup<'a> {
    pairs: [(&'a str, &'a str); GROUP_PARAMS_MAX],
    count: usize,
}

/// Maximum number of parameters read from one group: one more than an endpoint takes, so that at least one of
/// them is unknown to it. Parameters after those are ignored.
const GROUP_PARAMS_MAX: usize = QUERY_PARAMS_MAX + 1;

impl<'a> ParamGroup<'a> {
    /// Parses the parameters of `group_name` in `query`. Escapes are decoded into `buffer`, which is cleared
    /// first.
    ///
    /// # Errors
    /// `repeated_param`, `invalid_query`.
    pub fn parse(
        query: &'a str,
        group_name: &'static str,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Self, Problem<'a>> {
        buffer.clear();
        let mut places = [(TextLocation::Borrowed(""), TextLocation::Borrowed("")); GROUP_PARAMS_MAX];
        let mut count = 0;
        for pair in Pairs::new(query) {
            if count == GROUP_PARAMS_MAX {
                break;
            }
            if let Some(name) = strip_group(&query[pair.name], group_name) {
                let value = &query[pair.value];
                places[count] = (TextLocation::of(name, buffer), TextLocation::of(value, buffer));
                count += 1;
            }
        }
        let buffer = &buffer[..];
        let mut read = Self { pairs: [("", ""); GROUP_PARAMS_MAX], count };
        for (pair, (name, value)) in read.pairs.iter_mut().zip(&places[..count]) {
            *pair = (name.text(buffer)?, value.text(buffer)?);
        }
        match read.find_repeated() {
            Some(name) => {
                Err(Problem::with_value(problem::REPEATED_PARAM, PARAM_REPEATED, name)
                    .within(group_name, name))
            }
            None => Ok(read),
        }
    }

    fn find_repeated(&self) -> Option<&'a str> {
        let pairs = &self.pairs[..self.count];
        let is_repeated = |at: usize| pairs[..at].iter().any(|(name, _)| *name == pairs[at].0);
        (0..self.count).find(|at| is_repeated(*at)).map(|at| pairs[at].0)
    }

    /// Returns pairs of name and value. The names are without the group.
    pub fn pairs(&self) -> &[(&'a str, &'a str)] {
        &self.pairs[..self.count]
    }
}

/// Removes the group and a dot from the start of a name, or returns `None` if it has another start. The start
/// may contain escapes.
fn strip_group<'n>(name: &'n str, group_name: &str) -> Option<&'n str> {
    let mut rest = name.as_bytes();
    for wanted in group_name.bytes().chain([b'.']) {
        let (byte, behind) = percent::decode_first_form_byte(rest)?;
        rest = behind;
        if byte != wanted {
            return None;
        }
    }
    Some(&name[name.len() - rest.len()..])
}

/// An iterator over the pairs of a query string.
struct Pairs<'a> {
    query: &'a [u8],
    /// Offset of the next pair.
    next: usize,
}

/// The ranges of the name and the value of a pair. In `a=1&b=2`, the first pair has the ranges of `a` and `1`. A missing
/// part is empty. All ranges end at a separator, so they are on character boundaries.
struct PairRanges {
    name: Range<usize>,
    value: Range<usize>,
}

impl<'a> Pairs<'a> {
    fn new(query: &'a str) -> Self {
        Self { query: query.as_bytes(), next: 0 }
    }
}

impl Iterator for Pairs<'_> {
    type Item = PairRanges;

    // Inlined, so that the ranges stay in registers.
    #[inline(always)]
    fn next(&mut self) -> Option<PairRanges> {
        let Self { query, next: begin } = *self;
        if begin >= query.len() {
            return None;
        }
        let name_end = short_search::position(query, begin, *b"=&").unwrap_or(query.len());
        let value = match query.get(name_end) {
            Some(b'=') => {
                let value_end = short_search::position(query, name_end + 1, *b"&");
                name_end + 1..value_end.unwrap_or(query.len())
            }
            _ => name_end..name_end,
        };
        self.next = value.end + 1;
        Some(PairRanges { name: begin..name_end, value })
    }
}

/// The location of a text: in the query string, or a range of the decoded bytes.
#[derive(Clone, Copy)]
enum TextLocation<'a> {
    Borrowed(&'a str),
    Decoded(usize, usize),
}

impl<'a> TextLocation<'a> {
    fn of(text: &'a str, buffer: &mut Vec<u8>) -> Self {
        if !is_escaped(text.as_bytes()) {
            return Self::Borrowed(text);
        }
        let from = buffer.len();
        percent::decode_form(text.as_bytes(), buffer);
        Self::Decoded(from, buffer.len())
    }

    fn text(self, buffer: &'a [u8]) -> Result<&'a str, Problem<'a>> {
        match self {
            TextLocation::Borrowed(text) => Ok(text),
            TextLocation::Decoded(from, to) => utf8(&buffer[from..to]),
        }
    }
}

fn param_by_name(name: &[u8]) -> Option<Param> {
    if !is_escaped(name) {
        return named(name);
    }
    // Clients rarely escape our names, so an escaped name is nearly always unknown. Escapes are still
    // allowed.
    NAMES.iter().find(|ours| decodes_to(name, ours)).and_then(|ours| named(ours.as_bytes()))
}

/// Returns the indexes of the set bits.
fn set_bits(bits: u32) -> impl Iterator<Item = usize> {
    (0..NAMES.len()).filter(move |at| bits >> at & 1 == 1)
}

/// Returns whether `text` has an escape or a plus. It never returns early, so that the compiler can vectorize
/// the loop.
fn is_escaped(text: &[u8]) -> bool {
    text.iter().fold(false, |found, b| found | (*b == b'%') | (*b == b'+'))
}

fn decodes_to(name: &[u8], text: &str) -> bool {
    let mut rest = name;
    text.bytes().all(|wanted| {
        let Some((byte, behind)) = percent::decode_first_form_byte(rest) else {
            return false;
        };
        rest = behind;
        byte == wanted
    }) && rest.is_empty()
}

fn utf8<'a>(bytes: &'a [u8]) -> Result<&'a str, Problem<'a>> {
    let problem =
        Problem::new(problem::INVALID_QUERY, "A value in the query string is not percent-encoded UTF-8.");
    std::str::from_utf8(bytes).map_err(|_| problem)
}

const PARAM_REPEATED: &str = "The parameter {} is given more than once.";

fn repeated_param<'a>(param: Param) -> Problem<'a> {
    Problem::with_value(problem::REPEATED_PARAM, PARAM_REPEATED, param.name()).at(param.name())
}
