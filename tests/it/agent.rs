//! User-Agent parsing, with real crawlers, real traffic and well-known browsers.

use parallax::testing::limits::{USER_AGENT_BYTES_MAX, USER_AGENTS_CACHED};
use parallax::testing::resolve::user_agent::{
    Browser, Device, Os, UserAgentCache, UserAgentInfo, UserAgentParser,
};
use proptest::prelude::*;

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

/// Device, system and browser as texts, and the User-Agent that yields them.
const BROWSERS: &[(&str, &str, &str, &str)] = &[
    ("desktop", "Windows", "Chrome", CHROME),
    (
        "desktop",
        "Windows",
        "Edge",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
    ),
    (
        "desktop",
        "Windows",
        "Opera",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 OPR/110.0.0.0",
    ),
    (
        "desktop",
        "Windows",
        "Internet Explorer",
        "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
    ),
    (
        "desktop",
        "macOS",
        "Safari",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    ),
    (
        "desktop",
        "macOS",
        "Firefox",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:127.0) Gecko/20100101 Firefox/127.0",
    ),
    (
        "desktop",
        "Linux",
        "Firefox",
        "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    ),
    (
        "desktop",
        "Linux",
        "Vivaldi",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36 Vivaldi/6.6.3271.57",
    ),
    (
        "desktop",
        "ChromeOS",
        "Chrome",
        "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    ),
    (
        "mobile",
        "iOS",
        "Safari",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    ),
    (
        "mobile",
        "iOS",
        "Chrome",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1",
    ),
    (
        "mobile",
        "iOS",
        "Edge",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 EdgiOS/125.0.2535.96 Mobile/15E148 Safari/604.1",
    ),
    (
        "tablet",
        "iOS",
        "Firefox",
        "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/127.0 Mobile/15E148 Safari/605.1.15",
    ),
    (
        "mobile",
        "Android",
        "Chrome",
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
    ),
    (
        "mobile",
        "Android",
        "Samsung Internet",
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36",
    ),
    (
        "tablet",
        "Android",
        "Chrome",
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    ),
    (
        "mobile",
        "Android",
        "unknown",
        "Mozilla/5.0 (Linux; U; Android 4.3; es-es; GT-I9300 Build/JSS15J) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30",
    ),
    (
        "tablet",
        "Android",
        "Silk",
        "Mozilla/5.0 (Linux; Android 11; KFTRWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/120.3.3 like Chrome/120.0.6099.283 Safari/537.36",
    ),
    (
        "mobile",
        "Windows",
        "Edge",
        "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063",
    ),
    ("unknown", "unknown", "unknown", "MAXX_MAUI WAP Browser"),
];

/// Programs that request for others, and a program of visitors: their patterns in the crawler list, and the
/// User-Agents that they send.
const FETCHERS: &[(&str, &[&str])] = &[
    ("undici", &["undici", "node"]),
    ("okhttp", &["okhttp/4.12.0"]),
    ("Amazon CloudFront", &["Amazon CloudFront"]),
    (
        "GoogleImageProxy",
        &["Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)"],
    ),
    (
        "HeadlessChrome",
        &[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36",
        ],
    ),
];

/// Patterns of the crawler list that are browsers and apps of people.
const APPS: &[&str] = &["BTWebClient", "Code\\/1\\.", "Fluid"];

/// User-Agents of libraries, and of a tool for measurements, that a list of devices has. No person reads with them.
const NO_DEVICES: &[&str] = &["got", "PTST/", "WhatsApp"];

/// Shares of crawlers that are recognized, and of devices that are taken for crawlers, in a public collection of
/// User-Agents.
const RECOGNIZED_MIN: f64 = 0.9;
const MISTAKEN_MAX: f64 = 0.0015;

#[test]
fn every_listed_crawler_is_recognized_except_programs_that_act_for_others() {
    let Some(text) = case("crawler-user-agents/crawlers.json") else {
        return;
    };
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let parser = UserAgentParser::new();
    let mut recognized = 0;
    for entry in list.as_array().unwrap() {
        let pattern = entry["pattern"].as_str().unwrap();
        if APPS.contains(&pattern) || FETCHERS.iter().any(|(fetcher, _)| *fetcher == pattern) {
            continue;
        }
        for instance in entry["instances"].as_array().unwrap() {
            let instance = instance.as_str().unwrap();
            assert_eq!(parser.parse(instance), CRAWLER, "{pattern}: {instance}");
            recognized += 1;
        }
    }
    assert!(recognized > 1900, "only {recognized} instances were found");
}

#[test]
fn browsers_in_the_traffic_of_a_real_site_are_not_crawlers() {
    let Some(text) = case("apache-access-log/requests.tsv") else {
        return;
    };
    let parser = UserAgentParser::new();
    let mut requests = 0;
    for agent in text.lines().skip(1).map(|line| line.rsplit('\t').next().unwrap()) {
        if is_plain_browser(agent) {
            assert!(!parser.parse(agent).is_crawler, "{agent}");
            requests += 1;
        }
    }
    assert!(requests > 1500, "only {requests} requests of browsers were found");
}

#[test]
fn programs_that_act_for_others_are_not_crawlers() {
    let parser = UserAgentParser::new();
    for agent in FETCHERS.iter().flat_map(|(_, sent)| *sent) {
        let info = parser.parse(agent);
        assert!(!info.is_crawler && info.device != Device::Bot, "{agent}");
    }
}

#[test]
fn most_programs_of_a_public_collection_are_crawlers_and_hardly_any_device() {
    let (Some(programs), Some(devices)) = (case("user-agents/bots.txt"), case("user-agents/devices.txt"))
    else {
        return;
    };
    let parser = UserAgentParser::new();
    let share = |agents: &str| {
        let found = agents.lines().filter(|agent| parser.parse(agent).is_crawler).count();
        found as f64 / agents.lines().count() as f64
    };
    let (recognized, mistaken) = (share(&programs), share(&devices));
    assert!(recognized >= RECOGNIZED_MIN, "only {recognized} of the programs are recognized");
    assert!(mistaken <= MISTAKEN_MAX, "{mistaken} of the devices are taken for crawlers");
}

#[test]
fn devices_that_another_list_takes_for_crawlers_are_none() {
    let Some(cases) = case("reports/false-bots.tsv") else {
        return;
    };
    let parser = UserAgentParser::new();
    let agents: Vec<_> = cases.lines().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    assert!(agents.len() > 15, "only {} devices were found", agents.len());
    for agent in agents.iter().filter(|agent| !NO_DEVICES.iter().any(|name| agent.contains(name))) {
        assert!(!parser.parse(agent).is_crawler, "{agent}");
    }
}

#[test]
fn a_general_sign_counts_with_its_border_and_beside_no_device() {
    let parser = UserAgentParser::new();
    for (agent, crawler) in [
        ("Groq-Bot/1.0", true),
        ("KlarnaBot-EnrichProducts/1.0", true),
        ("VoilaBotCollector", true),
        ("SOMEBOT", true),
        ("Acme bots", true),
        ("Bottle/1.0", false),
        ("BOTTLE/1.0", false),
        ("both", false),
        ("Mozilla/5.0 (Linux; Android 15; Cubot Hafury V1) Chrome/126.0.0.0 Mobile Safari/537.36", false),
        ("Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) Mobile Safari/537.36 SomeBot/1.0", true),
        ("Mozilla/5.0 (compatible; Groq/1.0)", true),
        ("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)", false),
        ("Mozilla/5.0 (compatible; YRSpider; +http://www.yunrang.com/yrspider.html)", true),
        ("Acme (+https://acme.example/about)", true),
        ("gPodder/3.5.2 (+http://gpodder.org/)", false),
        ("Acme https://acme.example", true),
        ("Acme/1.0 (iPad; https://acme.example)", false),
        ("Acme Podcasts (https://acme.example)", false),
        ("mail@acme.example", true),
        ("QR Scanner/1.0 CFNetwork/1404.0.5 Darwin/22.3.0", false),
        ("QR Scanner/1.0", true),
        ("Scandinavia/1.0", false),
        ("curl/8.5.0", true),
        ("libcurl/8.5.0", false),
        ("python-requests/2.32.3", true),
    ] {
        assert_eq!(parser.parse(agent).is_crawler, crawler, "{agent}");
    }
}

#[test]
fn crawlers_that_resemble_programs_or_browsers_are_recognized() {
    let parser = UserAgentParser::new();
    for agent in [
        "WGETbot/1.0 (+http://wget.alanreed.org)",
        "PHP-Curl-Class/4.13.0 (+https://github.com/php-curl-class/php-curl-class) PHP/7.2.24 curl/7.61.1",
        "Silk/1.0 (+http://www.slider.com/silk.htm)",
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    ] {
        assert_eq!(parser.parse(agent), CRAWLER, "{agent}");
    }
}

#[test]
fn an_agent_without_known_words_yields_unknown_values() {
    for agent in ["", "-", " ", "Mozilla/5.0", "ångström\u{0}"] {
        assert_eq!(UserAgentParser::new().parse(agent), UserAgentInfo::default(), "{agent:?}");
    }
    assert_eq!(texts(UserAgentInfo::default()), ("unknown", "unknown", "unknown"));
}

#[test]
fn well_known_browsers_yield_device_system_and_browser() {
    let parser = UserAgentParser::new();
    for &(device, os, browser, agent) in BROWSERS {
        let info = parser.parse(agent);
        assert_eq!((texts(info), info.is_crawler), ((device, os, browser), false), "{agent}");
    }
}

#[test]
fn a_list_matches_anywhere_or_at_the_start_and_skips_comments() {
    let parser = UserAgentParser::from_list("# Remark\n\nFinder\n^Lister/\n spaced\n");
    for (agent, crawler) in [
        ("a Finder", true),
        ("a finder", false),
        ("Lister/1", true),
        ("a Lister/1", false),
        ("^Lister/1", false),
        ("a spaced", true),
        ("spaced", false),
        ("# Remark", false),
        ("", false),
    ] {
        assert_eq!(parser.parse(agent).is_crawler, crawler, "{agent}");
    }
}

#[test]
fn text_after_the_limit_is_ignored() {
    let parser = UserAgentParser::new();
    let sign = "Slurp";
    for (ends_at, crawler) in
        [(USER_AGENT_BYTES_MAX - 1, true), (USER_AGENT_BYTES_MAX, true), (USER_AGENT_BYTES_MAX + 1, false)]
    {
        let agent = format!("{:x<1$}{sign}", "", ends_at - sign.len());
        assert_eq!(parser.parse(&agent).is_crawler, crawler, "ends at {ends_at}");
        assert_eq!(
            UserAgentCache::new().get_or_parse(&parser, &agent).is_crawler,
            crawler,
            "ends at {ends_at}"
        );
    }
}

#[test]
fn a_character_that_the_limit_splits_is_ignored() {
    let parser = UserAgentParser::from_list("xØ");
    for (ends_at, crawler) in
        [(USER_AGENT_BYTES_MAX - 1, true), (USER_AGENT_BYTES_MAX, true), (USER_AGENT_BYTES_MAX + 1, false)]
    {
        let agent = format!("{:x<1$}Ø and so on", "", ends_at - "Ø".len());
        assert_eq!(
            UserAgentCache::new().get_or_parse(&parser, &agent).is_crawler,
            crawler,
            "ends at {ends_at}"
        );
    }
}

#[test]
fn the_cache_remembers_the_result_for_an_agent() {
    let mut cache = UserAgentCache::new();
    let matching = UserAgentParser::from_list("Windows");
    let empty = UserAgentParser::from_list("");
    assert!(cache.get_or_parse(&matching, CHROME).is_crawler);
    assert!(cache.get_or_parse(&empty, CHROME).is_crawler);
    assert!(!UserAgentCache::new().get_or_parse(&empty, CHROME).is_crawler);
}

#[test]
fn agents_that_share_a_slot_are_not_confused() {
    let parser = UserAgentParser::new();
    let mut cache = UserAgentCache::new();
    let real = BROWSERS.iter().map(|browser| browser.3).chain(["Googlebot/2.1", "curl/8.5.0", ""]);
    let many: Vec<_> = real.flat_map(|agent| (0..200).map(move |n| format!("{agent} {n}"))).collect();
    assert!(many.len() > 4 * USER_AGENTS_CACHED);
    for agent in many.iter().chain(&many) {
        assert_eq!(cache.get_or_parse(&parser, agent), parser.parse(agent), "{agent}");
    }
}

#[test]
fn a_cache_that_is_a_quarter_full_keeps_nearly_all_agents() {
    let (matching, empty) = (UserAgentParser::from_list("Windows"), UserAgentParser::from_list(""));
    let mut cache = UserAgentCache::new();
    let agents: Vec<_> = (0..USER_AGENTS_CACHED / 4).map(|n| CHROME.replace("126", &n.to_string())).collect();
    for agent in &agents {
        cache.get_or_parse(&matching, agent);
    }
    let kept = agents.iter().filter(|agent| cache.get_or_parse(&empty, agent).is_crawler).count();
    assert!(kept * 10 > agents.len() * 8, "{kept} of {}", agents.len());
}

#[test]
fn parser_cache_and_result_stay_within_their_memory_limits() {
    assert!(UserAgentParser::new().memory_bytes() < 500_000);
    const { assert!(UserAgentCache::MEMORY_BYTES < 600_000) };
    const { assert!(size_of::<UserAgentInfo>() == 4) };
}

proptest! {
    #[test]
    fn a_cache_agrees_with_the_parser(words in proptest::collection::vec(agent(), 1..200)) {
        let parser = UserAgentParser::new();
        let mut cache = UserAgentCache::new();
        for word in &words {
            prop_assert_eq!(cache.get_or_parse(&parser, word), parser.parse(word));
        }
    }

    #[test]
    fn a_list_matches_like_a_naive_search(
        texts in proptest::collection::vec("\\^?[ab]{1,4}", 0..8),
        word in "[abc]{0,12}",
    ) {
        let parser = UserAgentParser::from_list(&texts.join("\n"));
        let expected = texts.iter().any(|text| match text.strip_prefix('^') {
            Some(start) => word.starts_with(start),
            None => word.contains(text.as_str()),
        });
        prop_assert_eq!(parser.parse(&word).is_crawler, expected);
    }
}

/// Generates agents of arbitrary characters and agents of real pieces. Some are longer than the limit.
fn agent() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Mozilla/5.0 "),
        Just("(Linux; Android 10; K) "),
        Just("Mobile "),
        Just("Safari/537.36 "),
        Just("Googlebot/2.1 "),
        Just("ø"),
    ];
    prop_oneof!["\\PC{0,40}", proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat()),]
}

const CRAWLER: UserAgentInfo =
    UserAgentInfo { is_crawler: true, device: Device::Bot, os: Os::Unknown, browser: Browser::Unknown };

fn texts(info: UserAgentInfo) -> (&'static str, &'static str, &'static str) {
    (info.device.as_str(), info.os.as_str(), info.browser.as_str())
}

/// Returns whether an agent begins like a browser and has none of the words by which robots and feed readers
/// name themselves.
fn is_plain_browser(agent: &str) -> bool {
    let robots =
        ["bot", "crawl", "spider", "slurp", "http", "fetch", "feed", "preview", "favicon", "proxy", "@", "+"];
    let lower = agent.to_lowercase();
    let begins = ["mozilla/", "opera/"].iter().any(|start| lower.starts_with(start));
    begins && !robots.iter().any(|word| lower.contains(word))
}

fn case(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(crate::harness::cases()?.join(path)).expect("a public case"))
}
