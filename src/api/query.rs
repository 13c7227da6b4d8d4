//! `GET` and `POST /v1/query`: runs a published content query.
//!
//! Both methods share one function. Values of `params.<name>` in a URL are parsed by their declared types. Values in
//! a body already have types.

use super::context::RequestContext;
use super::response::{self, Body, CachePolicy, CacheTag, ResponseFields};
use super::scratch::Scratch;
use crate::condition::Value;
use crate::http::body::{JsonObject, Member};
use crate::http::params::{Param, ParamGroup, names_with_values};
use crate::http::request::Method;
use crate::json;
use crate::limits::{QUERY_LIMIT_MAX, QUERY_PARAMS_MAX};
use crate::problem::{self, Actual, Problem};
use crate::resolve::content;
use crate::site::query::params::{self, NO_VALUES, ParamValues};
use crate::site::snapshot::format::{ArchivedParam, ArchivedQuery};

/// The group of the request's parameters that has the values of the query's parameters.
const PARAMS: &str = "params";

/// The names in a query string that have a meaning of their own, also if a query declares a parameter of this name.
const NAMES_IN_USE: &[&str] = &["trackingId", "site", "query", "limit", "cursor", "v"];

/// The arguments for the parameters of a query, as the client sent them.
#[expect(clippy::large_enum_variant, reason = "it lives on one stack frame for one request")]
pub(super) enum QueryArguments<'a> {
    Missing,
    Url {
        group: ParamGroup<'a>,
        /// The whole query string.
        text: &'a str,
    },
    Body(JsonObject<'a>),
}

impl<'a> QueryArguments<'a> {
    pub(super) fn of_query(query: &'a str, buffer: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        ParamGroup::parse(query, PARAMS, buffer).map(|group| Self::Url { group, text: query })
    }

    pub(super) fn of_object(object: &'a JsonObject<'_>) -> Result<Self, Problem<'a>> {
        let Some(arguments) = object.get(PARAMS) else { return Ok(Self::Missing) };
        let invalid =
            |_| Problem::invalid_value(problem::INVALID_PARAM, "an object", arguments.raw()).at(PARAMS);
        JsonObject::parse(arguments.raw()).map(Self::Body).map_err(invalid)
    }
}

pub(super) fn handle<'a>(
    context: &RequestContext<'a>,
    arguments: &'a QueryArguments<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let query = find_query(context)?;
    let values = bind_arguments(query, arguments)?;
    let limit = parse_limit(context, query)?;
    let Scratch { plan, query_runner, response: buffers, .. } = scratch;
    query_runner.set_query(&context.site().site, query, &values);
    if let Some(cursor) = context.params.get(Param::Cursor)
        && !query_runner.resume_at(cursor)
    {
        let expected = "a 'nextCursor' of the same query with the same parameters";
        return Err(
            Problem::invalid_value(problem::INVALID_CURSOR, expected, cursor).at(Param::Cursor.name())
        );
    }
    query_runner.run(query, &values, limit, context.published.patterns()).map_err(|too_expensive| {
        let sentence =
            "The query would evaluate {} items, more than the limit of 10000; use narrower parameters.";
        let actual = Actual::Count(too_expensive.evaluations);
        Problem { actual, ..Problem::new(problem::QUERY_TOO_EXPENSIVE, sentence) }
    })?;

    plan.clear();
    plan.text.extend_from_slice(b"{\"site\":\"");
    plan.text.extend_from_slice(context.site().site.as_bytes());
    plan.text.extend_from_slice(b"\",\"query\":\"");
    plan.text.extend_from_slice(query.key.as_bytes());
    plan.text.extend_from_slice(b"\",\"items\":[");
    content::push_items(context.site(), query, query_runner, plan);
    plan.text.extend_from_slice(b"],\"total\":");
    json::write_number(&mut plan.text, query_runner.total);
    plan.text.extend_from_slice(b",\"nextCursor\":");
    query_runner.write_cursor(query, &mut plan.text);
    let unused = unused_params(query, arguments);
    write_warnings(query, unused, &mut plan.text);
    plan.text.push(b'}');
    plan.finish();

    let etag_input = &mut buffers.etag_input;
    etag_input.clear();
    etag_input.push(b'q');
    etag_input.extend_from_slice(&query.content);
    let (signature, position) = query_runner.signature();
    etag_input.extend_from_slice(signature);
    etag_input.extend_from_slice(&(limit as u64).to_le_bytes());
    etag_input.extend_from_slice(&unused.to_le_bytes());
    etag_input.extend_from_slice(position);
    let cache_policy = match context.request.method {
        Method::Post => CachePolicy::NoStore,
        _ => CachePolicy::Public(&context.site().cache_query),
    };
    let fields = ResponseFields::new(cache_policy, Some(CacheTag::Query(&query.key)));
    let body = Body::Planned(plan, context.pieces());
    response::write_response(context, &fields, &body, buffers, out)
}

