//! The query string of our endpoints: form-urlencoded, decoded once, each of our parameters at most once.
//!
//! A value without an escape is borrowed from the target; the others are decoded into a buffer
//! that the caller keeps for the next request.

use super::body::Object;
use crate::limits::QUERY_PARAMS_MAX;
use crate::percent;
use crate::problem::{self, Problem};

macro_rules! params {
    ($($name:ident = $text:literal)*) => {
        /// The parameters that some endpoint knows; all others are ignored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Param { $(#[doc = $text] $name),* }

        const NAMES: &[&str] = &[$($text),*];

        impl Param {
            /// All of them.
            pub const ALL: [Self; NAMES.len()] = [$(Self::$name),*];
        }

        /// Comparing lengths first leaves one or two texts to compare.
        fn named(name: &str) -> Option<Param> {
            $(if name.len() == $text.len() && name == $text { return Some(Param::$name); })*
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
    Limit = "limit"
    Cursor = "cursor"
    Include = "include"
    DryRun = "dryRun"
    UserId = "userId"
}

impl Param {
    /// Its name in the query string.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The values of a request's parameters.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a> {
    values: [Option<&'a str>; NAMES.len()],
}

impl<'a> Params<'a> {
    /// Reads `query`. `decoded` is cleared and holds what had escapes.
    ///
    /// # Errors
    /// `repeated_param`, `invalid_query`.
    pub fn read(query: &'a str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        decoded.clear();
        // Many have no escape at all: then no name and no value needs to be looked at for one.
        let has_escapes = memchr::memchr2(b'%', b'+', query.as_bytes()).is_some();
        let mut read = Self { values: [None; NAMES.len()] };
        let mut escaped = 0;
        let mut rest = query;
        while !rest.is_empty() {
            let pair;
            (pair, rest) = cut(rest, b'&');
            let (name, value) = cut(pair, b'=');
            let Some(param) = (if has_escapes { param(name) } else { named(name) }) else { continue };
            if read.values[param as usize].replace(value).is_some() {
                return Err(repeated(param, pair));
            }
            escaped |= u32::from(has_escapes && is_escaped(value)) << param as u32;
        }
        if escaped != 0 {
            read.decode(escaped, decoded)?;
        }
        Ok(read)
    }

    /// Decodes the values of the parameters whose bits are set.
    fn decode(&mut self, escaped: u32, decoded: &'a mut Vec<u8>) -> Result<(), Problem<'a>> {
        let mut ends = [0; NAMES.len()];
        for at in bits(escaped) {
            percent::form_decode(self.values[at].unwrap_or_default().as_bytes(), decoded);
            ends[at] = decoded.len();
        }
        let decoded = &decoded[..];
        let mut from = 0;
        for at in bits(escaped) {
            self.values[at] = Some(utf8(&decoded[from..ends[at]])?);
            from = ends[at];
        }
        Ok(())
    }

    /// The parameters of an object in a body; of doubled members the last. Only what is a number by its nature has to be
    /// written as one.
    pub fn of_object(object: &'a Object<'_>) -> Self {
        let mut values = [None; NAMES.len()];
        for member in object.members() {
            let Some(param) = named(member.name()) else { continue };
            let text = if param == Param::Limit { member.raw() } else { member.text() };
            values[param as usize] = (!member.is_absent()).then_some(text);
        }
        Self { values }
    }

    /// The value as sent, empty or not; None where the parameter is not there.
    pub fn sent(&self, param: Param) -> Option<&'a str> {
        self.values[param as usize]
    }

    /// The value; None where it is not there or empty.
    pub fn get(&self, param: Param) -> Option<&'a str> {
        self.sent(param).filter(|value| !value.is_empty())
    }

    /// Whether a switch such as `strict=1` is on.
    ///
    /// # Errors
    /// `invalid_param` for anything but 1, 0 and nothing.
    pub fn switch(&self, param: Param) -> Result<bool, Problem<'a>> {
        match self.get(param) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(came) => {
                let problem = Problem::new(problem::INVALID_PARAM, "1 or 0", came);
                Err(problem.at(param.name()))
            }
        }
    }
}

/// The parameters `group.name`, in the order in which they came.
#[derive(Debug)]
pub struct Group<'a> {
    pairs: [(&'a str, &'a str); GROUP_MAX],
    count: usize,
}

/// One more than an endpoint takes: among so many is one that it does not.
const GROUP_MAX: usize = QUERY_PARAMS_MAX + 1;

