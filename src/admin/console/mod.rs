//! The console: `GET /` and its static files below `/console/`.
//!
//! The files are embedded in the program and compressed once, at the start. They hold no data and need no
//! token: the scripts ask the other endpoints of the admin address for it. There is no build step. The own
//! scripts are modules that import each other. They are served as one, so that a browser has one request
//! instead of eight, and gzip needs a sixth less for them. `vendor/README.md` names the origin of the
//! libraries.

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
    let own = [("console.js", SCRIPT, joined_scripts()), ("console.css", CSS, stylesheet())];
    let vendored = VENDORED.iter().map(|(name, kind, bytes)| (*name, *kind, bytes.to_vec()));
    let documents = own.into_iter().chain(vendored);
    documents.map(|(name, kind, body)| (name, StaticDocument::for_own_origin(kind, body))).collect()
});

const VENDORED: &[File] = &[
    ("vendor/preact-htm.js", SCRIPT, include_bytes!("vendor/preact-htm.js")),
    ("vendor/uplot.js", SCRIPT, include_bytes!("vendor/uplot.js")),
];

/// The own modules. Each one imports only those before it.
const MODULES: &[&str] = &[
    include_str!("core.js"),
    include_str!("parts.js"),
    include_str!("explain.js"),
    include_str!("analytics.js"),
    include_str!("experiments.js"),
    include_str!("visitors.js"),
    include_str!("operations.js"),
    include_str!("console.js"),
];

/// The names that the modules import from the library.
const LIBRARY_IMPORT: &str = "import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';\n";

/// Joins the modules to one script, without their imports, the word `export`, indentation and lines that are
/// comments. They share one scope, so a name of a module's top level is in no other module. No text of these
/// files has a line that depends on its indentation.
fn joined_scripts() -> Vec<u8> {
    let mut script = String::from(LIBRARY_IMPORT);
    for module in MODULES {
        let mut is_import = false;
        for line in module.lines() {
            is_import |= line.starts_with("import ");
            let code = line.strip_prefix("export ").unwrap_or(line).trim_start();
            if !is_import && !code.is_empty() && !code.starts_with("//") {
                script.push_str(code);
                script.push('\n');
            }
            is_import &= !line.ends_with(';');
        }
    }
    script.into_bytes()
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
