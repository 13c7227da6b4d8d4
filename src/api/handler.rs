//! What a thread needs to answer: its view of the catalog, its tables, its buffers.

use std::sync::Arc;

use ipnet::IpNet;

use super::context::Call;
use super::events::{self, Recorder};
use super::problem::{write_problem, write_unframed_problem};
use super::query::{self, Given};
use super::{Answered, Endpoint, Progress, openapi, rate_limit, resolve, response, routes, variants};
use crate::api::token_bucket::Throttle;
use crate::clock;
use crate::http::body::{self, Object};
use crate::http::cors::{self, Cors};
use crate::http::date::DateLine;
use crate::http::params::Params;
use crate::http::request::{Arrival, Method, Request, Surface, Waited};
use crate::http::response::Head;
use crate::ids::RequestIds;
use crate::limits::{HEAD_BYTES_MAX, ROUTES_PAGE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::problem::Problem;
use crate::resolve::decide::Deciding;
use crate::resolve::path::RoutePath;
use crate::resolve::render::Plan;
use crate::resolve::user_agent::{AgentTable, Agents};
use crate::site::catalog::catalog::{Catalog, Current, View};
use crate::site::query::run::Search;
use crate::visitors::events::endpoint::Endpoint as EventEndpoint;
use crate::visitors::lookup::Lookup;

/// What the operator set for all desks.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether Edge answers `explain=1`.
    pub explain: bool,
    /// The header in which a proxy names the country, lower case.
    pub country_header: Option<Box<str>>,
    /// The proxies whose word of a client's address is believed.
    pub trusted_proxies: Arc<[IpNet]>,
    /// How often one address may ask; None: as often as it likes.
    pub address_limit: Option<Arc<Throttle>>,
    /// How often may be asked for one site.
    pub site_limit: Option<Arc<Throttle>>,
}

/// One thread's place to answer at.
pub struct Desk {
    pub(super) settings: Settings,
    pub(super) date: DateLine,
    pub(super) view: View,
    pub(super) decoded: Decoded,
    pub(super) room: Room,
    pub(super) recorder: Option<Recorder>,
}

/// What of a request had to be decoded. Problems borrow from it.
#[derive(Default)]
pub(super) struct Decoded {
    /// Parameters with escapes.
    pub(super) params: Vec<u8>,
    /// The same of a group; of credentials the user.
    pub(super) group: Vec<u8>,
    /// A compressed body.
    pub(super) body: Vec<u8>,
}

/// Buffers and tables that outlive a request; each is cleared by its user before use.
pub(super) struct Room {
    pub(super) path: RoutePath,
    pub(super) plan: Plan,
    pub(super) deciding: Deciding,
    /// What the log says of visitors; None where nothing is recorded.
    pub(super) visitors: Option<Lookup>,
    pub(super) agents: Arc<Agents>,
    pub(super) agent_table: AgentTable,
    pub(super) ids: RequestIds,
    /// The canonical `variants` of the answer.
    pub(super) canonical: Vec<u8>,
    /// What an ETag is the hash of.
    pub(super) tagged: Vec<u8>,
    /// A `Content-Location`.
    pub(super) location: Vec<u8>,
    pub(super) search: Search,
    /// The three lists of `/v1/routes`.
    pub(super) lists: routes::Lists,
}

impl Desk {
    /// A desk that follows `current`. Allocates all that GETs will need.
    pub fn new(settings: Settings, current: &Current, agents: Arc<Agents>) -> Self {
        let mut plan = Plan::default();
        plan.text.reserve(ROUTES_PAGE_BYTES_MAX);
        openapi::prepare();
        Self {
            settings,
            date: DateLine::new(clock::now_s()),
            view: current.view(),
            decoded: Decoded {
                params: Vec::with_capacity(TARGET_BYTES_MAX),
                group: Vec::with_capacity(TARGET_BYTES_MAX),
                body: Vec::new(),
            },
            room: Room {
                path: RoutePath::new(),
                plan,
                deciding: Deciding::new(),
                visitors: None,
                agents,
                agent_table: AgentTable::new(),
                ids: RequestIds::new(),
                canonical: Vec::with_capacity(HEAD_BYTES_MAX),
                tagged: Vec::with_capacity(HEAD_BYTES_MAX),
                location: Vec::with_capacity(HEAD_BYTES_MAX),
                search: Search::new(),
                lists: routes::Lists::default(),
            },
            recorder: None,
        }
    }

