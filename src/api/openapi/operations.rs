//! The operations: a row for each, from which HEAD and OPTIONS follow.

use serde_json::{Map, Value, json};

use super::{events, headers, params, responses};
use crate::api::Endpoint;
use crate::http::params::Param;
use crate::problem::{self, Kind};

/// A GET or a POST.
struct Operation {
    endpoint: Endpoint,
    method: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    /// Beside those that name the site. None: the operation needs no site.
    params: Option<&'static [Param]>,
    fields: &'static [&'static str],
    /// The schema of its 200.
    answer: &'static str,
    /// Header fields that its 200 and 304 always have, and those they may have.
    always: &'static [&'static str],
    sometimes: &'static [&'static str],
    /// Beside those of any request.
    refusals: &'static [&'static [&'static Kind]],
}

/// What a site's answer has beside.
const TAGS: [&str; 2] = ["Cache-Tag", "Surrogate-Key"];

const OPERATIONS: [Operation; 9] = [
    Operation {
        endpoint: Endpoint::Resolve,
        method: "get",
        id: "resolve",
        tag: "pages",
        summary: "The layout of a route, personalized or forced; or its redirect",
        description: "Without `variants` the site's rules decide for this visitor, and the answer is private. With \
            `variants`, even empty, that combination is shown to everyone alike, and the answer is public; a zone or key \
            that the route does not have shows that zone's default, with a warning.",
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
        fields: params::OF_VISITOR,
        answer: "Resolution",
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
        refusals: &[
            responses::OF_SITE,
            responses::OF_ROUTE,
            &[problem::INVALID_VARIANTS, problem::UNKNOWN_VARIANT],
        ],
    },
    Operation {
        endpoint: Endpoint::Variants,
        method: "get",
        id: "variants",
        tag: "pages",
        summary: "The decision alone, or all combinations of a route",
        description: "For a middleware that rewrites to a statically rendered combination. It decides exactly as resolve \
            does, and answers a redirect as resolve does. With `include=combinations` the answer is public.",
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
        fields: params::OF_VISITOR,
        answer: "Variants",
        always: &["Cache-Control", "X-Version"],
        sometimes: &["ETag", "X-Variants", TAGS[0], TAGS[1], "Server-Timing", "Content-Encoding"],
        refusals: &[responses::OF_SITE, responses::OF_ROUTE],
    },
    Operation {
        endpoint: Endpoint::Routes,
        method: "get",
        id: "routes",
        tag: "pages",
        summary: "What a site publishes, or what differs from a version",
        description: "Routes, redirects and removed paths, sorted by path; a page of the list ends anywhere between two.",
        params: Some(&[Param::Prefix, Param::Since, Param::Limit, Param::Cursor, Param::Include]),
        fields: params::OF_PUBLIC,
        answer: "Routes",
        always: &["Cache-Control", "ETag", "X-Version", TAGS[0], TAGS[1], ALLOW_ORIGIN, EXPOSE],
        sometimes: &[],
        refusals: &[
            responses::OF_SITE,
            &[problem::INVALID_PARAM, problem::INVALID_CURSOR, problem::INVALID_LIMIT],
        ],
    },
    Operation {
        endpoint: Endpoint::Query,
        method: "get",
        id: "query",
        tag: "content",
        summary: "Runs a content query again; the answer may be cached",
        description: "A clause whose value is a parameter that was not given and has no default is left out. A cursor goes \
            on at its place in the order, also after a new version.",
        params: Some(&[Param::Query, Param::Limit, Param::Cursor]),
        fields: params::OF_PUBLIC,
        answer: "Answer",
        always: &["Cache-Control", "ETag", "X-Version", TAGS[0], TAGS[1], ALLOW_ORIGIN, EXPOSE],
        sometimes: &["Content-Encoding"],
        refusals: &[responses::OF_SITE, OF_QUERY],
    },
    Operation {
        endpoint: Endpoint::Query,
        method: "post",
        id: "queryByBody",
        tag: "content",
        summary: "Runs a content query again, its parameters in a body",
        description: "One function with the GET; the answer is not kept and has no ETag.",
        params: Some(&[Param::Query, Param::Limit, Param::Cursor]),
        fields: params::OF_POST,
        answer: "Answer",
        always: &["Cache-Control", "X-Version"],
        sometimes: &["Server-Timing", "Content-Encoding"],
        refusals: &[responses::OF_BODY, OF_QUERY],
    },
    Operation {
        endpoint: Endpoint::OpenApi,
        method: "get",
        id: "openapi",
        tag: "server",
        summary: "This document",
        description: "It changes with the program, not with what is published.",
        params: None,
        fields: &["If-None-Match"],
        answer: "OpenApi",
        always: &["Cache-Control", "ETag", ALLOW_ORIGIN, EXPOSE],
        sometimes: &[],
        refusals: &[],
    },
    recording(
        Endpoint::Page,
        "page",
        "Records that a visitor saw a page",
        "Also `/v1/p`. The path is `properties.path`, else `context.page.path`, else of `properties.url`, \
            `context.page.url` or `Referer`. A 200 says that every accepted event is on disk.",
    ),
    recording(
        Endpoint::Track,
        "track",
        "Records what a visitor did, who they are, or a change of their profile",
        "Also `/v1/t`; with their own type `/v1/identify` `/v1/i`, `/v1/screen` `/v1/s`, `/v1/group` `/v1/g`, `/v1/alias` \
            `/v1/a`. Without a `type` an event is told by `event`, by an operation such as `set`, or by `traits` or `userId`; \
            two of `event`, `traits` and an operation need a `type`. A 200 says that every accepted event is on disk.",
    ),
    recording(
        Endpoint::Batch,
        "batch",
        "Records many events at once",
        "Also `/v1/b` and `/v1/import`. The other event endpoints take a batch too. Each event is judged by itself: what \
            is wrong with one rejects that one. A 413 means: halve the batch.",
    ),
];

