//! Requests as final bytes, made before the measurement starts.
//!
//! A workload is a cycle of [`Template`]s. Each connection sends them one after the other and repeats the
//! cycle. A request that must be unique (an event with its ID) has places for digits. Their number increases
//! across connections, windows and runs of the program.

use std::ops::Range;

/// A request and its expected response.
#[derive(Clone, Debug)]
pub struct Template {
    pub bytes: Vec<u8>,
    /// Places of zero-padded decimal digits, filled with the number of the request: the same number in each
    /// place. A number with more digits is cut to its last ones, so three digits cycle through a thousand
    /// visitors.
    pub counters: Vec<Range<usize>>,
    /// The expected response.
    pub expected: Expected,
}

/// The requirements on a response. Status and framing are checked for every response, the body for every
/// n-th.
#[derive(Clone, Debug)]
pub struct Expected {
    pub status: u16,
    pub body: ExpectedBody,
}

#[derive(Clone, Debug)]
pub enum ExpectedBody {
    /// Exactly these bytes.
    Exact(Vec<u8>),
    /// Contains all of these texts, after decompression if it is gzip.
    Contains(Vec<String>),
    /// Contains `mark` at least `times` times after decompression, with the same digits after each. The
    /// digits are the version of a page, so this detects a response mixed from two versions.
    SameMark { mark: String, times: usize },
}
