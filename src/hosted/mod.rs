//! The core in a host: a module of WebAssembly, without threads, files and sockets.
//!
//! The host gives the time, a seed, the files of a site, the bytes of a request and the past of its visitor. [`LocalRules`] decides by
//! a rules file and a token, and [`Edge`] by a snapshot and a profile. [`EventFolder`] folds events into one profile, and [`Server`]
//! keeps the profiles of all visitors in memory. The other files of this directory replace modules of the server.

#[cfg(feature = "cli")]
pub mod command;
mod event_folder;
mod local;
mod server;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub use event_folder::EventFolder;
pub use local::LocalRules;
pub use server::{Server, ServerOptions};

use crate::api::{Handler, Settings};
use crate::clock;
pub use crate::clock::set_now_ms;
use crate::http::request::{BodyFraming, ParseOutcome, Request, RequestMeta, Surface, parse};
pub use crate::ids::random::seed;
#[cfg(feature = "author")]
use crate::invented::{Question, VisitedSite};
pub use crate::record::IdKind;
use crate::resolve::user_agent::UserAgentParser;
use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
use crate::site::compile;
use crate::site::snapshot::open::{Snapshot, SnapshotBudget};
use crate::site::source::files::Files;
use crate::site::source::read;
use crate::visitors::lookup::ProfileReader;

/// A compiled site.
#[derive(Debug)]
pub struct Compiled {
    /// The contents of the snapshot file.
    pub snapshot: Vec<u8>,
    /// The warnings, as the program prints them. Empty if there are none.
    pub warnings: String,
}

/// Compiles the files of a site directory, as path and content. Without a version it is that of `site.json`, else the seconds of
/// the time.
///
/// # Errors
/// The report of all errors, as the program prints it.
pub fn compile(files: &[(&str, &[u8])], version: Option<u64>) -> Result<Compiled, String> {
    let files = Files::from_memory(files.iter().copied());
    let (source, diagnostics) = read::read(&files, &|_, _| {});
    let authored = source.site.as_ref().and_then(|site| site.version);
    let version = version.or(authored).unwrap_or_else(clock::now_s);
    let mut compiled = compile::compile(&source, diagnostics, version, &|_, _| {})
        .map_err(|diagnostics| diagnostics.report(&files).to_string())?;
    compile::warn_about_past(&source, clock::now_ms(), &mut compiled.warnings);
    let warnings = match compiled.warnings.is_empty() {
        true => String::new(),
        false => compiled.warnings.report(&files).as_warnings().to_string(),
    };
    Ok(Compiled { snapshot: compiled.bytes, warnings })
}

/// Returns the response for a page to an invented visitor, with the reasons, as `POST /explain` of the admin address gives it. `question`
/// is its body, and `files` are those of a site directory.
///
/// # Errors
/// The report of all errors of the site, or the error of the question.
#[cfg(feature = "author")]
pub fn explain(files: &[(&str, &[u8])], question: &[u8]) -> Result<String, String> {
    let snapshot = compile(files, None)?.snapshot;
    let opened = Snapshot::open_bytes(&snapshot, &SnapshotBudget::new(u64::MAX));
    let site = VisitedSite::new(Arc::new(opened.map_err(|error| error.to_string())?));
    let answer = Question::parse(question).and_then(|question| question.answer(&site, clock::now_ms()));
    answer.map(|body| body.to_string()).map_err(|error| error.detail)
}

/// The open snapshot of a site, for handlers of its requests.
pub struct Site {
    catalog: CurrentCatalog,
    user_agent_parser: Arc<UserAgentParser>,
}

impl Site {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// The reason why it is rejected.
    pub fn open(snapshot: &[u8]) -> Result<Self, String> {
        let site =
            Self { catalog: CurrentCatalog::default(), user_agent_parser: Arc::new(UserAgentParser::new()) };
        site.publish(snapshot)?;
        Ok(site)
    }

    /// Replaces the snapshot. Handlers serve the new one from their next request on.
    ///
    /// # Errors
    /// The reason why it is rejected. The present one stays.
    pub fn publish(&self, snapshot: &[u8]) -> Result<(), String> {
        let budget = SnapshotBudget::new(u64::MAX);
        let snapshot = Snapshot::open_bytes(snapshot, &budget).map_err(|error| error.to_string())?;
        let before = self.catalog.load();
        let versions = before.by_site_id(&snapshot.site().site).map(|site| site.versions.clone());
        let versions = versions.unwrap_or_default().with_snapshot(&snapshot);
        self.catalog.swap(Catalog::new([(Arc::new(snapshot), versions)].into_iter()));
        Ok(())
    }

    fn handler(&self, settings: Settings) -> Handler {
        Handler::without_documents(settings, &self.catalog, Arc::clone(&self.user_agent_parser))
    }
}

/// A handler that decides for the visitor whose profile the host gives.
pub struct Edge {
    handler: Handler,
    profile: ProfileReader,
}

impl Edge {
    /// Creates a handler for a site.
    pub fn new(site: &Site) -> Self {
        let profile = ProfileReader::default();
        let settings = Settings { explain: true, ..Settings::default() };
        Self { handler: site.handler(settings).with_profiles(profile.clone()), profile }
    }

    /// Appends the decision for a visitor, as the response to a complete request to `/v1/variants`. `profile` is the encoded
    /// profile of the visitor, empty for a new one.
    ///
    /// # Errors
    /// The bytes are no complete request without a body.
    pub fn decide(&mut self, profile: &[u8], request: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.profile.set(profile);
        match parse(request, None) {
            ParseOutcome::Complete(parsed, length) if length == request.len() => {
                self.handler.decide(&parsed, &meta(), out);
                Ok(())
            }
            _ => Err("the bytes are no request without a body"),
        }
    }
}

/// Adds the body to a parsed head.
///
/// # Errors
/// The body has another length than the head says.
fn add_body<'r>(request: &mut Request<'r>, body: &'r [u8]) -> Result<(), &'static str> {
    request.body = body;
    match request.body_framing {
        BodyFraming::Length(length) if length == body.len() => Ok(()),
        _ => Err("the body has another length than the head says"),
    }
}

/// Returns the origin of the requests of the host.
fn meta() -> RequestMeta {
    RequestMeta {
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        surface: Surface::Public,
        connection: 0,
        received_at: clock::instant(),
    }
}
