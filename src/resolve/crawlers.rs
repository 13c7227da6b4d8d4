//! Detection of crawlers in a User-Agent: the names of `crawlers.txt`, and general signs of programs.
//!
//! One pass of an automaton over a User-Agent finds names and signs. A name decides at once. A sign is a guess, so
//! its surroundings are examined: its border, the devices and apps that contain it, and the system that the
//! User-Agent names. A browser of a visitor has no sign, so it takes the one pass alone.

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Input, Match};

/// A list of crawlers, compiled into one automaton.
pub(super) struct Crawlers {
    /// The names, and after them the signs.
    texts: NFA,
    names: usize,
    signs: Box<[Sign]>,
    at_start: Box<[Box<str>]>,
}

/// The condition under which a sign means a crawler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A text that no browser has.
    Text,
    /// A word by which crawlers call themselves. No letter of the same word follows it.
    Word,
    /// A word for the task of a program. It may also be in the name of an app, so the User-Agent names no mobile
    /// system.
    Task,
    /// The contact of an operator. The User-Agent names no system, and is not that of an app for feeds or podcasts.
    Contact,
}

/// Texts that no browser has: an address for complaints, a comment after "like Gecko", an attack, and a product that
/// declares compatibility. See [`EXCEPTIONS`].
const TEXTS: &[&str] =
    &["+http", "+mailto:", "${jndi:", "User Agent", "UserAgent", "like Gecko; ", "(compatible; "];

/// Words by which crawlers call themselves.
const WORDS: &[&str] = &["bot", "bots", "spider", "spiders", "crawl", "crawler", "crawlers", "crawling"];

/// Words for the tasks of programs that request pages without a visitor.
const TASKS: &[&str] = &[
    "analyzer",
    "archiver",
    "audit",
    "check",
    "checker",
    "collector",
    "diagnostics",
    "domains",
    "expander",
    "extractor",
    "fetch",
    "fetcher",
    "indexer",
    "inspector",
    "lookup",
    "monitor",
    "monitoring",
    "preview",
    "probe",
    "prober",
    "radar",
    "recon",
    "research",
    "resolver",
    "scan",
    "scanner",
    "scans",
    "scraper",
    "search",
    "searcher",
    "security",
    "sitemap",
    "subscriber",
    "subscribers",
    "survey",
    "thumbnails",
    "uptime",
    "validator",
    "verification",
    "verifier",
    "webrender",
];

/// Parts of a URL or an e-mail address.
const CONTACTS: &[&str] = &["://", "@"];

/// Names of devices and apps, in lower case, that contain a sign.
const EXCEPTIONS: &[&str] = &[
    // A maker of phones.
    "cubot",
    // Old browsers and devices. Most crawlers call themselves compatible too.
    "(compatible; gecko",
    "(compatible; konqueror",
    "(compatible; linux",
    "(compatible; ms-office",
    "(compatible; msie",
    "(compatible; ncbrowser",
    "(compatible; netpositive",
    "(compatible; offbyone",
    "(compatible; smartphone",
    "(compatible; tablet",
    "(compatible; u;",
    "(compatible; windows",
    "(compatible; x11",
    // Players of podcasts that name their site as crawlers do.
    "://bullhorn.fm",
    "+http://bullhorn.fm",
    "+http://gpodder.org",
    "+http://juicereceiver",
    // The calendar of a locale.
    "@calendar",
];

/// Signs of a mobile system, or of an app of Apple.
const APP_SYSTEMS: &[&str] = &["Android", "CFNetwork", "Dalvik/", "iPad", "iPhone"];

/// Signs of any other system.
const OTHER_SYSTEMS: &[&str] = &["Darwin", "Linux", "Mac", "Win", "iOS", "macOS"];

/// Parts of the names of apps for feeds and podcasts, which often name their site.
const READERS: &[&str] = &["Feed", "Pod", "RSS", "Reader", "Rss", "castero", "feed", "pod"];

impl Crawlers {
    /// Compiles the names of `crawler_list`, see [`super::user_agent::UserAgentParser::from_list`].
    pub(super) fn of_names(crawler_list: &str) -> Self {
        Self::new(crawler_list, &[])
    }

