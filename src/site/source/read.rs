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
use super::puck;
use super::schema::{FileKind, SCHEMA_MEMBER};
use super::syntax::{self, ParseError};
use super::types::{Audiences, Content, Groups, Queries, Route, Site, Test};
use super::validate::Validator;
use crate::limits::SOURCE_FILES_MAX;
use crate::nearest::nearest;
use crate::parallel;

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

/// Reads the files of a site. Calls `report_progress` after each file with the number of files done and the total.
pub fn read(files: &Files, report_progress: &dyn Fn(usize, usize)) -> (Source, Diagnostics) {
    let mut reader = Reader::new();
    if !is_too_many(files, &mut reader.diagnostics) {
        let listed: Vec<_> = files.iter().collect();
        let parser = FileParser::new(|kind| kind != FileKind::Test);
        let parse =
            |_: &mut (), (file, bytes): &(&str, Result<&[u8], &FileError>)| parser.parse(file, *bytes);
        let parsed = parallel::map(&listed, || (), parse, report_progress);
        for ((file, _), parsed) in listed.iter().zip(parsed) {
            reader.add_file(file, parsed);
        }
        reader.require_site(files);
        reader.source.skipped = files.skipped().map(|(path, expected)| (path.to_owned(), expected)).collect();
        consistency::check(&reader.source, &mut reader.diagnostics);
    }
    (reader.source, reader.diagnostics)
}

/// Reads the valid files in `tests/`, by file.
pub(crate) fn read_tests(files: &Files) -> (Vec<(String, Test)>, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    if is_too_many(files, &mut diagnostics) {
        return (Vec::new(), diagnostics);
    }
    let parser = FileParser::new(|kind| kind == FileKind::Test);
    let parse = |(file, bytes): (&str, Result<&[u8], &FileError>)| {
        Some((file.to_owned(), parser.parse_file(FileKind::Test, file, bytes, &mut diagnostics)?))
    };
    (files.iter().filter_map(parse).collect(), diagnostics)
}

/// Adds a diagnostic if there are too many files.
fn is_too_many(files: &Files, diagnostics: &mut Diagnostics) -> bool {
    let is_too_many = files.len() > SOURCE_FILES_MAX;
    if is_too_many {
        let expected = format!("at most {SOURCE_FILES_MAX} files");
        diagnostics.add_titled(".", "", "too many files", expected, "more");
    }
    is_too_many
}

/// A file, and the diagnostics of its syntax and schema.
struct ParsedFile {
    content: FileContent,
    diagnostics: Diagnostics,
}

/// The content of a file. `None` if it has errors.
enum FileContent {
    /// Boxed, because it is much larger than the others.
    Site(Option<Box<Site>>),
    Audiences(Option<Audiences>),
    Groups(Option<Groups>),
    Queries(Option<Queries>),
    Route(Option<Route>),
    Collection(Name, Option<Content>),
    /// A file that is no part of a site.
    Unexpected,
}

/// A parser of files. Threads share it.
struct FileParser {
    validators: BTreeMap<FileKind, Validator>,
}

struct Reader {
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
        Reader { source, diagnostics: Diagnostics::default() }
    }

    /// Adds a file to the source, and its diagnostics to those of the files before.
    fn add_file(&mut self, file: &str, parsed_file: ParsedFile) {
        let source = &mut self.source;
        match parsed_file.content {
            FileContent::Site(site) => source.site = site.map(|site| *site),
            FileContent::Audiences(audiences) => source.audiences = audiences,
            FileContent::Groups(groups) => source.groups = groups,
            FileContent::Queries(queries) => source.queries = queries,
            FileContent::Route(route) => source.routes.extend(route.map(|route| (file.to_owned(), route))),
            FileContent::Collection(name, items) => {
                source.content.insert(name, Collection { file: file.to_owned(), items });
            }
            FileContent::Unexpected => {}
        }
        self.diagnostics.append(parsed_file.diagnostics);
    }

    fn require_site(&mut self, files: &Files) {
        if !files.contains(SITE_FILE) {
            let least = r#"{"site": "acme", "trackingId": "track_acme", "name": "Acme"}"#;
            let expected = format!("a file that names the site, at least {least}");
            let title = format!("missing file `{SITE_FILE}`");
            self.diagnostics.add_titled(SITE_FILE, "", title, expected, "no such file");
        }
    }
}

