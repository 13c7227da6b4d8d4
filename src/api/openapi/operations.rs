//! The operations of the document: one row for each GET and POST. HEAD and OPTIONS are derived from them.

use serde_json::{Map, Value, json};

use super::{events, headers, params, responses};
use crate::api::Endpoint;
use crate::http::params::Param;
use crate::problem::{self, ProblemKind};
use crate::visitors::events::endpoint::EventEndpoint;

/// A GET or POST operation.
struct Operation {
    endpoint: Endpoint,
    method: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    /// Parameters besides those that name the site. `None` if the operation needs no site.
    params: Option<&'static [Param]>,
    fields: &'static [&'static str],
    /// Schema of the body of a 200.
    schema: &'static str,
    /// Header fields that its 200 and 304 always have, and those that they may have.
    always: &'static [&'static str],
    sometimes: &'static [&'static str],
    /// Problems besides those of every request.
    problems: &'static [&'static [&'static ProblemKind]],
}

/// Cache tag fields of public responses for a site.
const TAGS: [&str; 2] = ["Cache-Tag", "Surrogate-Key"];

const OPERATIONS: [Operation; 9] = [
    Operation {
        endpoint: Endpoint::Resolve,
        method: "get",
        id: "resolve",
        tag: "pages",
        summary: "Returns the layout of a route, personalized or forced, or its redirect",
        description: "Without `variants` the site's rules decide for this visitor, and the response is private. With \
            `variants`, even if empty, everyone gets this combination, and the response is public. For a zone or key that \
            the route does not have, the response has the zone's default and a warning.",
        params: Some(&[
            Param::Route,
            Param::AnonId,
            Param::Variants,
            Param::Strict,
            Param::Explain,
            Param::Url,
            Param::Referrer,
            Param::UserAgent,
            Param::Locale,
            Param::Country,
        ]),
        fields: params::VISITOR_HEADERS,
        schema: "Resolution",
        always: &["Cache-Control", "X-Version"],
        sometimes: &[
            "ETag",
            "X-Variants",
            "Content-Location",
            TAGS[0],
            TAGS[1],
            "Server-Timing",
            "Content-Encoding",
        ],
        problems: &[
            responses::SITE_PROBLEMS,
            responses::ROUTE_PROBLEMS,
            &[problem::INVALID_VARIANTS, problem::UNKNOWN_VARIANT],
        ],
    },
    Operation {
        endpoint: Endpoint::Variants,
        method: "get",
        id: "variants",
        tag: "pages",
        summary: "Returns only the selected variants, or all combinations of a route",
        description: "For a middleware that rewrites to a statically rendered combination. Decides exactly as resolve, and \
            returns redirects as resolve. With `include=combinations` the response is public.",
        params: Some(&[
            Param::Route,
            Param::AnonId,
            Param::Include,
            Param::Explain,
            Param::Url,
            Param::Referrer,
            Param::UserAgent,
            Param::Locale,
            Param::Country,
        ]),
        fields: params::VISITOR_HEADERS,
        schema: "Variants",
        always: &["Cache-Control", "X-Version"],
        sometimes: &["ETag", "X-Variants", TAGS[0], TAGS[1], "Server-Timing", "Content-Encoding"],
        problems: &[responses::SITE_PROBLEMS, responses::ROUTE_PROBLEMS],
    },
    Operation {
        endpoint: Endpoint::Routes,
        method: "get",
        id: "routes",
        tag: "pages",
        summary: "Lists the routes that a site publishes, or the differences from a version",
        description: "Routes, redirects and removed paths, sorted together by path. A page of the list may end after any path.",
        params: Some(&[Param::Prefix, Param::Since, Param::Limit, Param::Cursor, Param::Include]),
        fields: params::PUBLIC_HEADERS,
        schema: "Routes",
        always: &["Cache-Control", "ETag", "X-Version", TAGS[0], TAGS[1], ALLOW_ORIGIN, EXPOSE],
        sometimes: &[],
        problems: &[
            responses::SITE_PROBLEMS,
            &[problem::INVALID_PARAM, problem::INVALID_CURSOR, problem::INVALID_LIMIT],
        ],
    },
    Operation {
        endpoint: Endpoint::Query,
        method: "get",
        id: "query",
        tag: "content",
        summary: "Runs a content query, with a cacheable response",
        description: "A clause is left out if its value is an absent parameter without a default. A cursor continues at its \
            position in the order, also after a new version was published.",
        params: Some(&[Param::Query, Param::Limit, Param::Cursor]),
        fields: params::PUBLIC_HEADERS,
        schema: "Answer",
        always: &["Cache-Control", "ETag", "X-Version", TAGS[0], TAGS[1], ALLOW_ORIGIN, EXPOSE],
        sometimes: &["Content-Encoding"],
        problems: &[responses::SITE_PROBLEMS, QUERY_PROBLEMS],
    },
    Operation {
        endpoint: Endpoint::Query,
        method: "post",
        id: "queryByBody",
        tag: "content",
        summary: "Runs a content query, with the parameters in a body",
        description: "The same function as the GET. The response is not cacheable and has no ETag.",
        params: Some(&[Param::Query, Param::Limit, Param::Cursor]),
        fields: params::POST_HEADERS,
        schema: "Answer",
        always: &["Cache-Control", "X-Version"],
        sometimes: &["Server-Timing", "Content-Encoding"],
        problems: &[responses::BODY_PROBLEMS, QUERY_PROBLEMS],
    },
    Operation {
        endpoint: Endpoint::OpenApi,
        method: "get",
        id: "openapi",
        tag: "server",
        summary: "Returns this document",
        description: "It changes only with the version of the server.",
        params: None,
        fields: &["If-None-Match"],
        schema: "OpenApi",
        always: &["Cache-Control", "ETag", ALLOW_ORIGIN, EXPOSE],
        sometimes: &[],
        problems: &[],
    },
    event_operation(
        Endpoint::Events(EventEndpoint::Page),
        "page",
        "Records a page view",
        "Also `/v1/p`. The path is `properties.path`, else `context.page.path`, else that of `properties.url`, \
            `context.page.url` or `Referer`. After a 200 every accepted event is on disk.",
    ),
    event_operation(
        Endpoint::Events(EventEndpoint::Track),
        "track",
        "Records an event, the identity of a visitor, or a change of a profile",
        "Also `/v1/t`. Paths with a fixed type: `/v1/identify` `/v1/i`, `/v1/screen` `/v1/s`, `/v1/group` `/v1/g`, `/v1/alias` \
            `/v1/a`. Without a `type`, the members `event`, `traits` or `userId`, or an operation such as `set`, determine it. If \
            two of `event`, `traits` and an operation are present, `type` is required. After a 200 every accepted event is on disk.",
    ),
    event_operation(
        Endpoint::Events(EventEndpoint::Batch),
        "batch",
        "Records many events at once",
        "Also `/v1/b` and `/v1/import`. The other event endpoints accept a batch too. Each event is validated separately, and \
            an invalid event does not reject the others. After a 413, send the batch in two halves.",
    ),
];

