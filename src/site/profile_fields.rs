//! The vocabulary of profile paths: the paths that a condition can name, and the type of each field.
//!
//! A path such as `traits.plan` becomes a field code. Paths below `traits.`, `events.`, `pages.` and
//! `url.query.` also carry a name (`plan`). `resolve` looks up the values by the same codes.

use std::collections::BTreeSet;

use crate::condition::{Field, FieldKind};

macro_rules! fields {
    ($($name:ident $path:literal $kind:ident)*) => {
        /// A field that a condition can read. Snapshots store the number, so the order must not change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum ProfileField { $(#[doc = $path] $name),* }

        const TABLE: &[(&str, ProfileField, FieldKind)] =
            &[$(($path, ProfileField::$name, FieldKind::$kind)),*];
    };
}

// A name follows a path that ends in a dot. A form with a suffix (`events.*.count`) comes after the plain
// form (`events.`): the search starts at the end, so that it never reads a suffix as part of the name.
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
    At "now.at" Time
    Language "language" Any
}

impl ProfileField {
    /// Returns the field with this code, or `None` if this release does not know the code.
    pub fn from_code(code: u16) -> Option<Self> {
        TABLE.get(usize::from(code)).map(|(_, field, _)| *field)
    }

    /// Returns whether the field's value depends on the page URL.
    pub fn sees_url(self) -> bool {
        use ProfileField as F;
        matches!(self, F::UrlPath | F::UrlQuery) || self.is_of_touch()
    }

    /// Returns whether the field's name is the path of a page.
    pub fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::PageCount | Self::PageFirst | Self::PageLast)
    }

    /// Returns whether the field's name or its value is the path of a page.
    pub fn is_path(self) -> bool {
        self.is_page() || matches!(self, Self::UrlPath | Self::FirstTouchLanding | Self::LastTouchLanding)
    }

    /// Returns whether the field is a member of the first or the last touch.
    pub fn is_of_touch(self) -> bool {
        (Self::FirstTouchSource as u16..=Self::LastTouchLanding as u16).contains(&(self as u16))
    }

    /// Returns whether the name is that of events or pages, in which a final `*` means every name that begins
    /// with the text before it.
    fn takes_prefix(self) -> bool {
        self.is_page() || matches!(self, Self::Event | Self::EventCount | Self::EventFirst | Self::EventLast)
    }
}

/// Iterates over the paths of all fields, in the order of their codes. A path covers every name in the
/// place of its `*`, or after its final dot if it has no `*`.
pub fn field_paths() -> impl Iterator<Item = (&'static str, FieldKind)> {
    TABLE.iter().map(|(path, _, kind)| (*path, *kind))
}

/// Finds the field that `path` names.
///
/// # Errors
/// No field has this path, or the name of an event or page has a `*` before its end. Returns the most similar
/// path, if there is one.
pub fn find_field(path: &str) -> Result<Field, Option<String>> {
    let found = TABLE.iter().rev().find_map(|entry| Some((entry, extract_name(entry.0, path)?)));
    let Some(((_, field, kind), name)) = found else {
        let candidates = TABLE.iter().map(|(form, ..)| *form).filter(|f| !f.contains('*'));
        return Err(crate::nearest::nearest(path, candidates));
    };
    if field.takes_prefix() && name.strip_suffix('*').unwrap_or(name).contains('*') {
        return Err(None);
    }
    Ok(Field { code: *field as u16, name: name.to_owned(), kind: *kind })
}

/// Describes the paths that an author who wrote `unknown_path` can use: those with the same first part, else the
/// first parts of all.
pub(crate) fn describe_paths(unknown_path: &str) -> String {
    let first_part = |path: &'static str| path.split_inclusive('.').next().unwrap_or(path);
    let written = |path: &str| match path.strip_suffix('.') {
        Some(before) => format!("{before}.<name>"),
        None => path.replace('*', "<name>"),
    };
    let same: Vec<String> = field_paths()
        .filter(|(path, _)| path.contains('.') && unknown_path.starts_with(first_part(path)))
        .map(|(path, _)| written(path))
        .collect();
    if !same.is_empty() {
        return format!("one of {}", same.join(", "));
    }
    let parts: BTreeSet<&str> = field_paths().map(|(path, _)| first_part(path)).collect();
    let parts: Vec<&str> = parts.into_iter().collect();
    format!("a path of a known field, which begins with one of {}", parts.join(", "))
}

/// Returns the name that `path` carries if it matches `form`. The name is empty for a form without a name.
fn extract_name<'p>(form: &str, path: &'p str) -> Option<&'p str> {
    let name = match form.split_once('*') {
        Some((before, ending)) => path.strip_prefix(before)?.strip_suffix(ending)?,
        None if form.ends_with('.') => path.strip_prefix(form)?,
        None => return (form == path).then_some(""),
    };
    Some(name).filter(|name| !name.is_empty())
}
