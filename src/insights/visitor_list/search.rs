//! The search for the visitors that have a trait with a text.
//!
//! Insights knows no profiles. So a [`VisitorFinder`] finds the IDs of these visitors, and the list has their events.

use std::fmt;

use crate::checksum::hash128;
use crate::insights::questions::question::fold_case;
use crate::nfc;

/// Maximum number of visitors that a search returns. Few texts of a searchable trait have so many. `more` says that there are
/// further ones.
pub const SEARCH_MATCHES_MAX: usize = 100;

/// A search for the visitors that have a trait with a text.
#[derive(Clone, PartialEq, Eq)]
pub struct TraitSearch {
    /// The name of the trait.
    pub name: String,
    folded_text: String,
}

/// Writes a hash of the text, so that no log line can have the text. The text of an answer's key contains it.
impl fmt::Debug for TraitSearch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} with {:032x}", self.name, hash128(self.folded_text.as_bytes()))
    }
}

impl TraitSearch {
    /// Creates a search for a text in the trait with a name.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), folded_text: fold(text) }
    }

    /// Returns whether a text of the trait is equal to the searched text, ignoring case.
    pub fn matches(&self, text: &str) -> bool {
        fold(text) == self.folded_text
    }
}

/// Returns a text in lower case. A sigma at the end of a word is an ordinary sigma.
fn fold(text: &str) -> String {
    fold_case(&nfc::normalize(text)).replace('ς', "σ")
}

/// The IDs of a visitor that a search has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundVisitor {
    /// The anonymous IDs. The last one was tied last.
    pub anon_ids: Vec<String>,
    pub user_id: Option<String>,
}

/// The visitors that a search has found.
#[derive(Debug, Default)]
pub struct FoundVisitors {
    /// At most [`SEARCH_MATCHES_MAX`] visitors.
    pub visitors: Vec<FoundVisitor>,
    /// True if further visitors have the text.
    pub has_more: bool,
}

impl FoundVisitors {
    /// Adds a visitor, unless there are [`SEARCH_MATCHES_MAX`] already.
    pub fn add(&mut self, visitor: FoundVisitor) {
        match self.visitors.len() < SEARCH_MATCHES_MAX {
            true => self.visitors.push(visitor),
            false => self.has_more = true,
        }
    }
}

/// A finder of the visitors that have a trait with a text.
pub trait VisitorFinder: Send {
    /// Finds the visitors of a site. Returns `None` if `is_over` returned true before the end.
    fn find(&mut self, site: &str, search: &TraitSearch, is_over: &dyn Fn() -> bool)
    -> Option<FoundVisitors>;
}