impl<'a> Group<'a> {
    /// Reads the parameters of `group` in `query`. `decoded` is cleared and holds what had escapes.
    ///
    /// # Errors
    /// `repeated_param`, `invalid_query`.
    pub fn read(query: &'a str, group: &'static str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        decoded.clear();
        let mut places = [(Place::Sent(""), Place::Sent("")); GROUP_MAX];
        let mut count = 0;
        let mut rest = query;
        while !rest.is_empty() && count < GROUP_MAX {
            let pair;
            (pair, rest) = cut(rest, b'&');
            let (name, value) = cut(pair, b'=');
            if let Some(name) = behind(name, group) {
                places[count] = (Place::of(name, decoded), Place::of(value, decoded));
                count += 1;
            }
        }
        let decoded = &decoded[..];
        let mut read = Self { pairs: [("", ""); GROUP_MAX], count };
        for (pair, (name, value)) in read.pairs.iter_mut().zip(&places[..count]) {
            *pair = (name.text(decoded)?, value.text(decoded)?);
        }
        match read.repeated() {
            Some(name) => {
                let expected = "each parameter at most once";
                Err(Problem::new(problem::REPEATED_PARAM, expected, name).within(group, name))
            }
            None => Ok(read),
        }
    }

    fn repeated(&self) -> Option<&'a str> {
        let pairs = &self.pairs[..self.count];
        let is_repeated = |at: usize| pairs[..at].iter().any(|(name, _)| *name == pairs[at].0);
        (0..self.count).find(|at| is_repeated(*at)).map(|at| pairs[at].0)
    }

    /// Names, without the group's, and values.
    pub fn pairs(&self) -> &[(&'a str, &'a str)] {
        &self.pairs[..self.count]
    }
}

/// What stands behind the group and a dot; both may carry escapes.
fn behind<'n>(name: &'n str, group: &str) -> Option<&'n str> {
    let mut rest = name.as_bytes();
    for wanted in group.bytes().chain([b'.']) {
        let (byte, behind) = percent::first_form_byte(rest)?;
        rest = behind;
        if byte != wanted {
            return None;
        }
    }
    Some(&name[name.len() - rest.len()..])
}

/// What stands before the first `byte`, which is ASCII, and what stands behind it.
fn cut(text: &str, byte: u8) -> (&str, &str) {
    match memchr::memchr(byte, text.as_bytes()) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// Where a text of a group stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    Sent(&'a str),
    Decoded(usize, usize),
}

impl<'a> Place<'a> {
    fn of(value: &'a str, decoded: &mut Vec<u8>) -> Self {
        if !is_escaped(value) {
            return Self::Sent(value);
        }
        let from = decoded.len();
        percent::form_decode(value.as_bytes(), decoded);
        Self::Decoded(from, decoded.len())
    }

    fn text(self, decoded: &'a [u8]) -> Result<&'a str, Problem<'a>> {
        match self {
            Place::Sent(text) => Ok(text),
            Place::Decoded(from, to) => utf8(&decoded[from..to]),
        }
    }
}

fn param(name: &str) -> Option<Param> {
    if !is_escaped(name) {
        return named(name);
    }
    // An escaped name is nearly always somebody else's; ours need no escapes, but may carry them.
    NAMES.iter().find(|ours| is_form_encoded(name, ours)).and_then(|n| named(n))
}

/// The parameters whose bits are set.
fn bits(set: u32) -> impl Iterator<Item = usize> {
    (0..NAMES.len()).filter(move |at| set >> at & 1 == 1)
}

/// Without an early end, so that it is done many bytes at a time.
fn is_escaped(text: &str) -> bool {
    text.bytes().fold(false, |found, b| found | (b == b'%') | (b == b'+'))
}

fn is_form_encoded(name: &str, plain: &str) -> bool {
    let mut rest = name.as_bytes();
    plain.bytes().all(|wanted| {
        let Some((byte, behind)) = percent::first_form_byte(rest) else {
            return false;
        };
        rest = behind;
        byte == wanted
    }) && rest.is_empty()
}

fn utf8<'a>(bytes: &'a [u8]) -> Result<&'a str, Problem<'a>> {
    let problem = Problem::missing(problem::INVALID_QUERY, "values in UTF-8, percent-encoded");
    std::str::from_utf8(bytes).map_err(|_| problem)
}

fn repeated<'a>(param: Param, pair: &'a str) -> Problem<'a> {
    let expected = "each parameter at most once";
    Problem::new(problem::REPEATED_PARAM, expected, pair).at(param.name())
}
