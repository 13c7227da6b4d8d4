//! The environment of the validation of events: the facts of the site, and tables and generators of the worker.

use crate::events::request::Environment;
use crate::ids::RequestIdGenerator;
use crate::resolve::path::RoutePath;
use crate::resolve::user_agent::{UserAgentCache, UserAgentInfo, UserAgentParser};
use crate::site::snapshot::format::ArchivedSite;

/// The tables and generators that validation needs.
pub(super) struct RequestEnvironment<'a> {
    pub(super) user_agent_parser: &'a UserAgentParser,
    pub(super) user_agent_cache: &'a mut UserAgentCache,
    pub(super) path: &'a mut RoutePath,
    pub(super) ids: &'a mut RequestIdGenerator,
    pub(super) site: &'a ArchivedSite,
}

impl Environment for RequestEnvironment<'_> {
    fn parse_user_agent(&mut self, user_agent: &str) -> UserAgentInfo {
        self.user_agent_cache.get_or_parse(self.user_agent_parser, user_agent)
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        self.site.hosts.iter().map(|host| host.as_str())
    }

    fn is_ignored_referrer(&self, host: &str) -> bool {
        self.site.ignores_referrer(host)
    }

    fn measure_categories(&self) -> impl Iterator<Item = &str> {
        self.site.measure_categories.iter().map(|category| category.as_str())
    }

    fn page_path(&mut self, path: &str) -> Option<&str> {
        self.path.parse(path).ok().map(|()| self.path.text())
    }

    fn phase_hash(&self, experiment_key: &str, arm: &str) -> Option<u32> {
        self.site.phase_hash(experiment_key, arm)
    }

    fn generate_message_id(&mut self) -> [u8; 16] {
        self.ids.next_id()
    }
}
