//! The metrics of the verification of user IDs.

use crate::admin::metrics_text::MetricsText;
use crate::api::Handler;
use crate::api::user_verifier::UserIdPlace;

/// Appends the unverified user IDs, and the keys of each site that verifies.
pub(super) fn write(handler: &mut Handler, text: &mut MetricsText) {
    let verifier = handler.user_verifier();
    text.begin_family(
        "parallax_user_ids_unverified_total",
        "counter",
        "User IDs that did not count, because their hash was missing or wrong, by the request that had them",
    );
    for (place, name) in UserIdPlace::ALL {
        text.sample(&[("request", name)], verifier.unverified_count(place));
    }
    text.begin_family(
        "parallax_identity_keys",
        "gauge",
        "Keys of each served site that verifies user IDs; with 0 no user ID counts",
    );
    for site in handler.catalog().sites().iter().filter(|site| site.site().verifies_users) {
        text.sample(&[("site", &site.site().site)], verifier.key_count(site.site()));
    }
}
