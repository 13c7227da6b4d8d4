//! `GET /visitors/explain`: the reasons for a page that a visitor got in the past.
//!
//! The record of the page gives the context and the time. The profile is that of the records before it, and the rules are
//! those of the snapshot that was served then. If any of these is not known, the answer says which, and explains nothing.
//! Otherwise it says whether the record reports the same variants.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::events::time;
use crate::percent;
use crate::record::{RecordKind, UserAgentInfo};
use crate::resolve::decide::DecisionBuffers;
use crate::resolve::explain::explain;
use crate::resolve::path::RoutePath;
use crate::resolve::route;
use crate::resolve::visitor_context::Visitor;
use crate::site::catalog::catalog::PublishedSite;
use crate::site::catalog::files::FileList;
use crate::site::catalog::versions::{Serving, Versions};
use crate::site::snapshot::format::ArchivedPage;
use crate::site::snapshot::open::Snapshot;
use crate::url::PageUrl;
use crate::visitors::profile::enrolments::Enrolments;
use crate::visitors::profile::profile::Profile;
use crate::visitors::refold::{Cut, PastRecord};

const CAMPAIGN_PARAMS: [&str; 5] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// The snapshots that the server has in memory, and the times from which it served them.
pub(super) struct ServedSnapshots {
    versions: Versions,
    present: Option<Arc<Snapshot>>,
    files: Arc<FileList>,
}

impl ServedSnapshots {
    /// Returns the snapshots of a site. `None` is a site that is not published.
    pub(super) fn of(published_site: Option<&PublishedSite>, files: Arc<FileList>) -> Self {
        let versions = published_site.map(|site| site.versions.clone()).unwrap_or_default();
        Self { versions, present: published_site.map(PublishedSite::snapshot), files }
    }

    fn served_at(&self, at_ms: i64) -> Result<Arc<Snapshot>, Cut> {
        let Some(serving) = self.versions.served_at(at_ms) else {
            let since = self.versions.servings().first().map_or_else(
                || "the site is not published".to_owned(),
                |first| format!("the server knows them since {}", time::to_text(first.from_ms)),
            );
            return Err(Cut::new(
                "version",
                format!("It is not known which version was served then: {since}."),
            ));
        };
        self.find(serving)
    }

    /// Returns the times from which versions were served, oldest first.
    pub(super) fn servings(&self) -> &[Serving] {
        self.versions.servings()
    }

    /// Returns a snapshot that was served.
    ///
    /// # Errors
    /// The server does not have it in memory.
    pub(super) fn find(&self, serving: &Serving) -> Result<Arc<Snapshot>, Cut> {
        let mut snapshots = self.present.iter().chain(&self.files.snapshots);
        let found = snapshots.find(|snapshot| snapshot.hash() == serving.hash);
        found.cloned().ok_or_else(|| {
            let unreadable = self.files.files.iter().find(|file| file.snapshot.is_none());
            // The version in a file that cannot be read is not known.
            let or_unreadable = unreadable.map(|file| {
                format!(", or it is in a file that the server cannot read, such as {}", file.name)
            });
            let version = serving.version;
            let or_unreadable = or_unreadable.unwrap_or_default();
            Cut::new(
                "snapshot",
                format!(
                    "The snapshot of version {version} is not in the snapshots directory{or_unreadable}."
                ),
            )
        })
    }
}

/// Returns whether the record of a page or an exposure can be explained.
pub(super) fn has_decision(record: &PastRecord) -> bool {
    record.kind == RecordKind::Page || record.variants.is_some() || record.experiments.is_some()
}

/// Returns the explanation of a record. `cuts` are the reasons why its profile is not known.
pub(super) fn explain_record(
    record: &PastRecord,
    mut cuts: Vec<Cut>,
    snapshots: &ServedSnapshots,
    seq: u64,
) -> Json {
    let mut answer = json!({
        "seq": seq.to_string(), "type": record.kind.name(), "timestamp": time::to_text(record.timestamp_ms),
        "recorded": { "variants": record.variants, "experiments": record.experiments },
    });
    let snapshot = snapshots.served_at(record.timestamp_ms);
    if let Ok(snapshot) = &snapshot {
        answer["version"] = json!(snapshot.version());
    }
    let mut path = RoutePath::new();
    let page =
        snapshot.as_ref().map_err(Cut::clone).and_then(|snapshot| find_page(snapshot, record, &mut path));
    match (page, &snapshot) {
        (Ok(page), Ok(snapshot)) if cuts.is_empty() => add_explanation(record, snapshot, page, &mut answer),
        (page, _) => cuts.extend(page.err()),
    }
    answer["missing"] = missing_json(&cuts);
    answer
}

/// Returns the answer about a record that is not kept.
pub(super) fn explain_lost(seq: u64, cut: &Cut) -> Json {
    json!({ "seq": seq.to_string(), "missing": missing_json(std::slice::from_ref(cut)) })
}

/// Returns the reasons why something is not known.
pub(super) fn missing_json(cuts: &[Cut]) -> Json {
    cuts.iter().map(|cut| json!({ "code": cut.code, "detail": cut.detail })).collect()
}

