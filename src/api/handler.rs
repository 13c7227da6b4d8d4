//! The request handler of one thread: takes a request to its endpoint and appends the response to a buffer.

use std::sync::Arc;

use super::class::{Audience, ProblemContext, ResponseClass};
use super::context::{self, RequestContext};
use super::endpoint::{Endpoint, Outcome, PendingToken, Poll};
use super::event_sink::EventSink;
use super::events::{EventHandler, EventRequest};
use super::held::HeldRequests;
use super::library_settings::SettingsHandler;
use super::problem::write_problem;
use super::query::{self, QueryArguments};
use super::scratch::{DecodeBuffers, Scratch, Settings};
use super::shared_bytes::SharedParts;
use super::static_document::StaticDocument;
use super::user_verifier::UserVerifier;
use super::{browser_script, openapi, problem_page, rate_limit, resolve, routes, rules, site, variants};
use crate::clock;
use crate::events::endpoint::EventEndpoint;
use crate::http::body::{self, JsonObject};
use crate::http::cors::{self, Cors};
use crate::http::date::DateLine;
use crate::http::etag::Etag;
use crate::http::headers::Field;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request, RequestMeta, Surface};
use crate::http::request_id::write_request_id;
use crate::http::response::ResponseHead;
use crate::node_gate::NodeGate;
use crate::problem::Problem;
use crate::resolve::user_agent::UserAgentParser;
use crate::site::catalog::catalog::{Catalog, CatalogReader, CurrentCatalog, PublishedSite};
use crate::visitors::lookup::ProfileReader;

/// Returns whether the server is ready, from the number of published sites. The second argument says whether it must also
/// record events.
pub(crate) type ReadinessCheck = Arc<dyn Fn(usize, bool) -> bool + Send + Sync>;

/// The request handler of one thread.
pub struct Handler {
    pub(super) settings: Settings,
    pub(super) date: DateLine,
    pub(super) catalog_reader: CatalogReader,
    decode_buffers: DecodeBuffers,
    pub(super) scratch: Scratch,
    pub(super) event_sink: Option<EventSink>,
    /// The requests that wait for a publication; `None` if the handler holds none.
    pub(super) held: Option<HeldRequests>,
    readiness_check: Option<ReadinessCheck>,
}

/// The head of a response that no cache may store.
struct UnstoredHead<'a> {
    status: u16,
    /// Complete header lines.
    lines: &'static [u8],
    content_type: &'static str,
    /// Fields with numbers.
    fields: &'a [(&'static str, u64)],
}

/// An attempt to answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    /// The request has waited for a publication. It is within its rate limits, and is answered now.
    AfterWait,
}

impl Handler {
    /// Creates a handler that follows `current_catalog`. Allocates all buffers that a GET needs.
    pub fn new(
        settings: Settings,
        current_catalog: &CurrentCatalog,
        user_agent_parser: Arc<UserAgentParser>,
    ) -> Self {
        openapi::prepare();
        browser_script::prepare();
        problem_page::prepare();
        Self::without_documents(settings, current_catalog, user_agent_parser)
    }

    /// Creates a handler that makes the documents of the program when they are asked for.
    pub(crate) fn without_documents(
        settings: Settings,
        current_catalog: &CurrentCatalog,
        user_agent_parser: Arc<UserAgentParser>,
    ) -> Self {
        Self {
            settings,
            date: DateLine::new(clock::now_s()),
            catalog_reader: current_catalog.reader(),
            decode_buffers: DecodeBuffers::new(),
            scratch: Scratch::new(user_agent_parser),
            event_sink: None,
            held: None,
            readiness_check: None,
        }
    }

    /// Returns the verifier of user IDs.
    pub(crate) fn user_verifier(&self) -> Arc<UserVerifier> {
        Arc::clone(&self.settings.user_verifier)
    }

    /// Lets the handler read visitor profiles.
    pub fn with_profiles(mut self, profiles: ProfileReader) -> Self {
        self.scratch.visitor.profiles = Some(profiles);
        self
    }

    /// Lets the handler ask the gate of a node before it decides for a visitor or records an event. `None`: the server is
    /// alone.
    pub fn with_node_gate(mut self, node_gate: Option<Arc<NodeGate>>) -> Self {
        self.scratch.visitor.node_gate = node_gate;
        self
    }

    /// Lets the handler record events.
    pub fn with_event_sink(self, event_sink: EventSink) -> Self {
        Self { event_sink: Some(event_sink), ..self }
    }

