//! The environment of the decoding of payloads: the site is not known.

use std::iter;

use crate::events::request::Environment;
use crate::resolve::path::RoutePath;
use crate::resolve::user_agent::{UserAgentInfo, UserAgentParser};

/// The tables that the decoding of a payload needs. They matter only for lines without the columns of an export.
pub(super) struct ImportEnvironment {
    user_agent_parser: UserAgentParser,
    path: RoutePath,
}

impl ImportEnvironment {
    pub(super) fn new() -> Self {
        Self { user_agent_parser: UserAgentParser::new(), path: RoutePath::new() }
    }
}

impl Environment for ImportEnvironment {
    fn parse_user_agent(&mut self, user_agent: &str) -> UserAgentInfo {
        self.user_agent_parser.parse(user_agent)
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        iter::empty()
    }

    fn is_ignored_referrer(&self, _host: &str) -> bool {
        false
    }

    fn measure_categories(&self) -> impl Iterator<Item = &str> {
        iter::empty()
    }

    fn page_path(&mut self, path: &str) -> Option<&str> {
        self.path.parse(path).ok().map(|()| self.path.text())
    }

    fn phase_hash(&self, _experiment_key: &str, _arm: &str) -> Option<u32> {
        None
    }

    fn generate_message_id(&mut self) -> [u8; 16] {
        // A line without a message ID gets one that follows from its text.
        [b'0'; 16]
    }
}
