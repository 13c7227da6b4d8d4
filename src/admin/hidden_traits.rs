//! The traits that a client does not see.

use crate::access::Caller;
use crate::resolve::private_traits::HiddenTraits;
use crate::site::catalog::catalog::Catalog;

/// Returns the traits of a visitor of a site that a client must not see.
pub(super) fn hidden_traits(caller: &Caller, site: &str, catalog: &Catalog) -> HiddenTraits {
    match caller.sees_private_traits(site) {
        true => HiddenTraits::NONE,
        false => HiddenTraits::of_site(catalog.by_site_id(site).map(|published| published.site())),
    }
}
