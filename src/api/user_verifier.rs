//! The verification of user IDs at the public address: the present keys, the number of unverified IDs, and warnings about
//! sites whose verification needs the operator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::checksum::HmacKey;
use crate::identity_keys::IdentityKeys;
use crate::site::catalog::catalog::Catalog;
use crate::site::snapshot::format::ArchivedSite;

/// The part of a request that has the user ID.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UserIdPlace {
    /// The query string of a decision.
    Page,
    /// An event.
    Event,
}

impl UserIdPlace {
    /// All places and their names in metrics, in order.
    pub(crate) const ALL: [(Self, &'static str); 2] = [(Self::Page, "page"), (Self::Event, "event")];
}

/// The verifier of user IDs. All threads share it.
#[derive(Debug, Default)]
pub struct UserVerifier {
    keys: ArcSwap<IdentityKeys>,
    /// The user IDs that did not count, by place. Only sites that verify add to them.
    unverified: [AtomicU64; 2],
    /// The published sites that verify, and whether each has a key.
    verifying: Mutex<BTreeMap<String, bool>>,
}

impl UserVerifier {
    /// Creates a verifier with the keys of all sites.
    pub(crate) fn new(keys: IdentityKeys) -> Self {
        Self { keys: ArcSwap::from_pointee(keys), ..Self::default() }
    }

    /// Replaces the keys. Requests that run keep the old ones.
    pub(crate) fn set_keys(&self, keys: IdentityKeys) {
        self.keys.store(Arc::new(keys));
    }

    /// Returns the present keys.
    pub(super) fn keys(&self) -> arc_swap::Guard<Arc<IdentityKeys>> {
        self.keys.load()
    }

    /// Counts user IDs that did not count.
    pub(super) fn record_unverified(&self, place: UserIdPlace, count: usize) {
        self.unverified[place as usize].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the number of user IDs that did not count.
    pub(crate) fn unverified_count(&self, place: UserIdPlace) -> u64 {
        self.unverified[place as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of keys of a site.
    pub(crate) fn key_count(&self, site: &ArchivedSite) -> usize {
        keys_of(&self.keys.load(), site).len()
    }

    /// Logs a warning for each site that verifies and lacks a key since this publication or these keys, and for each site
    /// that no longer verifies.
    pub(crate) fn review(&self, catalog: &Catalog) {
        let sites = catalog.sites().iter().map(|site| site.site()).filter(|site| site.verifies_users);
        let verifying: BTreeMap<String, bool> =
            sites.map(|site| (site.site.to_string(), self.key_count(site) > 0)).collect();
        let mut before = self.verifying.lock().unwrap_or_else(PoisonError::into_inner);
        for (site, _) in verifying.iter().filter(|(_, has_keys)| !**has_keys) {
            if before.get(site) != Some(&false) {
                tracing::warn!(
                    site,
                    "the site verifies user IDs (\"identity\" in site.json) and has no key, so no user ID counts; \
                     add its key to the file of --identity-keys and send SIGHUP, or start the server with this flag"
                );
            }
        }
        let is_published = |site: &&String| catalog.by_site_id(site).is_some();
        for site in before.keys().filter(is_published).filter(|site| !verifying.contains_key(*site)) {
            tracing::warn!(
                site,
                "the site no longer verifies user IDs: its new version has no \"identity\": {{\"verify\": \"signed\"}}"
            );
        }
        *before = verifying;
    }
}

/// Returns the keys of a site.
pub(super) fn keys_of<'k>(keys: &'k IdentityKeys, site: &ArchivedSite) -> &'k [HmacKey] {
    keys.of_site(&site.site, site.preview.as_ref().map(|name| name.as_str()))
}
