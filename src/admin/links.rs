//! `GET /access/links?site`, `POST /access/links?site` and `DELETE /access/links?site&id`: the shared links of a site. `POST` makes one
//! that shows a page of the console, and `DELETE` revokes one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::areas::is_open_to_links;
use super::audit::{Client, record_durably};
use super::current_links::{CurrentLinks, LinkError};
use super::query::{RequestError, parse_pairs, single_param, single_site};
use super::slow_requests::{JobResult, SlowRequests};
use super::visitors::json_output;
use crate::access::{Link, LinkedPage, LinkedRequest, new_link_token};
use crate::audit::{AuditAction, AuditEntry, AuditLog, AuditOutcome};
use crate::clock;
use crate::events::time;
use crate::http::request::{Method, Request};
use crate::insights::QuestionError;
use crate::insights::engine::JobError;
use crate::limits::access::{LINK_BYTES_MAX, LINK_DAYS_MAX};
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;

/// The parameter with the ID of a link.
const ID: &str = "id";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The body of a request for a link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLink {
    page: String,
    /// The requests of the page, such as `insights/overview?site=acme&days=7`.
    requests: Vec<String>,
    days: u32,
}

/// The first step of an answer.
pub(super) enum FirstStep {
    Text(String),
    /// The request waits in this slot.
    Waiting(usize),
}

/// Answers a request, or starts the job that changes the file.
pub(super) fn begin<'a>(
    links: &Arc<CurrentLinks>,
    requests: &mut SlowRequests,
    request: &Request<'a>,
    client: &Client,
    log: &AuditLog,
    catalog: &Catalog,
) -> Result<FirstStep, RequestError<'a>> {
    let pairs = parse_pairs(request.query)?;
    let site = single_site(&pairs)?;
    if catalog.by_site_id(site).is_none() {
        return Err(Problem::new(problem::SITE_NOT_FOUND, "The server has no such site.").into());
    }
    let change = LinkChange {
        links: Arc::clone(links),
        log: log.clone(),
        entry: client.entry(AuditAction::Link, site),
    };
    let slot = match request.method {
        Method::Get | Method::Head => {
            let open = links.of_site(site, clock::now_ms());
            let list: Json = open.iter().map(link_json).collect();
            return Ok(FirstStep::Text(json!({ "links": list }).to_string()));
        }
        Method::Post => {
            let body = parse_body(request.body).map_err(RequestError::Job)?;
            let linked = linked_page(site, body).map_err(RequestError::Body)?;
            let token = new_link_token();
            let link = Link::new(linked, &token, &client.caller.actor);
            requests.start_job(move || change.make(&link, &token))?
        }
        Method::Delete => {
            let id = single_param(&pairs, ID).map_err(RequestError::Question)?.unwrap_or_default().to_owned();
            let site = site.to_owned();
            requests.start_job(move || change.revoke(&site, &id))?
        }
        _ => {
            let allow = "GET, HEAD, POST, DELETE";
            return Err(Problem::method_not_allowed(request.method.subject(), allow).into());
        }
    };
    Ok(FirstStep::Waiting(slot))
}

fn parse_body(body: &[u8]) -> Result<NewLink, JobError> {
    serde_json::from_slice(body).map_err(|error| JobError {
        kind: if error.is_data() { problem::INVALID_PARAM } else { problem::MALFORMED_JSON },
        detail: format!("Expected a JSON object with 'page', 'requests' and 'days': {error}."),
    })
}

/// Returns whether a text is a page of the console: a name, and parameters.
fn is_page(text: &str) -> bool {
    let (name, query) = text.split_once('?').unwrap_or((text, ""));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    is_name && !query.chars().any(|character| character.is_control() || character == '#')
}