impl FileParser {
    /// Creates a parser of these kinds of files.
    fn new(is_parsed: impl Fn(FileKind) -> bool) -> Self {
        let kinds = FileKind::ALL.into_iter().filter(|kind| is_parsed(*kind));
        let validators = kinds.map(|kind| (kind, Validator::new(kind))).collect();
        Self { validators }
    }

    fn parse(&self, file: &str, bytes: Result<&[u8], &FileError>) -> ParsedFile {
        let mut file_diagnostics = Diagnostics::default();
        let diagnostics = &mut file_diagnostics;
        let content = match file {
            SITE_FILE => {
                FileContent::Site(self.parse_file(FileKind::Site, file, bytes, diagnostics).map(Box::new))
            }
            AUDIENCES_FILE => {
                FileContent::Audiences(self.parse_file(FileKind::Audiences, file, bytes, diagnostics))
            }
            GROUPS_FILE => FileContent::Groups(self.parse_file(FileKind::Groups, file, bytes, diagnostics)),
            QUERIES_FILE => {
                FileContent::Queries(self.parse_file(FileKind::Queries, file, bytes, diagnostics))
            }
            _ if file.starts_with("routes/") => {
                FileContent::Route(self.parse_file(FileKind::Route, file, bytes, diagnostics))
            }
            _ if file.starts_with("content/") => self.parse_content(file, bytes, diagnostics),
            _ => report_unexpected(file, diagnostics),
        };
        ParsedFile { content, diagnostics: file_diagnostics }
    }

    fn parse_content(
        &self,
        file: &str,
        bytes: Result<&[u8], &FileError>,
        diagnostics: &mut Diagnostics,
    ) -> FileContent {
        let name = file.trim_start_matches("content/");
        let name = name.strip_suffix(".json").unwrap_or(name);
        let Ok(collection) = Name::try_from(name.to_owned()) else {
            let expected = format!("`content/<collection>.json` with a name of {}", NAME.description);
            let title = format!("invalid name of a collection: `{file}`");
            diagnostics.add_titled(file, "", title, expected, format!("`{file}`"));
            return FileContent::Unexpected;
        };
        FileContent::Collection(collection, self.parse_file(FileKind::Content, file, bytes, diagnostics))
    }

    /// Parses a file, or reports its errors.
    fn parse_file<T: DeserializeOwned>(
        &self,
        kind: FileKind,
        file: &str,
        bytes: Result<&[u8], &FileError>,
        diagnostics: &mut Diagnostics,
    ) -> Option<T> {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(FileError { expected, actual }) => {
                diagnostics.add(Diagnostic::at_value(file, "", expected, actual));
                return None;
            }
        };
        self.parse_and_validate(kind, file, bytes, diagnostics).unwrap_or_else(
            |ParseError { span, title, expected, actual }| {
                let diagnostic = Diagnostic::at_value(file, "", expected, actual);
                diagnostics.add(Diagnostic { target: Target::Span(span), title, ..diagnostic });
                None
            },
        )
    }

    fn parse_and_validate<T: DeserializeOwned>(
        &self,
        kind: FileKind,
        file: &str,
        bytes: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Result<Option<T>, ParseError> {
        let text = syntax::decode_utf8(bytes)?;
        let tree = syntax::parse(text)?;
        let mut found = Diagnostics::default();
        self.validators[&kind].check(file, &tree, &mut found);
        if !found.is_empty() {
            let is_route = kind == FileKind::Route;
            diagnostics.append(if is_route { puck::replace_diagnostics(file, &tree, found) } else { found });
            return Ok(None);
        }
        let text = syntax::blank_member(text, &tree, SCHEMA_MEMBER);
        let value = serde_json::from_str(&text);
        value.map(Some).map_err(|error| syntax::parse_error(&text, &error))
    }
}

fn report_unexpected(file: &str, diagnostics: &mut Diagnostics) -> FileContent {
    let known = [SITE_FILE, AUDIENCES_FILE, GROUPS_FILE, QUERIES_FILE];
    let names = known.map(|name| format!("`{name}`")).join(", ");
    let expected = format!("{names} or a file in `routes/` or `content/`");
    let diagnostic = Diagnostic::at_value(file, "", expected, format!("`{file}`"));
    let diagnostic = diagnostic.with_title(format!("unexpected file `{file}`"));
    diagnostics.add(diagnostic.with_nearest(nearest(file, known)));
    FileContent::Unexpected
}