/// The operation of an event endpoint.
const fn recording(
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
        fields: params::OF_EVENT,
        answer: RECEIPT,
        always: &["Cache-Control"],
        sometimes: &["X-Dropped", "Server-Timing"],
        refusals: &[responses::OF_SITE, responses::OF_EVENTS],
    }
}

/// The answer of what records.
const RECEIPT: &str = "Receipt";
/// The credentials that name a site.
pub(super) const WRITE_KEY: &str = "writeKey";

const OF_QUERY: &[&Kind] = &[
    problem::INVALID_PARAM,
    problem::INVALID_CURSOR,
    problem::INVALID_LIMIT,
    problem::QUERY_NOT_FOUND,
    problem::QUERY_TOO_EXPENSIVE,
];

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
const EXPOSE: &str = "Access-Control-Expose-Headers";

/// The paths, each with the methods that `Allow` names.
pub(super) fn paths() -> Value {
    let paths = Endpoint::ALL.map(|endpoint| {
        let methods = endpoint.methods().split(", ").map(str::to_ascii_lowercase);
        let item: Map<_, _> = methods.map(|method| (method.clone(), described(endpoint, &method))).collect();
        (endpoint.path().to_owned(), Value::Object(item))
    });
    Value::Object(paths.into_iter().collect())
}

/// What operations read of the query string, beside what names the site.
pub(super) fn read() -> impl Iterator<Item = (Endpoint, Param)> {
    OPERATIONS.iter().flat_map(|o| o.params.unwrap_or_default().iter().map(|param| (o.endpoint, *param)))
}

fn described(endpoint: Endpoint, method: &str) -> Value {
    let row = if method == "head" { "get" } else { method };
    let operation = OPERATIONS.iter().find(|o| o.endpoint == endpoint && o.method == row);
    operation.map_or_else(|| options(endpoint), |operation| operation.written(method == "head"))
}

impl Operation {
    fn written(&self, head_only: bool) -> Value {
        let (id, summary) = match head_only {
            true => (format!("{}Head", self.id), format!("{}: the head alone", self.summary)),
            false => (self.id.to_owned(), self.summary.to_owned()),
        };
        let mut written = json!({
            "operationId": id, "tags": [self.tag], "summary": summary, "description": self.description,
            "parameters": self.parameters(),
        });
        if self.records() {
            written["requestBody"] = events::body(self.endpoint);
            written["security"] = json!([{}, { WRITE_KEY: [] }]);
        } else if self.method == "post" {
            written["requestBody"] = params::body(self.params.unwrap_or_default());
        }
        written["responses"] = Value::Object(self.responses(head_only));
        written
    }

    fn records(&self) -> bool {
        self.answer == RECEIPT
    }

    fn parameters(&self) -> Vec<Value> {
        let mut all = match self.params {
            Some(params) if self.method == "get" || self.records() => params::in_query(self.endpoint, params),
            _ => Vec::new(),
        };
        if (self.endpoint, self.method) == (Endpoint::Query, "get") {
            all.push(params::in_group());
        }
        all.extend(params::in_head(self.fields));
        all
    }

    fn responses(&self, head_only: bool) -> Map<String, Value> {
        let headers = headers::of(self.always, self.sometimes);
        let mut answer = json!({ "description": self.summary, "headers": headers });
        if !head_only {
            let schema = json!({ "$ref": format!("#/components/schemas/{}", self.answer) });
            answer["content"] = json!({ "application/json": { "schema": schema } });
        }
        if matches!(self.answer, "Routes" | "Answer") && !head_only {
            answer["links"] = self.next_page();
        }
        let mut all = Map::new();
        all.insert("200".to_owned(), answer);
        if self.method == "get" {
            let unchanged =
                json!({ "description": "`If-None-Match` names what would be answered", "headers": headers });
            all.insert("304".to_owned(), unchanged);
        }
        if self.records() {
            let description =
                "Nothing was dropped or rejected, and `Prefer: return=minimal` wants no receipt";
            let headers = headers::of(self.always, &["Server-Timing"]);
            all.insert("204".to_owned(), json!({ "description": description, "headers": headers }));
        }
        all.extend(responses::refusals(self.refusals, head_only));
        all
    }

    /// How an answer leads to the next page of its list.
    fn next_page(&self) -> Value {
        let description =
            "`nextCursor`, where it is not null, is the `cursor` of the next page; all else stays as it was.";
        let mut link = json!({ "operationId": self.id, "description": description });
        match self.method {
            "get" => link["parameters"] = json!({ "cursor": "$response.body#/nextCursor" }),
            _ => link["requestBody"] = json!({ "cursor": "$response.body#/nextCursor" }),
        }
        json!({ "nextPage": link })
    }
}

/// What an endpoint can do, or a browser's question what a page may send to it.
fn options(endpoint: Endpoint) -> Value {
    let methods = endpoint.methods();
    let preflight =
        ["Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age", "Allow"];
    let mut all = responses::refusals(&[], true);
    all.insert(
        "204".to_owned(),
        json!({ "description": format!("`Allow: {methods}`, or the answer to a preflight"),
            "headers": headers::of(&[], &preflight) }),
    );
    json!({
        "operationId": format!("{}Options", endpoint.name()),
        "tags": ["server"], "summary": "What the endpoint can do; or a preflight",
        "description": "With `Access-Control-Request-Method` a preflight, which is answered for any path.",
        "parameters": params::in_head(&["Origin"]).collect::<Vec<_>>(), "responses": all,
    })
}