/// Returns the page that a request names.
fn linked_page(site: &str, body: NewLink) -> Result<LinkedPage, QuestionError> {
    let NewLink { page, requests, days } = body;
    if !is_page(&page) {
        let expected = "a page of the console with its parameters, such as overview?site=ID";
        return Err(QuestionError::invalid("page", expected, &page));
    }
    if !(1..=LINK_DAYS_MAX).contains(&days) {
        let expected = "1 to 365 days";
        return Err(QuestionError::invalid("days", expected, &days.to_string()));
    }
    let bytes = requests.iter().map(String::len).sum::<usize>() + page.len();
    if requests.is_empty() {
        return Err(QuestionError::invalid("requests", "1 or more requests", "none"));
    }
    if bytes > LINK_BYTES_MAX {
        let expected = "at most 16384 bytes of requests and page";
        return Err(QuestionError::invalid("requests", expected, &format!("{bytes} bytes")));
    }
    let requests = requests.iter().map(|text| linked_request(site, text)).collect::<Result<_, _>>()?;
    let made_ms = clock::now_ms();
    let ends_ms = made_ms + i64::from(days) * DAY_MS;
    Ok(LinkedPage { site: site.to_owned(), page, requests, made_ms, ends_ms })
}

/// Reads a request of the page: a viewer can send it, and it asks for the site alone.
fn linked_request(site: &str, text: &str) -> Result<LinkedRequest, QuestionError> {
    let expected = "requests for numbers of this site, such as insights/overview?site=ID";
    let wrong = || QuestionError::invalid("requests", expected, text);
    let (path, query) = text.split_once('?').ok_or_else(wrong)?;
    let path = format!("/{}", path.trim_start_matches('/'));
    let pairs = parse_pairs(query).map_err(|_| wrong())?;
    let sites = || pairs.iter().filter(|(name, _)| name == "site");
    let is_of_site = sites().count() == 1 && sites().all(|(_, value)| value == site);
    match is_of_site && is_open_to_links(&path) {
        true => Ok(LinkedRequest::new(&path, pairs)),
        false => Err(wrong()),
    }
}

/// A change of the links, and the beginning of its line in the audit log.
struct LinkChange {
    links: Arc<CurrentLinks>,
    log: AuditLog,
    entry: AuditEntry,
}

impl LinkChange {
    /// Adds a link. Nobody gets its token if the audit log cannot be written.
    fn make(&self, link: &Link, token: &str) -> JobResult {
        let detail = format!("made {} until {}", link.id, time::to_text(link.ends_ms));
        let added = self.links.add(link.clone(), link.made_ms).map_err(|error| failed(&error));
        let recorded = self.record(added.as_ref().err(), &detail, "The link is not made");
        if let Err(error) = added.and(recorded) {
            // Without its token the link opens nothing, so a failure here changes nothing.
            let _ = self.links.remove(&link.site, &link.id);
            return Err(error);
        }
        let mut answer = link_json(link);
        answer["token"] = json!(token);
        Ok(json_output(&answer))
    }

    /// Removes a link.
    fn revoke(&self, site: &str, id: &str) -> JobResult {
        let removed = match self.links.remove(site, id) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let detail =
                    "The site has no link with this 'id'; it may have ended or been revoked.".to_owned();
                return Err(JobError { kind: problem::INVALID_PARAM, detail });
            }
            Err(error) => Err(failed(&error)),
        };
        let detail = format!("revoked {id}");
        self.record(
            removed.as_ref().err(),
            &detail,
            "The link is revoked, but the audit log lacks the line",
        )?;
        removed.map(|()| json_output(&json!({ "id": id })))
    }

    fn record(&self, error: Option<&JobError>, detail: &str, consequence: &str) -> Result<(), JobError> {
        let outcome = if error.is_some() { AuditOutcome::Failed } else { AuditOutcome::Done };
        record_durably(&self.log, &self.entry.clone().outcome(outcome).detail(detail), consequence)
    }
}

fn failed(error: &LinkError) -> JobError {
    let kind = match error {
        LinkError::TooMany => problem::OVERLOADED,
        LinkError::Io(_) => problem::DISK_UNAVAILABLE,
    };
    JobError { kind, detail: format!("The links are not changed: {error}.") }
}

/// Returns the entry of a link in a list.
fn link_json(link: &Link) -> Json {
    let [kind, name] = &link.made_by;
    json!({
        "id": link.id,
        "site": link.site,
        "page": link.page,
        "requests": link.targets(),
        "madeBy": { "kind": kind, "name": name },
        "madeAt": time::to_text(link.made_ms),
        "endsAt": time::to_text(link.ends_ms),
    })
}

/// Returns the member `link` of the rights of a client that has opened it.
pub(super) fn opened_json(link: &Link) -> Json {
    json!({ "page": link.page, "endsAt": time::to_text(link.ends_ms) })
}
