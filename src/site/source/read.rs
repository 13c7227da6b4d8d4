//! From a site's files to its typed source, with every mistake of syntax and shape.
//!
//! In come files; out come what could be read and the mistakes of the rest. What always holds: a file with a mistake of syntax
//! or shape is in no part of the source, and a part that is missing for that reason is `None`, so that whoever checks
//! references can tell "not there" from "not readable", and all mistakes of a site come at once.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::consistency;
use super::diagnostics::{At, Mistake, Mistakes};
use super::files::{Fault, Files};
use super::pattern::{NAME, Name};
use super::schema::Kind;
use super::syntax::{self, Break};
use super::types::{Audiences, Content, Groups, Queries, Route, Site};
use super::validate::Shape;
use crate::limits::FILES_MAX;
use crate::nearest::nearest;

/// What stands in a site's folder. `None` is a part whose file has mistakes; where an optional file is not there, its part is
/// empty.
#[derive(Debug)]
pub struct Source {
    pub site: Option<Site>,
    pub audiences: Option<Audiences>,
    pub groups: Option<Groups>,
    pub queries: Option<Queries>,
    /// By file; those without mistakes.
    pub routes: Vec<(String, Route)>,
    /// By collection.
    pub content: BTreeMap<Name, Collection>,
}

/// The items of one collection, or `None` where its file has mistakes.
#[derive(Debug)]
pub struct Collection {
    pub file: String,
    pub items: Option<Content>,
}

const SITE: &str = "site.json";
const AUDIENCES: &str = "audiences.json";
const GROUPS: &str = "groups.json";
pub(crate) const QUERIES: &str = "queries.json";

/// Reads a site's files. `progress` hears, file by file, how many are done and how many there are.
pub fn read(files: &Files, progress: &dyn Fn(usize, usize)) -> (Source, Mistakes) {
    let mut reader = Reader::new();
    if files.len() > FILES_MAX {
        let expected = format!("at most {FILES_MAX} files");
        reader.mistakes.add(Mistake::of_value(".", "", expected, "more"));
    } else {
        for (done, (file, bytes)) in files.iter().enumerate() {
            reader.file(file, bytes);
            progress(done + 1, files.len());
        }
        reader.expect_site(files);
        consistency::check(&reader.source, &mut reader.mistakes);
    }
    (reader.source, reader.mistakes)
}

struct Reader {
    shapes: BTreeMap<Kind, Shape>,
    source: Source,
    mistakes: Mistakes,
}

impl Reader {
    fn new() -> Reader {
        let source = Source {
            site: None,
            audiences: Some(Audiences::new()),
            groups: Some(Groups::new()),
            queries: Some(Queries::new()),
            routes: Vec::new(),
            content: BTreeMap::new(),
        };
        let shapes = Kind::ALL.into_iter().map(|kind| (kind, Shape::of(kind))).collect();
        Reader { shapes, source, mistakes: Mistakes::default() }
    }

    fn file(&mut self, file: &str, bytes: Result<&[u8], &Fault>) {
        match file {
            SITE => self.source.site = self.typed(Kind::Site, file, bytes),
            AUDIENCES => self.source.audiences = self.typed(Kind::Audiences, file, bytes),
            GROUPS => self.source.groups = self.typed(Kind::Groups, file, bytes),
            QUERIES => self.source.queries = self.typed(Kind::Queries, file, bytes),
            _ if file.starts_with("routes/") => {
                let route = self.typed(Kind::Route, file, bytes);
                let route = route.map(|route| (file.to_owned(), route));
                self.source.routes.extend(route);
            }
            _ if file.starts_with("content/") => self.content(file, bytes),
            _ => self.unexpected(file),
        }
    }

    fn content(&mut self, file: &str, bytes: Result<&[u8], &Fault>) {
        let name = file.trim_start_matches("content/");
        let name = name.strip_suffix(".json").unwrap_or(name);
        let Ok(collection) = Name::try_from(name.to_owned()) else {
            let expected = format!("`content/<collection>.json` with a name of {}", NAME.says);
            let came = format!("`{file}`");
            return self.mistakes.add(Mistake::of_value(file, "", expected, came));
        };
        let items = self.typed(Kind::Content, file, bytes);
        let file = file.to_owned();
        self.source.content.insert(collection, Collection { file, items });
    }

    fn unexpected(&mut self, file: &str) {
        let known = [SITE, AUDIENCES, GROUPS, QUERIES];
        let names = known.map(|name| format!("`{name}`")).join(", ");
        let expected = format!("{names} or a file in `routes/` or `content/`");
        let mistake = Mistake::of_value(file, "", expected, format!("`{file}`"));
        self.mistakes.add(mistake.with_nearest(nearest(file, known)));
    }

    /// The value of a file, or its mistakes.
    fn typed<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        file: &str,
        bytes: Result<&[u8], &Fault>,
    ) -> Option<T> {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(Fault { expected, came }) => {
                self.mistakes.add(Mistake::of_value(file, "", expected, came));
                return None;
            }
        };
        self.checked(kind, file, bytes).unwrap_or_else(|Break { span, expected, came }| {
            let mistake = Mistake::of_value(file, "", expected, came);
            self.mistakes.add(Mistake { at: At::Span(span), ..mistake });
            None
        })
    }

    fn checked<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        file: &str,
        bytes: &[u8],
    ) -> Result<Option<T>, Break> {
        let before = self.mistakes.len();
        let text = syntax::text(bytes)?;
        let tree = syntax::parse(text)?;
        self.shapes[&kind].check(file, &tree, &mut self.mistakes);
        if self.mistakes.len() > before {
            return Ok(None);
        }
        let value = serde_json::from_str(text);
        value.map(Some).map_err(|error| syntax::refused(text, &error))
    }

    fn expect_site(&mut self, files: &Files) {
        if !files.contains(SITE) {
            let least = r#"{"site": "acme", "trackingId": "track_acme", "name": "Acme"}"#;
            let expected = format!("a file that names the site, at least {least}");
            self.mistakes.add(Mistake::of_value(SITE, "", expected, "no such file"));
        }
    }
}
