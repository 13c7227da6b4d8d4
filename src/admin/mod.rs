//! The admin address: health, metrics, visitor data, explanations of decisions, and the console. It answers from the
//! first moment of a start.
//!
//! Only its port separates it from the public addresses, so it protects itself: `access` has the rules.

mod access;
mod answer_error;
mod areas;
mod audiences;
mod audit;
pub(crate) mod changes;
#[cfg(feature = "cluster")]
mod cluster;
mod console;
mod current_access;
mod current_links;
mod erasure_answer;
mod head_lines;
mod health;
mod hidden_traits;
mod insights;
mod invented;
mod links;
mod metrics;
mod metrics_text;
mod node_readiness;
mod past_decision;
mod publications;
mod query;
mod records;
mod representation;
mod security_headers;
mod sites;
pub(crate) mod slow_requests;
pub(crate) mod startup;
mod visitor_header;
mod visitor_list;
mod visitor_profile;
mod visitor_query;
mod visitors;
pub mod waiting;

pub(crate) use changes::SnapshotRules;
pub(crate) use insights::InsightsHandler;
pub use metrics::Metrics;
pub(crate) use metrics::ServerMetrics;
pub(crate) use slow_requests::SlowRequests;
pub(crate) use visitor_list::ProfileFinder;
pub(crate) use visitors::VisitorHandler;

pub use self::access::AccessSettings;
pub(crate) use self::access::PersonHeaders;
pub(crate) use self::current_access::CurrentAccess;
pub(crate) use self::current_links::CurrentLinks;

use self::access::AccessRules;
use self::answer_error::reject_request;
use self::areas::Sight;
use self::audit::{Client, Refusal, RefusalRecorder};
use self::query::check_is_read;
use self::startup::{DeferredParts, Startup};
use crate::access::Caller;
use crate::api::{Endpoint, Handler, Outcome, Poll, Service};
use crate::clock;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Request, RequestMeta, Surface};
use crate::insights::engine::Output;
use crate::problem::{self, Problem};
use crate::site::catalog::files::CurrentFiles;
use crate::worker::Lifecycle;

/// The service of the admin address.
pub struct AdminService {
    handler: Handler,
    /// Decides for invented visitors: it has no profiles.
    invented: Handler,
    lifecycle: Lifecycle,
    access: AccessRules,
    refusals: RefusalRecorder,
    metrics: Metrics,
    /// `None` until startup has ended.
    data: Option<DataHandlers>,
    /// The snapshot files as of the last scan.
    files: CurrentFiles,
    /// `None` after startup.
    startup: Option<Startup>,
}

/// The handlers of recorded data, and their requests that wait.
pub(crate) struct DataHandlers {
    pub visitors: VisitorHandler,
    pub insights: InsightsHandler,
    pub requests: SlowRequests,
}

impl AdminService {
    /// Creates the service. Each of `handlers` answers with explanations: the first one until startup has ended, and the second
    /// one for invented visitors. `access` admits clients, and `lifecycle` decides readiness.
    pub fn new(
        handlers: [Handler; 2],
        access: AccessSettings,
        lifecycle: Lifecycle,
        metrics: Metrics,
    ) -> Self {
        console::prepare();
        let access = AccessRules::new(access);
        let [handler, invented] = handlers;
        Self {
            handler,
            invented,
            lifecycle,
            access,
            refusals: RefusalRecorder::default(),
            metrics,
            data: None,
            files: CurrentFiles::default(),
            startup: None,
        }
    }

    /// Lists these snapshot files in the answers of `/sites`.
    #[must_use]
    pub fn with_files(self, files: CurrentFiles) -> Self {
        Self { files, ..self }
    }

    /// Reports the progress of startup until the remaining parts arrive.
    #[must_use]
    pub(crate) fn with_startup(self, startup: Startup) -> Self {
        Self { startup: Some(startup), ..self }
    }

    fn install_parts(&mut self) {
        let Some(Startup { parts, .. }) = &self.startup else { return };
        let Ok(DeferredParts { make, metrics }) = parts.try_recv() else { return };
        let (handler, data) = make();
        self.handler = handler;
        let visitors = data.visitors.with_files(self.files.clone());
        let insights = data.insights.with_files(self.files.clone());
        self.data = Some(DataHandlers { visitors, insights, ..data });
        self.metrics.server = Some(metrics);
        self.startup = None;
    }

