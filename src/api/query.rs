//! `GET` and `POST /v1/query`: a published content query, run again.
//!
//! One function for both: a URL's `params.<name>` are read by their declared types, a body's values have theirs.

use super::context::Call;
use super::handler::Room;
use super::response::{self, Answer, Body, Class};
use crate::condition::Value;
use crate::http::body::{Member, Object};
use crate::http::params::{Group, Param};
use crate::http::request::Method;
use crate::json;
use crate::limits::{QUERY_LIMIT_MAX, QUERY_PARAMS_MAX};
use crate::problem::{self, Came, Problem};
use crate::resolve::content;
use crate::site::query::params::{self, NO_VALUES, Values};
use crate::site::snapshot::format::{ArchivedParam, ArchivedQuery};

/// The group in which the values of a query's parameters stand.
const PARAMS: &str = "params";

/// What the caller gives for the query's parameters.
#[expect(clippy::large_enum_variant, reason = "it lives on one stack frame for one request")]
pub(super) enum Given<'a> {
    Nothing,
    Url(Group<'a>),
    Body(Object<'a>),
}

impl<'a> Given<'a> {
    pub(super) fn of_query(query: &'a str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        Group::read(query, PARAMS, decoded).map(Self::Url)
    }

    pub(super) fn of_object(object: &'a Object<'_>) -> Result<Self, Problem<'a>> {
        let Some(given) = object.get(PARAMS) else { return Ok(Self::Nothing) };
        let invalid = |_| Problem::new(problem::INVALID_PARAM, "an object", given.raw()).at(PARAMS);
        Object::read(given.raw()).map(Self::Body).map_err(invalid)
    }
}

pub(super) fn answer<'a>(
    call: &Call<'a>,
    given: &'a Given<'_>,
    room: &mut Room,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let query = query(call)?;
    let values = values(query, given)?;
    let limit = limit(call, query)?;
    let Room { plan, search, tagged, ids, .. } = room;
    search.name(&call.site().site, query, &values);
    if let Some(cursor) = call.params.get(Param::Cursor)
        && !search.continue_at(cursor)
    {
        let expected = "a 'nextCursor' of the same query with the same parameters";
        return Err(Problem::new(problem::INVALID_CURSOR, expected, cursor).at(Param::Cursor.name()));
    }
    search.run(query, &values, limit, call.published.patterns()).map_err(|too| Problem {
        came: Came::Count(too.evaluations),
        ..Problem::missing(
            problem::QUERY_TOO_EXPENSIVE,
            "parameters for which at most 10000 items are looked at",
        )
    })?;

    plan.clear();
    plan.text.extend_from_slice(b"{\"site\":\"");
    plan.text.extend_from_slice(call.site().site.as_bytes());
    plan.text.extend_from_slice(b"\",\"query\":\"");
    plan.text.extend_from_slice(query.key.as_bytes());
    plan.text.extend_from_slice(b"\",\"items\":[");
    content::push_items(call.site(), query, search, plan);
    plan.text.extend_from_slice(b"],\"total\":");
    json::number(&mut plan.text, search.total);
    plan.text.extend_from_slice(b",\"nextCursor\":");
    search.write_cursor(query, &mut plan.text);
    plan.text.push(b'}');
    plan.end();

    tagged.clear();
    tagged.push(b'q');
    tagged.extend_from_slice(&query.content);
    let (signature, place) = search.signature();
    tagged.extend_from_slice(signature);
    tagged.extend_from_slice(&(limit as u64).to_le_bytes());
    tagged.extend_from_slice(place);
    let class = match call.request.method {
        Method::Post => Class::Unkept,
        _ => Class::Public(&call.site().cache_query),
    };
    let answer = Answer { class, etag: None, variants: None, path: None, location: None };
    response::send(call, answer, &Body::Planned(plan, &call.site().pieces), tagged, ids, out);
    Ok(())
}

fn query<'a>(call: &Call<'a>) -> Result<&'a ArchivedQuery, Problem<'a>> {
    let name = Param::Query.name();
    let expected = "the name of a query that the site publishes";
    let missing = Problem::missing(problem::INVALID_PARAM, expected).at(name);
    let id = call.params.get(Param::Query).ok_or(missing)?;
    let queries = &call.site().queries;
    let found = queries.binary_search_by(|query| query.key.as_str().cmp(id));
    found.map(|at| &queries[at]).map_err(|_| Problem::new(problem::QUERY_NOT_FOUND, expected, id).at(name))
}

/// The values of the query's parameters, defaults included.
fn values<'a>(query: &'a ArchivedQuery, given: &'a Given<'_>) -> Result<Values<'a>, Problem<'a>> {
    let mut values = NO_VALUES;
    match given {
        Given::Nothing => {}
        Given::Url(group) => {
            for (name, text) in group.pairs() {
                let at = declared(query, name)?;
                let param = &query.params[at];
                values[at] = Some(params::read(param, text).ok_or_else(|| refused(param, text))?);
            }
        }
        Given::Body(object) => {
            let mut last = [None; QUERY_PARAMS_MAX];
            for member in object.members() {
                last[declared(query, member.name())?] = Some(member);
            }
            for ((param, member), taken) in query.params.iter().zip(last).zip(&mut values) {
                let Some(member) = member else { continue };
                let value = value(member).filter(|value| params::takes(param, *value));
                *taken = Some(value.ok_or_else(|| refused(param, member.raw()))?);
            }
        }
    }
    params::complete(query, &mut values)
        .map_err(|param| Problem::missing(problem::INVALID_PARAM, &param.says).within(PARAMS, &param.name))?;
    Ok(values)
}

fn declared<'a>(query: &'a ArchivedQuery, name: &'a str) -> Result<usize, Problem<'a>> {
    let undeclared = Problem::new(problem::INVALID_PARAM, &query.declares, name).within(PARAMS, name);
    params::index(query, name).ok_or(undeclared)
}

fn refused<'a>(param: &'a ArchivedParam, came: &'a str) -> Problem<'a> {
    Problem::new(problem::INVALID_PARAM, &param.says, came).within(PARAMS, &param.name)
}

/// A value of a body by its own type; None for what no parameter can be.
fn value<'a>(member: &'a Member<'_>) -> Option<Value<'a>> {
    match member.raw() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        raw if raw.starts_with('"') => member.string().map(Value::String),
        raw => serde_json::from_str(raw).ok().map(Value::Number),
    }
}

/// How many items a page has. In a body it is a number, not a text.
fn limit<'a>(call: &Call<'a>, query: &ArchivedQuery) -> Result<usize, Problem<'a>> {
    let Some(text) = call.params.get(Param::Limit) else {
        return Ok(query.limit.to_native() as usize);
    };
    let is_digits = text.bytes().all(|b| b.is_ascii_digit());
    let limit = text.parse().ok().filter(|limit| is_digits && (1..=QUERY_LIMIT_MAX).contains(limit));
    let invalid = Problem::new(problem::INVALID_LIMIT, "a whole number from 1 to 100", text);
    limit.ok_or(invalid.at(Param::Limit.name()))
}
