//! `GET /visitors?site&anonId|userId`: what is known of one visitor.
//!
//! The site need not be published: what was recorded for it is there all the same. Who is not known is a new visitor.

use serde_json::{Value as Json, json};

use crate::api::{Answered, Desk};
use crate::clock;
use crate::edge::document::past_json;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request};
use crate::problem::{self, Problem};
use crate::segment::Queue;
use crate::visitors::lookup::{self, Lookup};
use crate::visitors::profile::Profile;

/// Where the log and what it says of visitors are asked.
pub struct Visitors {
    lookup: Lookup,
    log: Queue,
    /// Parameters with escapes.
    decoded: Vec<u8>,
}

/// Whom a request asks for.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    site: &'a str,
    id: Id<'a>,
}

/// An id of a visitor.
#[derive(Debug, Clone, Copy)]
enum Id<'a> {
    Anon(&'a str),
    User(&'a str),
}

impl Visitors {
    /// Asks through `lookup` and `log`.
    pub fn new(lookup: Lookup, log: Queue) -> Self {
        Self { lookup, log, decoded: Vec::new() }
    }

    /// Answers a request for the visitors.
    pub(super) fn answer(&mut self, desk: &mut Desk, request: &Request<'_>, out: &mut Vec<u8>) -> Answered {
        let Self { lookup, log, decoded } = self;
        match told(lookup, log, request, decoded) {
            Ok(told) => {
                desk.plain(request, 200, "application/json", &told.to_string(), out);
                Answered::default()
            }
            Err(problem) => desk.refuse_request(request, &problem, out),
        }
    }
}

/// The seq is read first: the profile is of that seq or a later one.
fn told<'a>(
    lookup: &mut Lookup,
    log: &Queue,
    request: &Request<'a>,
    decoded: &'a mut Vec<u8>,
) -> Result<Json, Problem<'a>> {
    if !matches!(request.method, Method::Get | Method::Head) {
        let problem = Problem::missing(problem::METHOD_NOT_ALLOWED, "GET or HEAD");
        return Err(Problem { allow: "GET, HEAD", ..problem });
    }
    let asked = Asked::read(request.query, decoded)?;
    let seq = log.figures().last_seq();
    let visitors = lookup.pin();
    let profile = asked.profile(&visitors);
    let aliases: Vec<&str> = profile.iter().flat_map(Profile::anon_ids).collect();
    let document = past_json(profile, clock::now_ms());
    Ok(
        json!({ "site": asked.site, "known": profile.is_some(), "aliases": aliases, "seq": seq.to_string(), "profile": document }),
    )
}

impl<'a> Asked<'a> {
    fn read(query: &'a str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        let params = Params::read(query, decoded)?;
        let site = params.get(Param::Site).ok_or(Problem::missing(problem::MISSING_SITE, "'site'"))?;
        let id = match (params.get(Param::AnonId), params.get(Param::UserId)) {
            (Some(id), None) => Id::Anon(id),
            (None, Some(id)) => Id::User(id),
            _ => return Err(Problem::missing(problem::MISSING_VISITOR, "one of 'anonId' and 'userId'")),
        };
        Ok(Self { site, id })
    }

    fn profile<'v>(&self, visitors: &'v lookup::Visitors<'_>) -> Option<Profile<'v>> {
        match self.id {
            Id::Anon(id) => visitors.anonymous(self.site, id),
            Id::User(id) => visitors.user(self.site, id),
        }
    }
}