    /// Answers a request, if its client has access and startup has ended.
    fn dispatch(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        if matches!(request.path, health::ALIVE_PATH | health::READY_PATH | metrics::PATH)
            && let Err(problem) = check_is_read(request)
        {
            return Poll::Ready(self.handler.reject(request, &problem, out));
        }
        if request.path == metrics::PATH
            && self.access.has_file()
            && let Err(problem) = self.admit(request, meta)
        {
            return Poll::Ready(self.handler.reject(request, &problem, out));
        }
        let add_members = |body: &mut serde_json::Value| self.metrics.add_readiness(body);
        let is_recording = self.metrics.is_recording();
        if health::handle(
            &mut self.handler,
            self.startup.as_ref(),
            &self.lifecycle,
            health::LogState { is_recording, add_members: &add_members },
            request,
            out,
        ) || self.metrics.handle(&mut self.handler, request, out)
        {
            return Poll::Ready(Outcome::default());
        }
        if Endpoint::of(request.path) == Some(Endpoint::Problem) {
            return self.handler.handle(request, meta, out);
        }
        if console::matches_path(request.path) {
            return Poll::Ready(match self.access.check_static(request, console::is_shell(request)) {
                Ok(()) => console::handle(&mut self.handler, request, out),
                Err(problem) => self.handler.reject(request, &problem, out),
            });
        }
        let (client, sight) = match self.admit(request, meta) {
            Ok(admitted) => admitted,
            Err(problem) => return Poll::Ready(self.handler.reject(request, &problem, out)),
        };
        if request.path == areas::ACCESS_PATH {
            return Poll::Ready(self.write_access(request, &client.caller, out));
        }
        let surface =
            if sight == Sight::Everything { meta.surface } else { Surface::AdminWithoutPrivateTraits };
        let meta = &RequestMeta { surface, ..*meta };
        let needs_profiles = VisitorHandler::matches_path(request.path) || request.path == visitor_list::PATH;
        let is_loading = self.metrics.is_loading() && needs_profiles;
        if self.startup.is_some() || is_loading {
            let sentence = match self.startup {
                Some(_) => "The server is starting; /readyz shows the progress.",
                None => {
                    "This node is reading a checkpoint; retry when /readyz no longer says \"cluster\":\"loading\"."
                }
            };
            let problem = Problem::new(problem::STARTING, sentence);
            return Poll::Ready(self.handler.reject(request, &problem, out));
        }
        match visitor_header::add_to_query(request) {
            Ok(None) => self.answer(request, meta, &client, sight, out),
            Ok(Some(query)) => {
                self.answer(&Request { query: &query, ..request.clone() }, meta, &client, sight, out)
            }
            Err(problem) => Poll::Ready(self.handler.reject(request, &problem, out)),
        }
    }

