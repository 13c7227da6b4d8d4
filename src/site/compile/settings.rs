//! The body of `/v1/site`: the settings that a client of the site needs.

use crate::json;
use crate::site::source::types::{CacheTimes, ConsentCategories, Site};

/// Returns the settings of a site as JSON.
pub(super) fn site_settings(site: &Site) -> String {
    let mut out = Vec::new();
    for (name, text) in
        [("{\"site\":", &*site.site), (",\"trackingId\":", &site.tracking_id), (",\"cookie\":", &site.cookie)]
    {
        out.extend_from_slice(name.as_bytes());
        json::write_string(&mut out, text);
    }
    out.extend_from_slice(b",\"origins\":[");
    for (i, origin) in site.origins.iter().enumerate() {
        json::write_comma(&mut out, i);
        json::write_string(&mut out, origin);
    }
    out.extend_from_slice(format!("],\"privacy\":{{\"honorGpc\":{}", site.privacy.honor_gpc).as_bytes());
    write_categories(&mut out, &site.privacy.consent_categories);
    out.push(b'}');
    let times =
        [("resolve", site.cache.resolve()), ("query", site.cache.query()), ("routes", site.cache.routes())];
    let times = times.map(|(name, times)| format!("\"{name}\":{}", cache_times(times))).join(",");
    out.extend_from_slice(format!(",\"cache\":{{{times}}},\"preview\":").as_bytes());
    match &site.preview {
        Some(name) => json::write_string(&mut out, name),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
    String::from_utf8(out).expect("all parts are strings")
}

/// Appends the categories of a consent manager, if the site states any.
fn write_categories(out: &mut Vec<u8>, categories: &ConsentCategories) {
    let measure = categories.measure.names();
    let personalize = categories.personalize.names();
    if measure.is_empty() && personalize.is_empty() {
        return;
    }
    let object = serde_json::json!({ "measure": measure, "personalize": personalize });
    out.extend_from_slice(format!(",\"consentCategories\":{object}").as_bytes());
}

fn cache_times(times: CacheTimes) -> String {
    let CacheTimes { s_max_age, stale_while_revalidate, stale_if_error } = times;
    format!(
        "{{\"sMaxAge\":{s_max_age},\"staleWhileRevalidate\":{stale_while_revalidate},\"staleIfError\":{stale_if_error}}}"
    )
}
