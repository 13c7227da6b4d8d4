//! What a thread needs to answer: its view of the catalog, its tables, its buffers.

use std::sync::Arc;

use super::call::Call;
use super::query::{self, Given};
use super::{Endpoint, refuse, resolve, respond, routes, variants};
use crate::clock;
use crate::edge::agent::{AgentTable, Agents};
use crate::edge::decide::Deciding;
use crate::edge::path::RoutePath;
use crate::edge::render::Plan;
use crate::http::body::{self, Object};
use crate::http::cors::{self, Cors};
use crate::http::date::DateLine;
use crate::http::params::Params;
use crate::http::request::{Method, Request};
use crate::http::response::Head;
use crate::ids::RequestIds;
use crate::limits::{HEAD_BYTES_MAX, ROUTES_PAGE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::problem::Problem;
use crate::snapshot::current::{Current, View};
use crate::snapshot::search::Search;

/// Which address a desk answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Browsers and SDKs.
    Edge,
    /// The operator; explains always.
    Admin,
}

/// What the operator set for all desks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether Edge answers `explain=1`.
    pub explain: bool,
    /// The header in which a proxy names the country, lower case.
    pub country_header: Option<Box<str>>,
}

/// One thread's place to answer at.
pub struct Desk {
    pub(super) surface: Surface,
    pub(super) settings: Settings,
    pub(super) date: DateLine,
    view: View,
    decoded: Decoded,
    room: Room,
}

/// What of a request had to be decoded. Problems borrow from it.
#[derive(Default)]
struct Decoded {
    /// Parameters with escapes.
    params: Vec<u8>,
    /// The same of a group.
    group: Vec<u8>,
    /// A compressed body.
    body: Vec<u8>,
}

/// Buffers and tables that outlive a request; each is cleared by its user before use.
pub(super) struct Room {
    pub(super) path: RoutePath,
    pub(super) plan: Plan,
    pub(super) deciding: Deciding,
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
    pub fn new(surface: Surface, settings: Settings, current: &Current, agents: Arc<Agents>) -> Self {
        let mut plan = Plan::default();
        plan.text.reserve(ROUTES_PAGE_BYTES_MAX);
        Self {
            surface,
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
                agents,
                agent_table: AgentTable::new(),
                ids: RequestIds::new(),
                canonical: Vec::with_capacity(HEAD_BYTES_MAX),
                tagged: Vec::with_capacity(HEAD_BYTES_MAX),
                location: Vec::with_capacity(HEAD_BYTES_MAX),
                search: Search::new(),
                lists: routes::Lists::default(),
            },
        }
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

    /// Appends the answer to a whole request.
    pub fn answer(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        if request.method == Method::Options {
            return self.answer_options(request, out);
        }
        let Self { surface, settings, date, view, decoded, room } = self;
        let mut cors = Cors::Anyone;
        let (mut object, mut given) = (Object::default(), Given::Nothing);
        let (object, given) = (&mut object, &mut given);
        let answered = super::endpoint(request).and_then(|endpoint| {
            let params = if request.method == Method::Post {
                *object = Object::read(body::text(request, &mut decoded.body)?)?;
                Params::of_object(object)
            } else {
                Params::read(request.query, &mut decoded.params)?
            };
            let catalog = view.load();
            let call = Call::new(request, params, catalog, *surface, settings, date)?;
            cors = call.problem_cors(endpoint);
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
            }
        });
        if let Err(problem) = answered {
            refuse::write(out, &problem, cors, request, date, room);
        }
    }

    /// Appends the refusal of a request that does not come to an endpoint.
    pub fn refuse_request(&mut self, request: &Request<'_>, problem: &Problem<'_>, out: &mut Vec<u8>) {
        refuse::write(out, problem, Cors::Nobody, request, &self.date, &mut self.room);
    }

    /// Appends a small answer that nobody may keep.
    pub fn plain(&mut self, request: &Request<'_>, status: u16, json: &str, out: &mut Vec<u8>) {
        let mut head = Head::begin(out, status, &self.date);
        head.lines(b"Cache-Control: no-store\r\nContent-Type: application/json\r\n");
        respond::request_id(&mut head, &mut self.room.ids, None);
        let out = head.end(json.len(), request.close);
        if request.method != Method::Head {
            out.extend_from_slice(json.as_bytes());
        }
    }

    /// How many sites are published.
    pub fn sites_published(&mut self) -> usize {
        self.view.load().sites().len()
    }

    /// Appends the refusal of what is not a request; the connection closes behind it.
    pub fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>) {
        refuse::write_unframed(out, problem, &self.date, &mut self.room.ids);
    }

    fn answer_options(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        let is_preflight = request.fields.preflight_method.is_some();
        let endpoint = match request.path {
            "*" => Ok(None),
            _ if is_preflight => Ok(None),
            _ => super::endpoint(request).map(Some),
        };
        if let Err(problem) = &endpoint {
            let room = &mut self.room;
            return refuse::write(out, problem, Cors::Anyone, request, &self.date, room);
        }
        let mut head = Head::begin(out, 204, &self.date);
        if is_preflight {
            let fields = &request.fields;
            cors::preflight(&mut head, fields.origin, fields.preflight_headers);
        } else {
            let methods = endpoint.ok().flatten().map_or("GET, HEAD, OPTIONS", Endpoint::methods);
            head.field("Allow: ", methods.as_bytes());
        }
        respond::request_id(&mut head, &mut self.room.ids, None);
        head.end_bodiless(request.close);
    }
}
