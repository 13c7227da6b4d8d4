//! `GET /sites`: the published sites with their versions, and the snapshot files with their states.

use serde_json::{Value as Json, json};

use super::query::check_is_read;
use super::representation::Representation;
use crate::access::{Area, Caller};
use crate::events::time;
use crate::http::request::Request;
use crate::insights::{Cell, write_csv};
use crate::problem::Problem;
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::catalog::files::{FileList, FileStatus};
use crate::site::snapshot::format::ArchivedSite;

pub(super) const PATH: &str = "/sites";

const HEADER: [&str; 6] = ["name", "site", "version", "bytes", "state", "reason"];

/// Returns the response body.
pub(super) fn write<'a>(
    request: &Request<'a>,
    caller: &Caller,
    catalog: &Catalog,
    files: &FileList,
) -> Result<(Representation, String), Problem<'a>> {
    check_is_read(request)?;
    let representation = Representation::of(request);
    let sees_all = caller.may_use_for_all(Area::Sites);
    let is_visible = |site: &str| caller.may_use_for(Area::Sites, site);
    // A file that was never opened belongs to no site.
    let visible_files = files.files.iter().filter(|file| match &file.site {
        Some((site, _)) => is_visible(site),
        None => sees_all,
    });
    let text = match representation {
        Representation::Csv => write_csv(&HEADER, &visible_files.map(file_line).collect::<Vec<_>>()),
        Representation::Json => {
            let visible_sites = catalog.sites().iter().filter(|published| is_visible(&published.site().site));
            let sites: Vec<Json> = visible_sites.map(|published| site_json(published, caller)).collect();
            let listed: Vec<Json> = visible_files.map(file_json).collect();
            let more = if sees_all { json!(files.more) } else { json!(0) };
            json!({ "sites": sites, "files": listed, "more": more }).to_string()
        }
    };
    Ok((representation, text))
}

fn site_json(published_site: &PublishedSite, caller: &Caller) -> Json {
    let site = published_site.site();
    let sees_private = caller.sees_private_traits(&site.site);
    let searchable = site.traits.searchable.iter();
    let searchable = searchable.filter(|name| sees_private || !site.traits.private.contains(name));
    let mut versions: Vec<String> =
        published_site.versions.iter().map(|listed| listed.version.to_string()).collect();
    versions.reverse();
    json!({
        "site": site.site.get(), "trackingId": site.tracking_id.as_str(), "name": site.name.as_str(),
        "timeZone": site.time_zone.as_str(), "preview": site.preview.as_deref(),
        "version": published_site.version().to_string(), "servedSince": time::to_text(published_site.served_since_ms),
        "versions": versions, "routes": site.routes.len(), "goals": goals_json(site),
        "segments": segments_json(site), "properties": site.goals.properties.iter().map(|name| name.as_str()).collect::<Json>(),
        "searchable": searchable.map(|name| name.as_str()).collect::<Json>(),
    })
}

/// Returns the goals of `site.json` in their order. A goal without a key belongs to an experiment.
fn goals_json(site: &ArchivedSite) -> Json {
    let goals = site.site_goals();
    let named = goals.all().iter().filter(|goal| !goal.key.is_empty());
    named.map(|goal| json!({ "key": goal.key, "name": goal.name, "value": goal.value })).collect()
}

/// Returns the segments of `site.json`, sorted by key.
fn segments_json(site: &ArchivedSite) -> Json {
    let segments = site.segments.iter().map(|segment| {
        let filters = segment.filters.iter();
        let filters = filters.map(|filter| {
            let values: Vec<&str> = filter.values.iter().map(|value| value.as_str()).collect();
            (filter.filter.as_str().to_owned(), json!(values))
        });
        json!({ "key": segment.key.as_str(), "name": segment.name.as_str(), "filters": Json::Object(filters.collect()) })
    });
    segments.collect()
}

fn file_json(file: &FileStatus) -> Json {
    let FileStatus { name, site, bytes, state, reason, .. } = file;
    let (site, version) = site.as_ref().map(|(site, version)| (site, version.to_string())).unzip();
    json!({
        "name": name, "site": site, "version": version, "bytes": bytes, "state": state.name(), "reason": reason,
    })
}

fn file_line(file: &FileStatus) -> Vec<Cell> {
    let (site, version) = file.site.clone().unzip();
    let number = |number: Option<u64>| number.map_or(Cell::Text(None), |number| Cell::Number(number as i64));
    vec![
        Cell::Text(Some(file.name.clone())),
        Cell::Text(site),
        number(version),
        number(file.bytes),
        Cell::Text(Some(file.state.name().to_owned())),
        Cell::Text(file.reason.clone()),
    ]
}
