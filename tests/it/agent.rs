//! What a User-Agent says, by real crawlers, real traffic, and well-known browsers.
//!

use parallax::limits::{AGENTS_REMEMBERED, USER_AGENT_BYTES_MAX};
use parallax::resolve::user_agent::{AgentTable, Agents, Browser, Device, Facts, Os};
use proptest::prelude::*;

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

/// Device, system and browser as texts, and the agent that says so.
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

/// Programs that fetch for others: the list's own patterns of them, and what they send.
const FETCHERS: &[(&str, &[&str])] = &[
    ("^curl", &["curl", "curl/8.5.0"]),
    ("[wW]get", &["Wget/1.21", "Wget/1.21.4 (linux-gnu)"]),
    ("axios", &["axios/1.7.2"]),
    ("node-fetch", &["node-fetch", "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)"]),
    ("undici", &["undici", "node"]),
    ("Go-http-client", &["Go-http-client/1.1", "Go-http-client/2.0"]),
    ("python-requests", &["python-requests/2.32.3"]),
    ("Python-urllib", &["Python-urllib/3.11"]),
    ("okhttp", &["okhttp/4.12.0"]),
    ("^Apache-HttpClient", &["Apache-HttpClient/4.5 (Java/17)"]),
    ("Amazon CloudFront", &["Amazon CloudFront"]),
    (
        "HeadlessChrome",
        &[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36",
        ],
    ),
];

#[test]
fn every_known_crawler_is_told_but_for_programs_that_fetch_for_others() {
    let Some(text) = case("crawler-user-agents/crawlers.json") else {
        return;
    };
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let agents = Agents::new();
    let mut told = 0;
    for entry in list.as_array().unwrap() {
        let pattern = entry["pattern"].as_str().unwrap();
        if FETCHERS.iter().any(|(fetcher, _)| *fetcher == pattern) {
            continue;
        }
        for instance in entry["instances"].as_array().unwrap() {
            let instance = instance.as_str().unwrap();
            assert_eq!(agents.facts(instance), CRAWLER, "{pattern}: {instance}");
            told += 1;
        }
    }
    assert!(told > 1900, "only {told} instances were found");
}

#[test]
fn browsers_in_the_traffic_of_a_real_site_are_not_crawlers() {
    let Some(text) = case("apache-access-log/requests.tsv") else {
        return;
    };
    let agents = Agents::new();
    let mut requests = 0;
    for agent in text.lines().skip(1).map(|line| line.rsplit('\t').next().unwrap()) {
        if is_plain_browser(agent) {
            assert!(!agents.facts(agent).crawler, "{agent}");
            requests += 1;
        }
    }
    assert!(requests > 1500, "only {requests} requests of browsers were found");
}

#[test]
fn programs_that_fetch_for_others_are_not_crawlers() {
    let agents = Agents::new();
    for agent in FETCHERS.iter().flat_map(|(_, sent)| *sent) {
        let facts = agents.facts(agent);
        assert!(!facts.crawler && facts.device != Device::Bot, "{agent}");
    }
}

#[test]
fn crawlers_that_resemble_programs_and_browsers_are_told() {
    let agents = Agents::new();
    for agent in [
        "WGETbot/1.0 (+http://wget.alanreed.org)",
        "PHP-Curl-Class/4.13.0 (+https://github.com/php-curl-class/php-curl-class) PHP/7.2.24 curl/7.61.1",
        "Silk/1.0 (+http://www.slider.com/silk.htm)",
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    ] {
        assert_eq!(agents.facts(agent), CRAWLER, "{agent}");
    }
}

#[test]
fn an_agent_that_says_nothing_is_a_visitor_of_whom_nothing_is_known() {
    for agent in ["", "-", " ", "Mozilla/5.0", "ångström\u{0}"] {
        assert_eq!(Agents::new().facts(agent), Facts::default(), "{agent:?}");
    }
    assert_eq!(texts(Facts::default()), ("unknown", "unknown", "unknown"));
}

#[test]
fn well_known_browsers_say_device_system_and_browser() {
    let agents = Agents::new();
    for &(device, os, browser, agent) in BROWSERS {
        let facts = agents.facts(agent);
        assert_eq!((texts(facts), facts.crawler), ((device, os, browser), false), "{agent}");
    }
}

#[test]
fn a_list_tells_by_texts_anywhere_and_at_the_start_and_skips_remarks() {
    let agents = Agents::from_list("# Remark\n\nFinder\n^Lister/\n spaced\n");
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
        assert_eq!(agents.facts(agent).crawler, crawler, "{agent}");
    }
}

