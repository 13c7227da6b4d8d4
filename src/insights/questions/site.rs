//! The facts about a site that the answers need.

use super::calendar::Zone;
use crate::site::goals::SiteGoals;
use crate::site::snapshot::format::ArchivedSite;
use crate::url::{is_covered, is_ignored_referrer, without_www};

/// The facts about a site that the answers need.
#[derive(Debug, Clone)]
pub struct SiteFacts {
    /// The site ID.
    pub site: String,
    pub zone: Zone,
    /// The hosts of the site, without `www.`. A host such as `*.acme.example` means the domain and all its subdomains.
    pub own_hosts: Vec<String>,
    /// Other hosts whose referrers are not external. The form of a host is the same as in `own_hosts`.
    pub ignored_referrers: Vec<String>,
    /// True if referrers on hosts of payment providers and identity providers are not external.
    pub ignores_providers: bool,
    /// The goals of the published site.
    pub goals: SiteGoals,
    /// The rule that credits conversions to visits.
    pub attribution: Attribution,
    /// The version of the published site. `None` if the site is not published.
    pub version: Option<u64>,
}

/// The rule that credits conversions to visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribution {
    /// The longest time between a visit and a conversion that is credited to it, in milliseconds.
    pub window_ms: i64,
    /// True if the first visit with a source gets the credit, and not the last.
    pub is_first: bool,
}

impl SiteFacts {
    /// Returns the facts of a published site.
    pub(crate) fn of(site: &ArchivedSite) -> Self {
        let offsets = site.clock_offsets.iter();
        let offsets =
            offsets.map(|offset| (offset.from_s.to_native(), i64::from(offset.offset_s.to_native())));
        Self {
            site: site.site.to_string(),
            zone: Zone { name: site.time_zone.to_string(), offsets: offsets.collect() },
            own_hosts: site.hosts.iter().map(|host| host.to_string()).collect(),
            ignored_referrers: site.ignored_referrers.iter().map(|host| host.to_string()).collect(),
            ignores_providers: site.ignores_providers,
            goals: site.site_goals(),
            attribution: Attribution {
                window_ms: site.goals.attribution_window_ms.to_native(),
                is_first: site.goals.attributes_first,
            },
            version: Some(site.version.to_native()),
        }
    }

    /// Returns the facts of a site that is not published.
    pub fn unpublished(site: &str) -> Self {
        Self {
            site: site.to_owned(),
            zone: Zone::utc(),
            own_hosts: Vec::new(),
            ignored_referrers: Vec::new(),
            ignores_providers: true,
            goals: SiteGoals::default(),
            attribution: Attribution { window_ms: 0, is_first: false },
            version: None,
        }
    }

    /// Returns true if a referrer host is external. It is external if it is no host of the site and if the site does
    /// not ignore it.
    pub(crate) fn is_external_host(&self, host: &str) -> bool {
        let host = without_www(host);
        let ignored = self.ignored_referrers.iter().map(String::as_str);
        !self.own_hosts.iter().any(|own| is_covered(host, own))
            && !is_ignored_referrer(host, ignored, self.ignores_providers)
    }
}
