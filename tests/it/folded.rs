//! The fold inputs that the server writes for payloads, for tests and benchmarks that make records themselves.

use std::net::{IpAddr, Ipv4Addr};

use parallax::testing::events::decode::EventValidator;
use parallax::testing::events::document::JsonParser;
use parallax::testing::events::endpoint::EventEndpoint;
use parallax::testing::events::ip::IpPolicy;
use parallax::testing::events::receipt::EventResults;
use parallax::testing::events::request::{BotPolicy, Environment, Policy, RequestFacts};
use parallax::testing::events::submission::Submission;
use parallax::testing::identity_keys::UserRule;
use parallax::testing::record::{FoldInput, RecordKind, UserAgentInfo};
use parallax::testing::url::is_ignored_referrer;

const REQUEST: RequestFacts<'static> = RequestFacts {
    site: "acme",
    tracking_id: "track_acme",
    policy: Policy { bots: BotPolicy::Flag, honor_gpc: false, ip: IpPolicy::None },
    received_ms: 1_767_607_200_000,
    is_preview: false,
    gpc: false,
    referer: None,
    user_agent: None,
    language: None,
    country: None,
    anon_id: None,
    user_rule: UserRule::Any,
    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
};

/// A site without hosts, and User-Agents that are unknown.
struct UnknownEnvironment;

impl Environment for UnknownEnvironment {
    fn parse_user_agent(&mut self, _: &str) -> UserAgentInfo {
        UserAgentInfo::default()
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn is_ignored_referrer(&self, host: &str) -> bool {
        is_ignored_referrer(host, std::iter::empty(), true)
    }

    fn measure_categories(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn page_path(&mut self, _: &str) -> Option<&str> {
        None
    }

    fn phase_hash(&self, _experiment_key: &str, _arm: &str) -> Option<u32> {
        None
    }

    fn generate_message_id(&mut self) -> [u8; 16] {
        *b"0123456789abcdef"
    }
}

/// Passes the fold input of an event with this payload to `take`. It is empty if the event is invalid.
pub(crate) fn with_fold_input<T>(
    kind: RecordKind,
    payload: &str,
    take: impl FnOnce(FoldInput<'_>) -> T,
) -> T {
    let members = payload.strip_prefix('{').expect("an object").trim_start();
    let separator = if members.starts_with('}') { "" } else { "," };
    let body = format!(r#"{{"type":"{}","anonId":"v","userId":"u"{separator}{members}"#, kind.name());
    let mut parser = JsonParser::default();
    let document = parser.parse(&body).expect("JSON");
    let endpoint = match kind {
        RecordKind::Page => EventEndpoint::Page,
        RecordKind::Alias => EventEndpoint::Alias,
        RecordKind::Identify | RecordKind::Profile => EventEndpoint::Track,
        // The columns are enough.
        _ => return take(FoldInput::EMPTY),
    };
    let sent = Submission::parse(&document, endpoint).expect("an event");
    let mut take = Some(take);
    let mut taken = None;
    EventValidator::default().validate(
        &sent,
        &REQUEST,
        &mut UnknownEnvironment,
        EventResults::default(),
        |record| taken = take.take().map(|take| take(record.fold_input)),
    );
    taken.unwrap_or_else(|| take.expect("there was no record")(FoldInput::EMPTY))
}