fn find_query<'a>(context: &RequestContext<'a>) -> Result<&'a ArchivedQuery, Problem<'a>> {
    let name = Param::Query.name();
    let missing = Problem::new(problem::INVALID_PARAM, "The parameter 'query' is missing.").at(name);
    let id = context.params.get(Param::Query).ok_or(missing)?;
    let queries = &context.site().queries;
    let found = queries.binary_search_by(|query| query.key.as_str().cmp(id));
    found.map(|at| &queries[at]).map_err(|_| {
        Problem::with_value(problem::QUERY_NOT_FOUND, "The site has no published query {}.", id).at(name)
    })
}

/// Returns the values of the query's parameters, with defaults.
fn bind_arguments<'a>(
    query: &'a ArchivedQuery,
    arguments: &'a QueryArguments<'_>,
) -> Result<ParamValues<'a>, Problem<'a>> {
    let mut values = NO_VALUES;
    match arguments {
        QueryArguments::Missing => {}
        QueryArguments::Url { group, .. } => {
            for (name, text) in group.pairs() {
                let at = index_of_param(query, name)?;
                let param = &query.params[at];
                if text.is_empty() && params::may_be_absent(param) {
                    continue;
                }
                values[at] = Some(params::parse(param, text).ok_or_else(|| invalid_value(param, text))?);
            }
        }
        QueryArguments::Body(object) => {
            let mut last = [None; QUERY_PARAMS_MAX];
            for member in object.members() {
                last[index_of_param(query, member.name())?] = Some(member);
            }
            for ((param, member), slot) in query.params.iter().zip(last).zip(&mut values) {
                let is_absent = |member: &&Member<'_>| member.is_absent() && params::may_be_absent(param);
                let Some(member) = member.filter(|member| !is_absent(member)) else { continue };
                let value = value_of(member).filter(|value| params::accepts(param, *value));
                *slot = Some(value.ok_or_else(|| invalid_value(param, member.raw()))?);
            }
        }
    }
    params::apply_defaults(query, &mut values).map_err(|param| {
        Problem::missing_param(problem::INVALID_PARAM, &param.accepts).within(PARAMS, &param.name)
    })?;
    Ok(values)
}

fn index_of_param<'a>(query: &'a ArchivedQuery, name: &'a str) -> Result<usize, Problem<'a>> {
    let undeclared =
        Problem::invalid_value(problem::INVALID_PARAM, &query.param_names, name).within(PARAMS, name);
    params::index_of(query, name).ok_or(undeclared)
}

fn invalid_value<'a>(param: &'a ArchivedParam, actual: &'a str) -> Problem<'a> {
    Problem::invalid_value(problem::INVALID_PARAM, &param.accepts, actual).within(PARAMS, &param.name)
}

/// Returns the value of a member of a body; `None` for a type that no parameter has.
fn value_of<'a>(member: &'a Member<'_>) -> Option<Value<'a>> {
    match member.raw() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        raw if raw.starts_with('"') => member.string().map(Value::String),
        raw => serde_json::from_str(raw).ok().map(Value::Number),
    }
}

/// Returns a bit for each parameter of the query that the query string names without `params.`, so that its value
/// has no effect.
fn unused_params(query: &ArchivedQuery, arguments: &QueryArguments<'_>) -> u32 {
    let QueryArguments::Url { text, .. } = arguments else { return 0 };
    let mut unused = 0;
    for name in names_with_values(text) {
        let declared = query.params.iter().position(|param| name.is(&param.name));
        if let Some(at) = declared.filter(|at| !NAMES_IN_USE.contains(&query.params[*at].name.as_str())) {
            unused |= 1 << at;
        }
    }
    unused
}

fn write_warnings(query: &ArchivedQuery, unused_param_bits: u32, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b",\"warnings\":[";
    for (_, param) in query.params.iter().enumerate().filter(|(at, _)| unused_param_bits >> at & 1 == 1) {
        out.extend_from_slice(separator);
        out.extend_from_slice(b"{\"code\":\"unused_parameter\",\"param\":");
        json::write_string(out, &param.name);
        out.push(b'}');
        separator = b",";
    }
    if unused_param_bits != 0 {
        out.push(b']');
    }
}

/// Returns the number of items in a page of results. In a body `limit` is a number and not a string.
fn parse_limit<'a>(context: &RequestContext<'a>, query: &ArchivedQuery) -> Result<usize, Problem<'a>> {
    let Some(text) = context.params.get(Param::Limit) else {
        return Ok(query.limit.to_native() as usize);
    };
    let is_digits = text.bytes().all(|b| b.is_ascii_digit());
    let limit = text.parse().ok().filter(|limit| is_digits && (1..=QUERY_LIMIT_MAX).contains(limit));
    let invalid = Problem::invalid_value(problem::INVALID_LIMIT, "a whole number from 1 to 100", text);
    limit.ok_or(invalid.at(Param::Limit.name()))
}
