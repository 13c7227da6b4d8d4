//! The console: `GET /` and its static files below `/console/`.
//!
//! The files are embedded in the program and compressed once, at the start. They hold no data and need no token: the
//! scripts ask the other endpoints of the admin address for it. There is no build step. `vendor/README.md` names the
//! origin of the libraries.

use std::sync::LazyLock;

use crate::api::{Handler, Outcome, StaticDocument};
use crate::http::request::{Method, Request};
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

/// The files by the rest of their path: name, media type and bytes.
type File = (&'static str, &'static str, &'static [u8]);

static SHELL: LazyLock<StaticDocument> =
    LazyLock::new(|| StaticDocument::for_own_origin(HTML, include_bytes!("index.html").to_vec()));

static FILES: LazyLock<Vec<(&str, StaticDocument)>> = LazyLock::new(|| {
    let document = |(name, kind, bytes): &File| {
        let is_vendored = name.starts_with("vendor/");
        let body = if is_vendored { bytes.to_vec() } else { without_indentation(bytes) };
        (*name, StaticDocument::for_own_origin(kind, body))
    };
    SOURCES.iter().map(document).collect()
});

/// Removes white space at the begin of each line, and lines that are comments. That is a tenth of the compressed size. The
/// lines keep their numbers, so that a message of the browser names the line of the source. No text of these files has a
/// line that depends on its indentation.
fn without_indentation(source: &[u8]) -> Vec<u8> {
    let lines = source.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let kept: Vec<&[u8]> = lines.map(|line| if line.starts_with(b"//") { b"" } else { line }).collect();
    kept.join(&b'\n')
}

const SOURCES: &[File] = &[
    ("console.css", CSS, include_bytes!("console.css")),
    ("console.js", SCRIPT, include_bytes!("console.js")),
    ("analytics.js", SCRIPT, include_bytes!("analytics.js")),
    ("core.js", SCRIPT, include_bytes!("core.js")),
    ("experiments.js", SCRIPT, include_bytes!("experiments.js")),
    ("explain.js", SCRIPT, include_bytes!("explain.js")),
    ("operations.js", SCRIPT, include_bytes!("operations.js")),
    ("parts.js", SCRIPT, include_bytes!("parts.js")),
    ("visitors.js", SCRIPT, include_bytes!("visitors.js")),
    ("vendor/preact-htm.js", SCRIPT, include_bytes!("vendor/preact-htm.js")),
    ("vendor/uplot.css", CSS, include_bytes!("vendor/uplot.css")),
    ("vendor/uplot.js", SCRIPT, include_bytes!("vendor/uplot.js")),
];

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
    if !matches!(request.method, Method::Get | Method::Head) {
        let problem = Problem::method_not_allowed(request.method.subject(), "GET, HEAD");
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