#[test]
fn what_stands_past_the_limit_is_not_looked_at() {
    let agents = Agents::new();
    let sign = "Googlebot/";
    for (ends_at, crawler) in
        [(USER_AGENT_BYTES_MAX - 1, true), (USER_AGENT_BYTES_MAX, true), (USER_AGENT_BYTES_MAX + 1, false)]
    {
        let agent = format!("{:x<1$}{sign}", "", ends_at - sign.len());
        assert_eq!(agents.facts(&agent).crawler, crawler, "ends at {ends_at}");
        assert_eq!(AgentTable::new().facts(&agents, &agent).crawler, crawler, "ends at {ends_at}");
    }
}

#[test]
fn a_character_that_the_limit_would_split_goes_with_what_comes_after() {
    let agents = Agents::from_list("xØ");
    for (ends_at, crawler) in
        [(USER_AGENT_BYTES_MAX - 1, true), (USER_AGENT_BYTES_MAX, true), (USER_AGENT_BYTES_MAX + 1, false)]
    {
        let agent = format!("{:x<1$}Ø and so on", "", ends_at - "Ø".len());
        assert_eq!(AgentTable::new().facts(&agents, &agent).crawler, crawler, "ends at {ends_at}");
    }
}

#[test]
fn the_table_remembers_what_was_said_of_an_agent() {
    let mut table = AgentTable::new();
    let knowing = Agents::from_list("Windows");
    let ignorant = Agents::from_list("");
    assert!(table.facts(&knowing, CHROME).crawler);
    assert!(table.facts(&ignorant, CHROME).crawler);
    assert!(!AgentTable::new().facts(&ignorant, CHROME).crawler);
}

#[test]
fn agents_that_share_a_slot_do_not_mix() {
    let agents = Agents::new();
    let mut table = AgentTable::new();
    let real = BROWSERS.iter().map(|browser| browser.3).chain(["Googlebot/2.1", "curl/8.5.0", ""]);
    let many: Vec<_> = real.flat_map(|agent| (0..200).map(move |n| format!("{agent} {n}"))).collect();
    assert!(many.len() > 4 * AGENTS_REMEMBERED);
    for agent in many.iter().chain(&many) {
        assert_eq!(table.facts(&agents, agent), agents.facts(agent), "{agent}");
    }
}

#[test]
fn a_table_keeps_nearly_all_of_as_many_agents_as_fill_a_quarter_of_it() {
    let (knowing, ignorant) = (Agents::from_list("Windows"), Agents::from_list(""));
    let mut table = AgentTable::new();
    let agents: Vec<_> = (0..AGENTS_REMEMBERED / 4).map(|n| CHROME.replace("126", &n.to_string())).collect();
    for agent in &agents {
        table.facts(&knowing, agent);
    }
    let kept = agents.iter().filter(|agent| table.facts(&ignorant, agent).crawler).count();
    assert!(kept * 10 > agents.len() * 8, "{kept} of {}", agents.len());
}

#[test]
fn lists_tables_and_facts_keep_to_their_share_of_memory() {
    assert!(Agents::new().memory_bytes() < 500_000);
    const { assert!(AgentTable::MEMORY_BYTES < 600_000) };
    const { assert!(size_of::<Facts>() == 4) };
}

proptest! {
    #[test]
    fn a_table_says_what_the_list_says(words in proptest::collection::vec(agent(), 1..200)) {
        let agents = Agents::new();
        let mut table = AgentTable::new();
        for word in &words {
            prop_assert_eq!(table.facts(&agents, word), agents.facts(word));
        }
    }

    #[test]
    fn a_list_tells_as_a_search_text_by_text_does(
        texts in proptest::collection::vec("\\^?[ab]{1,4}", 0..8),
        word in "[abc]{0,12}",
    ) {
        let agents = Agents::from_list(&texts.join("\n"));
        let told = texts.iter().any(|text| match text.strip_prefix('^') {
            Some(start) => word.starts_with(start),
            None => word.contains(text.as_str()),
        });
        prop_assert_eq!(agents.facts(&word).crawler, told);
    }
}

/// Agents of any characters, some longer than the limit, and pieces of real ones.
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

const CRAWLER: Facts =
    Facts { crawler: true, device: Device::Bot, os: Os::Unknown, browser: Browser::Unknown };

fn texts(facts: Facts) -> (&'static str, &'static str, &'static str) {
    (facts.device.as_str(), facts.os.as_str(), facts.browser.as_str())
}

/// Begins as a browser does, and has none of the words by which robots and readers of feeds make themselves known.
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
