//! The console: `GET /` and its static files below `/console/`.
//!
//! The files are embedded in the program and compressed once, at the start. They hold no data and need no
//! token: the scripts ask the other endpoints of the admin address for it. There is no build step. The own
//! scripts are modules that import each other. `console.js` imports the module of a page when the page is
//! opened. `vendor/README.md` names the origin of the libraries.

use std::sync::LazyLock;

use crate::admin::query::check_is_read;
use crate::api::{Handler, Outcome, StaticDocument};
use crate::http::request::Request;
use crate::problem::{self, Problem};

/// The path of the page. It is also the base of all relative URLs of the console.
const SHELL_PATH: &str = "/";
/// The part of the path before the name of a file.
const FILES_PREFIX: &str = "/console/";

/// A browser asks each time whether its copy is the present one, so that a new release is seen at once.
const CACHING: &[u8] = b"Cache-Control: no-cache\r\n";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file by the rest of its path: name, media type and bytes.
type File = (&'static str, &'static str, &'static [u8]);

static SHELL: LazyLock<StaticDocument> =
    LazyLock::new(|| StaticDocument::for_own_origin(HTML, include_bytes!("index.html").to_vec()));

static FILES: LazyLock<Vec<(&str, StaticDocument)>> = LazyLock::new(|| {
    let scripts = SCRIPTS.iter().map(|(name, source)| (*name, SCRIPT, script(source)));
    let vendored = VENDORED.iter().map(|(name, kind, bytes)| (*name, *kind, bytes.to_vec()));
    let documents = scripts.chain([("console.css", CSS, stylesheet())]).chain(vendored);
    documents.map(|(name, kind, body)| (name, StaticDocument::for_own_origin(kind, body))).collect()
});

const VENDORED: &[File] = &[
    ("vendor/preact-htm.js", SCRIPT, include_bytes!("vendor/preact-htm.js")),
    ("vendor/uplot.js", SCRIPT, include_bytes!("vendor/uplot.js")),
];

/// The own modules: name and source.
const SCRIPTS: &[(&str, &str)] = &[
    ("audiences.js", include_str!("audiences.js")),
    ("bars.js", include_str!("bars.js")),
    ("case.js", include_str!("case.js")),
    ("changes.js", include_str!("changes.js")),
    ("compare.js", include_str!("compare.js")),
    ("comparisons.js", include_str!("comparisons.js")),
    ("console.js", include_str!("console.js")),
    ("core.js", include_str!("core.js")),
    ("dialog.js", include_str!("dialog.js")),
    ("experiment.js", include_str!("experiment.js")),
    ("experiments.js", include_str!("experiments.js")),
    ("explain.js", include_str!("explain.js")),
    ("find.js", include_str!("find.js")),
    ("funnels.js", include_str!("funnels.js")),
    ("goals.js", include_str!("goals.js")),
    ("linked.js", include_str!("linked.js")),
    ("lists.js", include_str!("lists.js")),
    ("operations.js", include_str!("operations.js")),
    ("overview.js", include_str!("overview.js")),
    ("pages.js", include_str!("pages.js")),
    ("parts.js", include_str!("parts.js")),
    ("paths.js", include_str!("paths.js")),
    ("people.js", include_str!("people.js")),
    ("publications.js", include_str!("publications.js")),
    ("retention.js", include_str!("retention.js")),
    ("rights.js", include_str!("rights.js")),
    ("share.js", include_str!("share.js")),
    ("sources.js", include_str!("sources.js")),
    ("standing.js", include_str!("standing.js")),
    ("steps.js", include_str!("steps.js")),
    ("visitors.js", include_str!("visitors.js")),
];

/// Returns a module without indentation, empty lines and lines that are comments. No text of these files has a
/// line that depends on its indentation.
fn script(source: &str) -> Vec<u8> {
    let lines = source.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// Returns the stylesheet without indentation and line breaks. No line of it ends within a word or a list of words.
fn stylesheet() -> Vec<u8> {
    include_str!("console.css").lines().map(str::trim_start).collect::<String>().into_bytes()
}

/// Compresses the files at startup, so that no request has to.
pub(super) fn prepare() {
    LazyLock::force(&SHELL);
    LazyLock::force(&FILES);
}

/// Returns whether the path is that of the page or of one of its files.
pub(super) fn matches_path(path: &str) -> bool {
    path == SHELL_PATH || path.starts_with(FILES_PREFIX)
}

/// Returns whether the request asks for the page, which a link on another site may open.
pub(super) fn is_shell(request: &Request<'_>) -> bool {
    request.path == SHELL_PATH
}

/// Answers a request for the page or one of its files.
pub(super) fn handle(handler: &mut Handler, request: &Request<'_>, out: &mut Vec<u8>) -> Outcome {
    if let Err(problem) = check_is_read(request) {
        return handler.reject(request, &problem, out);
    }
    match find(request.path) {
        Some(document) => handler.write_document(request, document, CACHING, out),
        None => {
            let sentence = "The console has no file {}.";
            let problem = Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path);
            handler.reject(request, &problem, out)
        }
    }
}

fn find(path: &str) -> Option<&'static StaticDocument> {
    let Some(name) = path.strip_prefix(FILES_PREFIX) else { return Some(&SHELL) };
    FILES.iter().find(|(known, _)| *known == name).map(|(_, document)| document)
}
