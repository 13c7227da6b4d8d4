//! What is sent: requests in their final bytes, made before the clock runs.
//!
//! A workload is a round of [`Template`]s, sent one after the other by each connection and begun again at the end. A request that
//! must never have been sent before (an event with its ID) has places for digits, which are counted on across connections,
//! windows and runs of the program.

use std::ops::Range;

/// One request.
#[derive(Clone, Debug)]
pub struct Template {
    pub bytes: Vec<u8>,
    /// Where decimal digits, zeros in front, say how many requests were sent before: the same number in each place, of one with
    /// more digits the last ones (so that three digits go round through a thousand visitors).
    pub counters: Vec<Range<usize>>,
    /// What answers it.
    pub expected: Expected,
}

/// What an answer must be. Status and framing are looked at in every answer, the rest in every n-th.
#[derive(Clone, Debug)]
pub struct Expected {
    pub status: u16,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// These bytes.
    Same(Vec<u8>),
    /// Contains all of these texts, once inflated where it is gzip.
    Contains(Vec<String>),
    /// Contains `mark` at least `times` times, once inflated, and the same digits behind it each time: what a version of a page
    /// is marked with, so that an answer mixed from two is found out.
    Alike { mark: String, times: usize },
}