/// Returns the operation of an event endpoint.
const fn event_operation(
    endpoint: Endpoint,
    id: &'static str,
    summary: &'static str,
    description: &'static str,
) -> Operation {
    Operation {
        endpoint,
        method: "post",
        id,
        tag: "events",
        summary,
        description,
        params: Some(&[Param::TrackingId, Param::Site, Param::AnonId, Param::DryRun]),
        fields: params::EVENT_HEADERS,
        schema: RECEIPT,
        always: &["Cache-Control"],
        sometimes: &["X-Dropped", "Server-Timing"],
        problems: &[responses::SITE_PROBLEMS, responses::EVENT_PROBLEMS],
    }
}

/// Schema of the responses of event endpoints.
const RECEIPT: &str = "Receipt";
/// Name of the security scheme whose credentials name a site.
pub(super) const WRITE_KEY: &str = "writeKey";

const QUERY_PROBLEMS: &[&ProblemKind] = &[
    problem::INVALID_PARAM,
    problem::INVALID_CURSOR,
    problem::INVALID_LIMIT,
    problem::QUERY_NOT_FOUND,
    problem::QUERY_TOO_EXPENSIVE,
];

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
const EXPOSE: &str = "Access-Control-Expose-Headers";

/// Returns the paths, each with the methods that `Allow` lists.
pub(super) fn paths() -> Value {
    let paths = Endpoint::ALL.map(|endpoint| {
        let methods = endpoint.methods().split(", ").map(str::to_ascii_lowercase);
        let item: Map<_, _> =
            methods.map(|method| (method.clone(), operation_object(endpoint, &method))).collect();
        (endpoint.path().to_owned(), Value::Object(item))
    });
    Value::Object(paths.into_iter().collect())
}