    /// The same, which knows visitors.
    pub fn knowing(mut self, visitors: Lookup) -> Self {
        self.room.visitors = Some(visitors);
        self
    }

    /// The same, which also records events.
    pub fn recording(self, recorder: Recorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Once a second: the date, and a catalog that an idle thread would otherwise keep alive.
    pub fn tick(&mut self) {
        self.date = DateLine::new(clock::now_s());
        self.view.load();
    }

    /// The lower-case name of the header that the parser must look for.
    pub fn country_header(&self) -> Option<&str> {
        self.settings.country_header.as_deref()
    }

    /// Appends the answer to a whole request, or queues what it records: then [`Self::finish`] is for answering it.
    pub fn answer(&mut self, request: &Request<'_>, arrival: &Arrival, out: &mut Vec<u8>) -> Progress {
        // A preflight that is refused would hide from the page why.
        if request.method == Method::Options {
            return Progress::Answered(self.answer_options(request, arrival.surface, out));
        }
        let records =
            matches!(arrival.surface, Surface::Public | Surface::Events) && request.method == Method::Post;
        let recording = records.then(|| EventEndpoint::at(request.path)).flatten();
        if let Err(problem) = rate_limit::address(&self.settings, request, arrival) {
            let cors = if recording.is_some() { events::untold_cors(request) } else { Cors::Anyone };
            write_problem(out, &problem, cors, request, &self.date, &mut self.room);
            return Progress::refused(None, problem.kind);
        }
        if let Some(endpoint) = recording {
            return events::begin(self, request, arrival, endpoint, out);
        }
        Progress::Answered(self.answer_now(request, arrival, out))
    }

    /// Whether a request that records is to be finished now.
    pub fn is_complete(&self, token: usize) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.is_complete(token))
    }

    /// Has the log take what was recorded since this was called last.
    pub fn hand_over(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.hand_over();
        }
    }

    /// What a request that records holds in memory until it is finished, about.
    pub fn waiting_bytes(&self, token: usize) -> usize {
        self.recorder.as_ref().map_or(0, |recorder| recorder.waiting_bytes(token))
    }

    /// The token of a request that came back from the log, if one did.
    pub fn take_completion(&mut self) -> Option<usize> {
        self.recorder.as_mut()?.take_completion()
    }

    /// Nobody will finish it.
    pub fn forget(&mut self, token: usize) {
        if let Some(recorder) = &mut self.recorder {
            recorder.forget(token);
        }
    }

    /// Appends the answer to a request that came back from the log.
    pub fn finish(
        &mut self,
        token: usize,
        waited: &Waited<'_>,
        arrival: &Arrival,
        out: &mut Vec<u8>,
    ) -> Answered {
        events::finish(self, token, waited, arrival, out)
    }

    fn answer_now(&mut self, request: &Request<'_>, arrival: &Arrival, out: &mut Vec<u8>) -> Answered {
        let Self { settings, date, view, decoded, room, .. } = self;
        let mut cors = Cors::Anyone;
        let (mut object, mut given) = (Object::default(), Given::Nothing);
        let (object, given) = (&mut object, &mut given);
        let mut endpoint = None;
        let answered = super::endpoint(request, arrival.surface).and_then(|asked| {
            let endpoint = *endpoint.insert(asked);
            if endpoint == Endpoint::OpenApi {
                openapi::answer(request, date, &mut room.ids, out);
                return Ok(());
            }
            let params = if request.method == Method::Post {
                *object = Object::read(body::text(request, &mut decoded.body)?)?;
                Params::of_object(object)
            } else {
                Params::read(request.query, &mut decoded.params)?
            };
            let catalog = view.load();
            let call = Call::new(request, params, catalog, arrival.surface, settings, date)?;
            cors = call.problem_cors(endpoint);
            rate_limit::site(settings, &call.site().site, request, arrival)?;
            match endpoint {
                Endpoint::Resolve => resolve::answer(&call, room, out),
                Endpoint::Variants => variants::answer(&call, room, out),
                Endpoint::Routes => routes::answer(&call, room, out),
                Endpoint::Query => {
                    *given = match request.method {
                        Method::Post => Given::of_object(object)?,
                        _ => Given::of_query(request.query, &mut decoded.group)?,
                    };
                    query::answer(&call, given, room, out)
                }
                Endpoint::OpenApi | Endpoint::Page | Endpoint::Track | Endpoint::Batch => {
                    unreachable!("it was answered before a site was looked for")
                }
            }
        });
        let refused = answered.as_ref().err().map(|problem| problem.kind);
        if let Err(problem) = answered {
            write_problem(out, &problem, cors, request, date, room);
        }
        Answered { endpoint, refused }
    }

    /// Appends the refusal of a request that does not come to an endpoint.
    pub fn refuse_request(
        &mut self,
        request: &Request<'_>,
        problem: &Problem<'_>,
        out: &mut Vec<u8>,
    ) -> Answered {
        write_problem(out, problem, Cors::Nobody, request, &self.date, &mut self.room);
        Answered { endpoint: None, refused: Some(problem.kind) }
    }

    /// Appends an answer of the media type `kind` that nobody may keep.
    pub fn plain(
        &mut self,
        request: &Request<'_>,
        status: u16,
        kind: &'static str,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        self.unkept(request, status, kind, &[], text, out);
    }

    /// Appends a part of a list that nobody may keep, with what `fields` say of it: names as [`Head::field`] takes them.
    pub fn part(
        &mut self,
        request: &Request<'_>,
        kind: &'static str,
        fields: &[(&'static str, u64)],
        text: &str,
        out: &mut Vec<u8>,
    ) {
        self.unkept(request, 200, kind, fields, text, out);
    }

    fn unkept(
        &mut self,
        request: &Request<'_>,
        status: u16,
        kind: &'static str,
        fields: &[(&'static str, u64)],
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let mut head = Head::begin(out, status, &self.date);
        head.lines(b"Cache-Control: no-store\r\n");
        head.field("Content-Type: ", kind.as_bytes());
        for (name, value) in fields {
            head.field(name, value.to_string().as_bytes());
        }
        response::request_id(&mut head, &mut self.room.ids, None);
        let out = head.end(text.len(), request.close);
        if request.method != Method::Head {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// The catalog that is served now.
    pub fn catalog(&mut self) -> &Catalog {
        self.view.load()
    }

    /// Appends the refusal of what is not a request; the connection closes behind it.
    pub fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>) {
        write_unframed_problem(out, problem, &self.date, &mut self.room.ids);
    }

    fn answer_options(&mut self, request: &Request<'_>, surface: Surface, out: &mut Vec<u8>) -> Answered {
        let is_preflight = request.fields.preflight_method.is_some();
        let endpoint = match request.path {
            "*" => Ok(None),
            _ if is_preflight => Ok(None),
            _ => super::endpoint(request, surface).map(Some),
        };
        if let Err(problem) = &endpoint {
            write_problem(out, problem, Cors::Anyone, request, &self.date, &mut self.room);
            return Answered { endpoint: None, refused: Some(problem.kind) };
        }
        let mut head = Head::begin(out, 204, &self.date);
        if is_preflight {
            let fields = &request.fields;
            cors::preflight(&mut head, fields.origin, fields.preflight_headers);
        } else {
            let methods = endpoint.as_ref().ok().copied().flatten();
            let methods = methods.map_or("GET, HEAD, OPTIONS", Endpoint::methods);
            head.field("Allow: ", methods.as_bytes());
        }
        response::request_id(&mut head, &mut self.room.ids, None);
        head.end_bodiless(request.close);
        Answered { endpoint: endpoint.ok().flatten(), refused: None }
    }
}
