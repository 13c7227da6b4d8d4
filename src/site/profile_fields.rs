//! The vocabulary of the profile document: which paths a condition may name, and what they hold.
//!
//! A path becomes a field's code and, behind `traits.`, `events.`, `pages.` and `url.query.`, a name.
//! `edge` reads the same table to give the values.

use crate::condition::{Field, Kind};

macro_rules! fields {
    ($($name:ident $path:literal $kind:ident)*) => {
        /// What a condition can look at. The number is part of the snapshot's format.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum ProfileField { $(#[doc = $path] $name),* }

        const TABLE: &[(&str, ProfileField, Kind)] =
            &[$(($path, ProfileField::$name, Kind::$kind)),*];
    };
}

// A path that ends in a dot is followed by a name. A form with an ending stands behind the plain one: the
// search begins at the end, so that the ending is never taken for a part of the name.
fields! {
    IsNew "visitor.isNew" Any
    IsReturning "visitor.isReturning" Any
    Visits "visitor.visits" Any
    PageViews "visitor.pageViews" Any
    Events "visitor.events" Any
    FirstSeen "visitor.firstSeen" Time
    LastSeen "visitor.lastSeen" Time
    UserId "visitor.userId" Any
    Trait "traits." Any
    Event "events." History
    Page "pages." History
    FirstTouchSource "firstTouch.source" Any
    FirstTouchMedium "firstTouch.medium" Any
    FirstTouchCampaign "firstTouch.campaign" Any
    FirstTouchTerm "firstTouch.term" Any
    FirstTouchContent "firstTouch.content" Any
    FirstTouchReferrer "firstTouch.referrer" Any
    FirstTouchLanding "firstTouch.landing" Any
    LastTouchSource "lastTouch.source" Any
    LastTouchMedium "lastTouch.medium" Any
    LastTouchCampaign "lastTouch.campaign" Any
    LastTouchTerm "lastTouch.term" Any
    LastTouchContent "lastTouch.content" Any
    LastTouchReferrer "lastTouch.referrer" Any
    LastTouchLanding "lastTouch.landing" Any
    DeviceType "device.type" Any
    DeviceOs "device.os" Any
    DeviceBrowser "device.browser" Any
    Locale "locale" Any
    Country "country" Any
    UrlPath "url.path" Any
    UrlQuery "url.query." Any
    Hour "now.hour" Any
    Weekday "now.weekday" Any
    Date "now.date" Any
    EventCount "events.*.count" Any
    EventFirst "events.*.first" Time
    EventLast "events.*.last" Time
    PageCount "pages.*.count" Any
    PageFirst "pages.*.first" Time
    PageLast "pages.*.last" Time
}

impl ProfileField {
    /// The field of a code; None for a code that this release does not have.
    pub fn of(code: u16) -> Option<Self> {
        TABLE.get(usize::from(code)).map(|(_, field, _)| *field)
    }

    /// Whether its value depends on the page's URL.
    pub fn sees_url(self) -> bool {
        use ProfileField as F;
        matches!(self, F::UrlPath | F::UrlQuery)
            || (F::FirstTouchSource as u16..=F::LastTouchLanding as u16).contains(&(self as u16))
    }
}

/// The field that `path` names.
///
/// # Errors
/// The nearest path that exists, if one is near.
pub fn field(path: &str) -> Result<Field, Option<String>> {
    let found = TABLE.iter().rev().find_map(|(form, field, kind)| {
        let name = name_in(form, path)?;
        Some(Field { code: *field as u16, name: name.to_owned(), kind: *kind })
    });
    found.ok_or_else(|| {
        let candidates = TABLE.iter().map(|(form, ..)| *form).filter(|f| !f.contains('*'));
        crate::nearest::nearest(path, candidates)
    })
}

/// The name in `path` where the table says `form`: empty for a form without one.
fn name_in<'p>(form: &str, path: &'p str) -> Option<&'p str> {
    if form == path && !form.ends_with('.') {
        return Some("");
    }
    let (before, ending) = form.split_once('*').unwrap_or((form, ""));
    if !before.ends_with('.') {
        return None;
    }
    path.strip_prefix(before)?.strip_suffix(ending).filter(|name| !name.is_empty())
}