    /// Compiles the names of `crawler_list` and all signs.
    pub(super) fn with_signs(crawler_list: &str) -> Self {
        let plain = |texts: &[&str], sign| texts.iter().map(|text| ((*text).to_owned(), sign)).collect();
        let spelt = |words: &[&str], sign| {
            let spellings = |word: &&str| spellings(word).map(|spelling| (spelling, sign));
            words.iter().flat_map(spellings).collect()
        };
        let signs: [Vec<_>; 4] = [
            plain(TEXTS, Sign::Text),
            spelt(WORDS, Sign::Word),
            spelt(TASKS, Sign::Task),
            plain(CONTACTS, Sign::Contact),
        ];
        Self::new(crawler_list, &signs.concat())
    }

    fn new(crawler_list: &str, signs: &[(String, Sign)]) -> Self {
        let lines = || crawler_list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let names: Vec<_> = lines().filter(|line| !line.starts_with('^')).collect();
        let at_start = lines().filter_map(|line| line.strip_prefix('^'));
        let texts = names.iter().copied().chain(signs.iter().map(|(text, _)| text.as_str()));
        Self {
            texts: NFA::new(texts).expect("the compiled-in list has fewer than 2^31 states"),
            names: names.len(),
            signs: signs.iter().map(|(_, sign)| *sign).collect(),
            at_start: at_start.map(Box::from).collect(),
        }
    }

    /// Returns whether a User-Agent belongs to a crawler.
    pub(super) fn contains(&self, user_agent: &str) -> bool {
        let mut found = self
            .texts
            .try_find_overlapping_iter(Input::new(user_agent))
            .expect("the automaton has the standard kind of matches");
        found.any(|found| self.is_crawler(user_agent, found))
            || self.at_start.iter().any(|text| user_agent.starts_with(&**text))
    }

    /// Returns the memory of the list in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let starts = self.at_start.iter().map(|text| size_of_val(text) + text.len());
        self.texts.memory_usage() + self.signs.len() + starts.sum::<usize>()
    }

    fn is_crawler(&self, user_agent: &str, sign_match: Match) -> bool {
        let Some(index) = sign_match.pattern().as_usize().checked_sub(self.names) else { return true };
        let is_a = |signs: &[&str]| signs.iter().any(|sign| user_agent.contains(sign));
        let is_meant = match self.signs[index] {
            Sign::Text => true,
            Sign::Word => ends_word(user_agent, sign_match),
            Sign::Task => ends_word(user_agent, sign_match) && !is_a(APP_SYSTEMS),
            Sign::Contact => !is_a(APP_SYSTEMS) && !is_a(OTHER_SYSTEMS) && !is_a(READERS),
        };
        is_meant && !is_exception(user_agent.as_bytes(), sign_match)
    }
}

/// Returns a word in lower case, with a capital, and in upper case.
fn spellings(word: &str) -> [String; 3] {
    let capital = word[..1].to_ascii_uppercase() + &word[1..];
    [word.to_owned(), capital, word.to_ascii_uppercase()]
}

/// Returns whether a word ends where it was found: no lower-case letter follows, and no upper-case letter if the
/// word is in upper case. So `Bot` ends in `BotCollector`, but not in `Bottle`, and `BOT` does not end in `BOTTLE`.
fn ends_word(user_agent: &str, sign_match: Match) -> bool {
    let bytes = user_agent.as_bytes();
    let is_upper = bytes[sign_match.end() - 1].is_ascii_uppercase();
    let continues = |next: &u8| next.is_ascii_lowercase() || (is_upper && next.is_ascii_uppercase());
    !bytes.get(sign_match.end()).is_some_and(continues)
}

/// Returns whether the text that was found is a part of an exception.
fn is_exception(user_agent: &[u8], sign_match: Match) -> bool {
    let covers = |exception: &&str| {
        let first = sign_match.end().saturating_sub(exception.len());
        let mut starts = first..=sign_match.start();
        starts.any(|at| {
            let text = user_agent.get(at..at + exception.len());
            text.is_some_and(|text| text.eq_ignore_ascii_case(exception.as_bytes()))
        })
    };
    EXCEPTIONS.iter().any(covers)
}