fn find_page<'s>(
    snapshot: &'s Snapshot,
    record: &PastRecord,
    path: &mut RoutePath,
) -> Result<&'s ArchivedPage, Cut> {
    let text =
        record.path.as_deref().ok_or_else(|| Cut::new("path", "The record does not say on which page."))?;
    let site = snapshot.site();
    let found = path.parse(text).ok().and_then(|()| route::find(site, path));
    found.and_then(|(_, found)| route::page(site, found)).ok_or_else(|| {
        Cut::new("route", format!("Version {} of the site has no page at this path.", snapshot.version()))
    })
}

fn add_explanation(record: &PastRecord, snapshot: &Snapshot, page: &ArchivedPage, answer: &mut Json) {
    let site = snapshot.site();
    let request = PastRequest::of(record);
    // A visitor who refuses personalization is unknown to resolve.
    let is_known = !(record.gpc && site.honor_gpc);
    let anon_id = record.anon_id.as_deref().filter(|_| is_known);
    let user_id = record.user_id.as_deref().filter(|_| is_known && anon_id.is_none());
    let agent = if record.bot { UserAgentInfo::CRAWLER } else { record.context.agent() };
    let profile = record.profile.as_deref().filter(|_| is_known && !agent.is_crawler);
    let visitor = Visitor {
        anon_id,
        user_id,
        is_user_unverified: false,
        profile: profile
            .and_then(Profile::decode)
            .map(|profile| profile.with_enrolments(Enrolments::decode(&record.enrolments))),
        agent,
        locale: request.locale.as_deref().map(str::as_bytes),
        country: record.context.country(),
        url: request.url.as_deref().map(str::as_bytes),
        referrer: request.referrer.as_deref(),
        now_ms: record.timestamp_ms,
        is_present: true,
        is_stale: false,
    };
    let mut buffers = DecisionBuffers::new();
    let choice = buffers.decide(site, page, &visitor, snapshot.patterns(), None);
    let experiments = String::from_utf8_lossy(buffers.experiments.text()).into_owned();
    let mut variants = Vec::new();
    choice.write_canonical(page, &mut variants);
    let variants = String::from_utf8_lossy(&variants).into_owned();
    let (decisions, document) =
        explain(&mut buffers, site, page, &visitor, &choice, &|_| false, snapshot.patterns());
    answer["differs"] = json!(differs(record, &variants, &experiments));
    answer["computed"] = json!({ "variants": variants, "experiments": experiments });
    answer["route"] = json!(record.path);
    answer["decisions"] = decisions;
    answer["visitor"] = document;
}

/// Returns whether the record says that something else was shown. `None` if it says nothing.
fn differs(record: &PastRecord, variants_text: &str, experiments_text: &str) -> Option<bool> {
    let pairs = |text| -> BTreeSet<&str> { str::split(text, ',').filter(|pair| !pair.is_empty()).collect() };
    let shown = record.variants.as_deref().map(|shown| pairs(shown) != pairs(variants_text));
    let assigned = record.experiments.as_deref().map(|assigned| match record.kind {
        RecordKind::Page => pairs(assigned) != pairs(experiments_text),
        // An exposure of another SDK names one of the experiments.
        _ => !pairs(assigned).is_subset(&pairs(experiments_text)),
    });
    [shown, assigned].into_iter().flatten().reduce(|one, other| one || other)
}

/// The parts of the request for the page that only the payload of the record has.
struct PastRequest {
    url: Option<String>,
    referrer: Option<String>,
    locale: Option<String>,
}

impl PastRequest {
    fn of(record: &PastRecord) -> Self {
        let payload: Json = serde_json::from_str(&record.payload).unwrap_or_default();
        let text = |pointer: &str| {
            payload.pointer(pointer).and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let page = |name: &str| {
            text(&format!("/properties/{name}")).or_else(|| text(&format!("/context/page/{name}")))
        };
        let [.., referrer] = &record.touch;
        Self {
            url: page("url").or_else(|| record.path.clone()).map(|url| with_campaign(url, record)),
            referrer: referrer.clone().or_else(|| page("referrer")),
            // The column has the language without its region.
            locale: text("/context/locale").or_else(|| record.context.language().map(str::to_owned)),
        }
    }
}

/// Returns the URL with the campaign of the record, if the URL has none.
fn with_campaign(url: String, record: &PastRecord) -> String {
    let mut parsed = PageUrl::new();
    parsed.parse(Some(url.as_bytes()));
    if parsed.has_campaign() || record.touch[..CAMPAIGN_PARAMS.len()].iter().all(Option::is_none) {
        return url;
    }
    let mut out = url.split('#').next().unwrap_or_default().as_bytes().to_vec();
    let mut separator = if out.contains(&b'?') { b'&' } else { b'?' };
    for (name, value) in CAMPAIGN_PARAMS.iter().zip(&record.touch) {
        let Some(value) = value else { continue };
        out.push(std::mem::replace(&mut separator, b'&'));
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        percent::encode(&mut out, value);
    }
    String::from_utf8(out).unwrap_or(url)
}