    /// Lets the handler answer `/v1/health`. Without a check, the server counts as not ready.
    pub(crate) fn with_readiness_check(self, readiness_check: ReadinessCheck) -> Self {
        Self { readiness_check: Some(readiness_check), ..self }
    }

    /// Lets clients wait: the handler holds requests until a publication, and records the shared parts of responses for
    /// clients that do not read them.
    pub fn with_waiting_clients(mut self) -> Self {
        self.held = Some(HeldRequests::default());
        self.scratch.response.shared = SharedParts::recording();
        self
    }

    pub(super) fn submit_events(
        &mut self,
        request: &Request<'_>,
        meta: &RequestMeta,
        endpoint: EventEndpoint,
        out: &mut Vec<u8>,
    ) -> Poll {
        let Self { settings, date, catalog_reader, decode_buffers, scratch, event_sink, .. } = self;
        let catalog = catalog_reader.load();
        let handler = EventHandler { settings, date, catalog, scratch };
        let event_request = EventRequest { request, meta, endpoint };
        match handler.submit(event_sink.as_mut(), decode_buffers, event_request, out) {
            Poll::Pending(token) => Poll::Pending(PendingToken::Events(token).number()),
            ready => ready,
        }
    }

    /// Answers whether the server is ready, for load balancers. The answer has no details, because anyone can read it.
    pub(super) fn handle_health(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Outcome {
        let must_record = request.query.split('&').any(|param| param == "events=1");
        let sites = self.catalog().sites().len();
        let is_ready = self.readiness_check.as_ref().is_some_and(|is_ready| is_ready(sites, must_record));
        let (status, text) = match is_ready {
            true => (200, r#"{"status":"ok"}"#),
            false => (503, r#"{"status":"unavailable"}"#),
        };
        self.write_text(request, status, "application/json", text, out);
        Outcome { endpoint: Some(Endpoint::Health), problem: None }
    }

    pub(super) fn handle_library_settings(
        &mut self,
        request: &Request<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Self { settings, date, catalog_reader, scratch, .. } = self;
        let mut cors = Cors::before_site_known(request.headers.get(Field::Origin));
        let ids = &mut scratch.response.ids;
        let text = &mut scratch.plan.text;
        let handler = SettingsHandler { settings, date, catalog: catalog_reader.load(), ids, text };
        let problem = handler.handle(request, meta, &mut cors, out).err();
        if let Some(problem) = &problem {
            write_problem(out, problem, Audience::Private(cors).into(), request, date, scratch);
        }
        Outcome { endpoint: Some(Endpoint::LibrarySettings), problem: problem.map(|problem| problem.kind) }
    }

    pub(super) fn handle_site<'a>(
        &'a mut self,
        request: &'a Request<'a>,
        endpoint: Result<Endpoint, Problem<'a>>,
        meta: &RequestMeta,
        attempt: Attempt,
        out: &mut Vec<u8>,
    ) -> Poll {
        let Self { settings, date, catalog_reader, decode_buffers, scratch, held, .. } = self;
        let mut stage = Stage::Started;
        // Outside of the closure, because a problem borrows from them.
        let object = &mut JsonObject::default();
        let arguments = &mut QueryArguments::Missing;
        let params = &mut Params::default();
        let matched = endpoint.as_ref().ok().copied();
        let result = endpoint.and_then(|endpoint| {
            if let Some(written) = handle_without_site(endpoint, request, date, scratch, out) {
                return written.map(|()| None);
            }
            if request.method == Method::Post {
                *object = JsonObject::parse(body::decode_text(request, &mut decode_buffers.body)?)?;
                *params = Params::from_object(object);
            } else {
                params.read(request.query, &mut decode_buffers.params)?;
            }
            let params = &*params;
            if endpoint == Endpoint::BrowserScript {
                return browser_script::handle(request, params, date, &mut scratch.response, out)
                    .map(|()| None);
            }
            let catalog = catalog_reader.load();
            let class = ResponseClass::of(endpoint, request.method, params);
            stage = Stage::ParamsRead(endpoint, class, params);
            let context = RequestContext::new(request, params, catalog, meta.surface, settings, date)?;
            stage = Stage::SiteFound(class, context.published);
            if attempt == Attempt::First {
                rate_limit::check_site(settings, &context.site().site, request, meta)?;
            }
            match endpoint {
                Endpoint::Resolve => resolve::handle(&context, scratch, out),
                Endpoint::Variants => variants::handle(&context, scratch, out),
                Endpoint::Routes => {
                    let held = held.as_mut().filter(|_| attempt == Attempt::First);
                    let client = || rate_limit::client_key(settings, request, meta);
                    let lists = &settings.prepared_lists;
                    return routes::handle(&context, lists, held, client, scratch, out);
                }
                Endpoint::Site => site::handle(&context, scratch, out),
                Endpoint::Rules => rules::handle(&context, scratch, out),
                Endpoint::Query => {
                    *arguments = match request.method {
                        Method::Post => QueryArguments::of_object(object)?,
                        _ => QueryArguments::of_query(request.query, &mut decode_buffers.group)?,
                    };
                    query::handle(&context, arguments, scratch, out)
                }
                _ => unreachable!("the other endpoints are handled before the site is looked up"),
            }
            .map(|()| None)
        });
        if let Ok(Some(token)) = result {
            return Poll::Pending(PendingToken::Held(token).number());
        }
        let problem = result.as_ref().err().map(|problem| problem.kind);
        if let Err(problem) = result {
            write_problem(out, &problem, stage.problem_context(request), request, date, scratch);
        }
        Poll::Ready(Outcome { endpoint: matched, problem })
    }

    /// Answers `/v1/variants` alone, so that a program that only decides has no other endpoint in it.
    #[cfg(not(feature = "server"))]
    pub(crate) fn decide(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) {
        let Self { settings, date, catalog_reader, decode_buffers, scratch, .. } = self;
        let mut params = Params::default();
        let result = params.read(request.query, &mut decode_buffers.params).and_then(|()| {
            let context =
                RequestContext::new(request, &params, catalog_reader.load(), meta.surface, settings, date)?;
            variants::handle(&context, scratch, out)
        });
        if let Err(problem) = result {
            write_problem(out, &problem, Audience::Private(Cors::Nobody).into(), request, date, scratch);
        }
    }

    /// Appends a problem in place of the response of an endpoint.
    pub fn reject(&mut self, request: &Request<'_>, problem: &Problem<'_>, out: &mut Vec<u8>) -> Outcome {
        let audience = Audience::Private(Cors::Nobody);
        write_problem(out, problem, audience.into(), request, &self.date, &mut self.scratch);
        Outcome { endpoint: None, problem: Some(problem.kind) }
    }

    /// Appends a response with a document of the program, or 304 if the client has it. `header_lines` are complete header
    /// lines.
    pub(crate) fn write_document(
        &mut self,
        request: &Request<'_>,
        document: &StaticDocument,
        header_lines: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        match document.write(request, header_lines, &self.date, &mut self.scratch.response.ids, out) {
            Ok(_) => Outcome::default(),
            Err(problem) => self.reject(request, &problem, out),
        }
    }

    /// Appends a response of the media type `content_type` that no cache may store.
    pub fn write_text(
        &mut self,
        request: &Request<'_>,
        status: u16,
        content_type: &'static str,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        self.write_unstored(
            request,
            UnstoredHead { status, lines: b"", content_type, fields: &[] },
            text,
            out,
        );
    }

    /// Appends one page of a list that no cache may store. `fields` are additional header fields, with names in
    /// the form that [`ResponseHead::field`] takes.
    pub fn write_list_page(
        &mut self,
        request: &Request<'_>,
        content_type: &'static str,
        fields: &[(&'static str, u64)],
        text: &str,
        out: &mut Vec<u8>,
    ) {
        self.write_unstored(
            request,
            UnstoredHead { status: 200, lines: b"", content_type, fields },
            text,
            out,
        );
    }

    /// Appends a private response with a weak validator, or a 304 if the client has it. `text` is not called for a
    /// 304. The representation depends on `Accept`.
    pub(crate) fn write_validated<'t>(
        &mut self,
        request: &Request<'_>,
        etag: &Etag,
        content_type: &'static str,
        out: &mut Vec<u8>,
        text: impl FnOnce() -> &'t str,
    ) {
        let is_unchanged = etag.is_matched_by(&request.headers);
        let mut head = ResponseHead::begin(out, if is_unchanged { 304 } else { 200 }, &self.date);
        head.raw(b"Cache-Control: private, no-cache\r\nVary: Accept\r\nETag: W/");
        head.raw(etag.as_bytes());
        head.raw(b"\r\n");
        write_request_id(&mut head, &mut self.scratch.response.ids, None);
        if is_unchanged {
            head.end(request.close);
            return;
        }
        head.field("Content-Type: ", content_type.as_bytes());
        let text = text();
        let out = head.finish(text.len(), request.close);
        if request.method != Method::Head {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Appends a response that no cache may store. The representation depends on `Accept`.
    pub(crate) fn write_varying(
        &mut self,
        request: &Request<'_>,
        content_type: &'static str,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let head = UnstoredHead { status: 200, lines: b"Vary: Accept\r\n", content_type, fields: &[] };
        self.write_unstored(request, head, text, out);
    }

    fn write_unstored(
        &mut self,
        request: &Request<'_>,
        head: UnstoredHead<'_>,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let UnstoredHead { status, lines, content_type, fields } = head;
        let mut head = ResponseHead::begin(out, status, &self.date);
        head.raw(b"Cache-Control: no-store\r\n");
        head.raw(lines);
        head.field("Content-Type: ", content_type.as_bytes());
        for (name, value) in fields {
            head.field(name, value.to_string().as_bytes());
        }
        write_request_id(&mut head, &mut self.scratch.response.ids, None);
        let out = head.finish(text.len(), request.close);
        if request.method != Method::Head {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Returns the present catalog.
    pub fn catalog(&mut self) -> &Catalog {
        self.catalog_reader.load()
    }

    pub(super) fn handle_options(
        &mut self,
        request: &Request<'_>,
        surface: Surface,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let is_preflight = request.headers.get(Field::PreflightMethod).is_some();
        let endpoint = match request.path {
            "*" => Ok(None),
            _ if is_preflight => Ok(None),
            _ => Endpoint::of_request(request, surface).map(Some),
        };
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(problem) => {
                let audience = Audience::Public { site: None, route: None };
                write_problem(out, &problem, audience.into(), request, &self.date, &mut self.scratch);
                return Outcome { endpoint: None, problem: Some(problem.kind) };
            }
        };
        let mut head = ResponseHead::begin(out, 204, &self.date);
        if is_preflight {
            cors::write_preflight(&mut head, &request.headers);
        } else {
            let methods = endpoint.map_or("GET, HEAD, OPTIONS", Endpoint::methods);
            head.field("Allow: ", methods.as_bytes());
        }
        write_request_id(&mut head, &mut self.scratch.response.ids, None);
        head.end(request.close);
        Outcome { endpoint, problem: None }
    }
}

/// Appends the response of an endpoint that belongs to no site. Returns `None` for other endpoints.
fn handle_without_site<'a>(
    endpoint: Endpoint,
    request: &'a Request<'a>,
    date: &DateLine,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Option<Result<(), Problem<'a>>> {
    match endpoint {
        Endpoint::OpenApi => Some(openapi::handle(request, date, &mut scratch.response, out)),
        Endpoint::Problem => Some(problem_page::handle(request, date, &mut scratch.response.ids, out)),
        _ => None,
    }
}

/// The progress of a request to a site. It decides who may read a problem.
enum Stage<'a> {
    Started,
    ParamsRead(Endpoint, ResponseClass, &'a Params<'a>),
    SiteFound(ResponseClass, &'a PublishedSite),
}

impl<'a> Stage<'a> {
    fn problem_context(self, request: &'a Request<'a>) -> ProblemContext<'a> {
        match self {
            Self::Started => {
                let class = ResponseClass::of_request(request);
                Audience::before_site_known(class, request.headers.get(Field::Origin)).into()
            }
            Self::ParamsRead(endpoint, class, params) => {
                audience_of_params(endpoint, class, params, request).into()
            }
            Self::SiteFound(class, site) => context::problem_context(site.site(), class, request),
        }
    }
}

/// Returns the audience of a problem with the site and the page that the parameters name.
fn audience_of_params<'a>(
    endpoint: Endpoint,
    class: ResponseClass,
    params: &Params<'a>,
    request: &'a Request<'a>,
) -> Audience<'a> {
    let site = params.get(Param::Site).filter(|id| context::is_site_id(id));
    let has_page = matches!(endpoint, Endpoint::Resolve | Endpoint::Variants);
    let route = params.get(Param::Route).filter(|_| has_page);
    match class {
        ResponseClass::Public => Audience::Public { site, route },
        ResponseClass::Private => Audience::before_site_known(class, request.headers.get(Field::Origin)),
    }
}