/// Returns the query parameters that operations read, without those that name the site.
pub(super) fn query_params() -> impl Iterator<Item = (Endpoint, Param)> {
    OPERATIONS.iter().flat_map(|o| o.params.unwrap_or_default().iter().map(|param| (o.endpoint, *param)))
}

fn operation_object(endpoint: Endpoint, method: &str) -> Value {
    let row = if method == "head" { "get" } else { method };
    let operation = OPERATIONS.iter().find(|o| o.endpoint == endpoint && o.method == row);
    operation.map_or_else(|| options_object(endpoint), |operation| operation.to_json(method == "head"))
}

impl Operation {
    fn to_json(&self, head_only: bool) -> Value {
        let (id, summary) = match head_only {
            true => (format!("{}Head", self.id), format!("{}: only the head", self.summary)),
            false => (self.id.to_owned(), self.summary.to_owned()),
        };
        let mut written = json!({
            "operationId": id, "tags": [self.tag], "summary": summary, "description": self.description,
            "parameters": self.parameters(),
        });
        if self.is_event_endpoint() {
            written["requestBody"] = events::body(self.endpoint);
            written["security"] = json!([{}, { WRITE_KEY: [] }]);
        } else if self.method == "post" {
            written["requestBody"] = params::body(self.params.unwrap_or_default());
        }
        written["responses"] = Value::Object(self.responses(head_only));
        written
    }

    fn is_event_endpoint(&self) -> bool {
        self.schema == RECEIPT
    }

    fn parameters(&self) -> Vec<Value> {
        let mut all = match self.params {
            Some(params) if self.method == "get" || self.is_event_endpoint() => {
                params::in_query(self.endpoint, params)
            }
            _ => Vec::new(),
        };
        if (self.endpoint, self.method) == (Endpoint::Query, "get") {
            all.push(params::query_params_reference());
        }
        all.extend(params::header_params(self.fields));
        all
    }

    fn responses(&self, head_only: bool) -> Map<String, Value> {
        let headers = headers::of(self.always, self.sometimes);
        let mut answer = json!({ "description": self.summary, "headers": headers });
        if !head_only {
            let schema = json!({ "$ref": format!("#/components/schemas/{}", self.schema) });
            answer["content"] = json!({ "application/json": { "schema": schema } });
        }
        if matches!(self.schema, "Routes" | "Answer") && !head_only {
            answer["links"] = self.next_page();
        }
        let mut all = Map::new();
        all.insert("200".to_owned(), answer);
        if self.method == "get" {
            let unchanged = json!({ "description": "`If-None-Match` has the ETag of the present response", "headers": headers });
            all.insert("304".to_owned(), unchanged);
        }
        if self.is_event_endpoint() {
            let description =
                "No event was dropped or rejected, and the request has `Prefer: return=minimal`";
            let headers = headers::of(self.always, &["Server-Timing"]);
            all.insert("204".to_owned(), json!({ "description": description, "headers": headers }));
        }
        all.extend(responses::problem_responses(self.problems, head_only));
        all
    }

    /// Returns the link from a response to the next page of its list.
    fn next_page(&self) -> Value {
        let description = "If `nextCursor` is not null, it is the `cursor` of the next page. All other parameters stay the same.";
        let mut link = json!({ "operationId": self.id, "description": description });
        match self.method {
            "get" => link["parameters"] = json!({ "cursor": "$response.body#/nextCursor" }),
            _ => link["requestBody"] = json!({ "cursor": "$response.body#/nextCursor" }),
        }
        json!({ "nextPage": link })
    }
}

/// Returns the OPTIONS operation of an endpoint: its methods, or a CORS preflight.
fn options_object(endpoint: Endpoint) -> Value {
    let methods = endpoint.methods();
    let preflight =
        ["Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age", "Allow"];
    let mut all = responses::problem_responses(&[], true);
    all.insert(
        "204".to_owned(),
        json!({ "description": format!("`Allow: {methods}`, or the response to a preflight"),
            "headers": headers::of(&[], &preflight) }),
    );
    json!({
        "operationId": format!("{}Options", endpoint.name()),
        "tags": ["server"], "summary": "Returns the methods of the endpoint, or answers a preflight",
        "description": "A request with `Access-Control-Request-Method` is a preflight. It succeeds on any path.",
        "parameters": params::header_params(&["Origin"]).collect::<Vec<_>>(), "responses": all,
    })
}
