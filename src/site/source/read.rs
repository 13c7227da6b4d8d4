//! Reads the files of a site into typed source and reports every error of syntax and schema.
//!
//! A file with a syntax or schema error is not part of the source, and its part is `None`. So checks of
//! references can tell "not there" from "not readable", and the author sees the diagnostics of all files at
//! once.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::consistency;
use super::diagnostics::{Diagnostic, Diagnostics, Target};
use super::files::{FileError, Files};
use super::pattern::{NAME, Name};
use super::schema::{FileKind, SCHEMA_MEMBER};
use super::syntax::{self, ParseError};
use super::types::{Audiences, Content, Groups, Queries, Route, Site};
use super::validate::Validator;
use crate::limits::SOURCE_FILES_MAX;
use crate::nearest::nearest;

/// The typed source of a site. A part is `None` if its file has errors. The part of an optional file that
/// does not exist is empty.
#[derive(Debug)]
pub struct Source {
    pub site: Option<Site>,
    pub audiences: Option<Audiences>,
    pub groups: Option<Groups>,
    pub queries: Option<Queries>,
    /// The valid routes, by file.
    pub routes: Vec<(String, Route)>,
    /// The collections, by name.
    pub content: BTreeMap<Name, Collection>,
    /// The skipped files and directories, each with the expectation that it does not meet.
    pub skipped: Vec<(String, &'static str)>,
}

/// The items of one collection, or `None` if its file has errors.
#[derive(Debug)]
pub struct Collection {
    pub file: String,
    pub items: Option<Content>,
}

const SITE_FILE: &str = "site.json";
const AUDIENCES_FILE: &str = "audiences.json";
const GROUPS_FILE: &str = "groups.json";
pub(crate) const QUERIES_FILE: &str = "queries.json";

/// Reads the files of a site. Calls `progress` after each file with the number of files done and the total.
pub fn read(files: &Files, progress: &dyn Fn(usize, usize)) -> (Source, Diagnostics) {
    let mut reader = Reader::new();
    if files.len() > SOURCE_FILES_MAX {
        let expected = format!("at most {SOURCE_FILES_MAX} files");
        let diagnostic = Diagnostic::at_value(".", "", expected, "more");
        reader.diagnostics.add(diagnostic.with_title("too many files"));
    } else {
        for (done, (file, bytes)) in files.iter().enumerate() {
            reader.read_file(file, bytes);
            progress(done + 1, files.len());
        }
        reader.require_site(files);
        reader.source.skipped = files.skipped().map(|(path, expected)| (path.to_owned(), expected)).collect();
        consistency::check(&reader.source, &mut reader.diagnostics);
    }
    (reader.source, reader.diagnostics)
}

struct Reader {
    validators: BTreeMap<FileKind, Validator>,
    source: Source,
    diagnostics: Diagnostics,
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
            skipped: Vec::new(),
        };
        let validators = FileKind::ALL.into_iter().map(|kind| (kind, Validator::new(kind))).collect();
        Reader { validators, source, diagnostics: Diagnostics::default() }
    }

    fn read_file(&mut self, file: &str, bytes: Result<&[u8], &FileError>) {
        match file {
            SITE_FILE => self.source.site = self.parse_file(FileKind::Site, file, bytes),
            AUDIENCES_FILE => self.source.audiences = self.parse_file(FileKind::Audiences, file, bytes),
            GROUPS_FILE => self.source.groups = self.parse_file(FileKind::Groups, file, bytes),
            QUERIES_FILE => self.source.queries = self.parse_file(FileKind::Queries, file, bytes),
            _ if file.starts_with("routes/") => {
                let route = self.parse_file(FileKind::Route, file, bytes);
                let route = route.map(|route| (file.to_owned(), route));
                self.source.routes.extend(route);
            }
            _ if file.starts_with("content/") => self.read_content(file, bytes),
            _ => self.report_unexpected(file),
        }
    }

    fn read_content(&mut self, file: &str, bytes: Result<&[u8], &FileError>) {
        let name = file.trim_start_matches("content/");
        let name = name.strip_suffix(".json").unwrap_or(name);
        let Ok(collection) = Name::try_from(name.to_owned()) else {
            let expected = format!("`content/<collection>.json` with a name of {}", NAME.description);
            let diagnostic = Diagnostic::at_value(file, "", expected, format!("`{file}`"));
            return self
                .diagnostics
                .add(diagnostic.with_title(format!("invalid name of a collection: `{file}`")));
        };
        let items = self.parse_file(FileKind::Content, file, bytes);
        let file = file.to_owned();
        self.source.content.insert(collection, Collection { file, items });
    }

    fn report_unexpected(&mut self, file: &str) {
        let known = [SITE_FILE, AUDIENCES_FILE, GROUPS_FILE, QUERIES_FILE];
        let names = known.map(|name| format!("`{name}`")).join(", ");
        let expected = format!("{names} or a file in `routes/` or `content/`");
        let diagnostic = Diagnostic::at_value(file, "", expected, format!("`{file}`"));
        let diagnostic = diagnostic.with_title(format!("unexpected file `{file}`"));
        self.diagnostics.add(diagnostic.with_nearest(nearest(file, known)));
    }

    /// Parses a file, or reports its errors.
    fn parse_file<T: DeserializeOwned>(
        &mut self,
        kind: FileKind,
        file: &str,
        bytes: Result<&[u8], &FileError>,
    ) -> Option<T> {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(FileError { expected, actual }) => {
                self.diagnostics.add(Diagnostic::at_value(file, "", expected, actual));
                return None;
            }
        };
        self.parse_and_validate(kind, file, bytes).unwrap_or_else(
            |ParseError { span, title, expected, actual }| {
                let diagnostic = Diagnostic::at_value(file, "", expected, actual);
                self.diagnostics.add(Diagnostic { target: Target::Span(span), title, ..diagnostic });
                None
            },
        )
    }

    fn parse_and_validate<T: DeserializeOwned>(
        &mut self,
        kind: FileKind,
        file: &str,
        bytes: &[u8],
    ) -> Result<Option<T>, ParseError> {
        let before = self.diagnostics.len();
        let text = syntax::decode_utf8(bytes)?;
        let tree = syntax::parse(text)?;
        self.validators[&kind].check(file, &tree, &mut self.diagnostics);
        if self.diagnostics.len() > before {
            return Ok(None);
        }
        let text = syntax::blank_member(text, &tree, SCHEMA_MEMBER);
        let value = serde_json::from_str(&text);
        value.map(Some).map_err(|error| syntax::parse_error(&text, &error))
    }

    fn require_site(&mut self, files: &Files) {
        if !files.contains(SITE_FILE) {
            let least = r#"{"site": "acme", "trackingId": "track_acme", "name": "Acme"}"#;
            let expected = format!("a file that names the site, at least {least}");
            let diagnostic = Diagnostic::at_value(SITE_FILE, "", expected, "no such file");
            self.diagnostics.add(diagnostic.with_title(format!("missing file `{SITE_FILE}`")));
        }
    }
}