    /// Returns the client of a request, and the part of the visitors that it sees. A refusal is a line of the audit log.
    fn admit<'a>(
        &mut self,
        request: &Request<'a>,
        meta: &RequestMeta,
    ) -> Result<(Client, Sight), Problem<'a>> {
        let from = self.access.client_address(request, meta);
        let catalog = self.handler.catalog();
        let (problem, actor) = match self.access.identify(request, meta) {
            Ok(caller) => match areas::authorize(&caller, request, catalog) {
                Ok(sight) => return Ok((Client { caller, from }, sight)),
                Err(problem) => (problem, Some(caller.actor)),
            },
            Err(problem) => (problem, self.access.named_person(request, meta)),
        };
        if let Some(data) = &self.data {
            let site = areas::published_site(request, catalog);
            let text = areas::refusal_text(request, &problem);
            let refused = Refusal { actor: actor.as_ref(), from, site: site.as_deref(), text };
            self.refusals.record(data.visitors.audit(), &refused, meta.received_at);
        }
        Err(problem)
    }

    fn write_access(&mut self, request: &Request<'_>, caller: &Caller, out: &mut Vec<u8>) -> Outcome {
        if let Err(problem) = check_is_read(request) {
            return self.handler.reject(request, &problem, out);
        }
        let mut rights = caller.to_json();
        if let Some(link) = caller.link() {
            rights["link"] = links::opened_json(link);
        }
        self.handler.write_text(request, 200, "application/json", &rights.to_string(), out);
        Outcome::default()
    }

    /// Answers a request for data whose client has access.
    fn answer(
        &mut self,
        request: &Request<'_>,
        meta: &RequestMeta,
        client: &Client,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> Poll {
        if let Some(DataHandlers { visitors, insights, requests }) = &mut self.data {
            if request.path == areas::LINKS_PATH {
                let log = visitors.audit();
                let links = self.access.links();
                let step = links::begin(links, requests, request, client, log, self.handler.catalog());
                return Poll::Ready(match step {
                    Ok(links::FirstStep::Waiting(slot)) => return Poll::Pending(slot),
                    Ok(links::FirstStep::Text(text)) => {
                        self.handler.write_text(request, 200, "application/json", &text, out);
                        Outcome::default()
                    }
                    Err(error) => reject_request(&mut self.handler, request, error, out),
                });
            }
            if request.path == invented::PATH {
                return match invented::begin(requests, request, self.handler.catalog()) {
                    Ok(slot) => Poll::Pending(slot),
                    Err(error) => Poll::Ready(reject_request(&mut self.handler, request, error, out)),
                };
            }
            if VisitorHandler::matches_path(request.path) {
                return visitors.handle(requests, &mut self.handler, request, client, out);
            }
            if InsightsHandler::matches_path(request.path) {
                return insights.handle(requests, &mut self.handler, request, client, out);
            }
        }
        if request.path == sites::PATH {
            return Poll::Ready(self.write_sites(request, &client.caller, out));
        }
        match Endpoint::of(request.path) {
            Some(Endpoint::Resolve | Endpoint::Variants | Endpoint::Routes) if sight == Sight::Invented => {
                self.invented.handle(request, meta, out)
            }
            Some(Endpoint::Resolve | Endpoint::Variants | Endpoint::Routes) => {
                let log = self.data.as_ref().map(|data| data.visitors.audit());
                let recorded = log.map_or(Ok(()), |log| {
                    audit::record_explanation(log, client, request, self.handler.catalog())
                });
                match recorded {
                    Ok(()) => self.handler.handle(request, meta, out),
                    Err(problem) => Poll::Ready(self.handler.reject(request, &problem, out)),
                }
            }
            _ => {
                let problem = areas::unknown_endpoint(request.path);
                Poll::Ready(self.handler.reject(request, &problem, out))
            }
        }
    }

    fn write_sites(&mut self, request: &Request<'_>, caller: &Caller, out: &mut Vec<u8>) -> Outcome {
        match sites::write(request, caller, self.handler.catalog(), &self.files.load()) {
            Ok((representation, text)) => {
                self.handler.write_varying(request, representation.media_type(), &text, out);
                Outcome::default()
            }
            Err(problem) => self.handler.reject(request, &problem, out),
        }
    }
}

impl Service for AdminService {
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        self.install_parts();
        let begin = out.len();
        let poll = self.dispatch(request, meta, out);
        security_headers::insert(out, begin);
        poll
    }

    fn finish(
        &mut self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let results = self.data.as_mut().and_then(|data| data.requests.take(token));
        let Some(((etag_input, results), request)) = results.zip(buffered_request.request()) else {
            return Outcome::default();
        };
        let begin = out.len();
        // The rights can have changed since the request arrived.
        let caller = match self.access.identify(&request, meta) {
            Ok(caller) => caller,
            Err(problem) => return self.handler.reject(&request, &problem, out),
        };
        let outcome = if let Some(data) = &mut self.data
            && let Ok([Output::Visitors(answer)]) = results.as_deref()
        {
            visitor_list::write(&mut self.handler, &request, answer, &caller, data.visitors.profiles(), out)
        } else {
            insights::write_results(&mut self.handler, &request, &etag_input, results, out)
        };
        security_headers::insert(out, begin);
        outcome
    }

    fn is_ready(&self, token: usize) -> bool {
        self.data.as_ref().is_some_and(|data| data.requests.is_ready(token))
    }

    fn take_completion(&mut self) -> Option<usize> {
        let DataHandlers { insights, requests, .. } = self.data.as_mut()?;
        requests.take_ready(insights.last_seq())
    }

    fn cancel(&mut self, token: usize) {
        if let Some(data) = &mut self.data {
            data.requests.abandon(token);
        }
    }

    fn reject_unparsed(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        self.handler.reject_unparsed(problem, head, meta, out);
        security_headers::insert(out, begin);
    }

    fn country_header(&self) -> Option<&str> {
        self.handler.country_header()
    }

    fn ends_with_client(&self, token: usize) -> bool {
        token != slow_requests::JOB_SLOT
    }

    fn tick(&mut self) {
        self.install_parts();
        self.handler.tick();
        self.invented.tick();
        let change = self.access.tick();
        if let Some(data) = &mut self.data {
            let log = data.visitors.audit();
            change.iter().for_each(|change| audit::record_access_change(log, change));
            self.refusals.end_windows(log, clock::instant());
            data.insights.tick();
        }
    }
}
