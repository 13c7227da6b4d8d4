//! User-Agent parsing: detects crawlers, and the device, operating system and browser that rules can read.
//!
//! The input is the text of a User-Agent, the output is a [`UserAgentInfo`] of four bytes. An empty or
//! unknown User-Agent gives no information, and never counts as a crawler. Only the first
//! [`USER_AGENT_BYTES_MAX`] bytes are examined.
//!
//! One [`UserAgentParser`] is shared by all workers. It holds the texts of `crawlers.txt` and the general signs of
//! [`super::crawlers`] in one automaton of 380 KB, a contiguous NFA. One pass over a User-Agent finds whether it
//! contains any of 1,700 texts, without allocating. The other checks are short lists of signs, tried in order. The
//! time is linear in the length of the User-Agent.
//!
//! Each worker has its own [`UserAgentCache`], because the same few hundred User-Agents account for most
//! requests. The cache maps their bytes to their information in a fixed number of slots. It allocates only
//! when it is created. It never changes a result: a slot counts only if it holds exactly the same bytes.

use super::crawlers::Crawlers;
use crate::limits::USER_AGENT_BYTES_MAX;
pub use crate::record::{Browser, Device, Os, UserAgentInfo};

/// Number of User-Agents that a worker caches. Must be a power of two. A further one replaces another.
/// Browsers freeze their User-Agents, so a few hundred account for nearly all traffic of a site. Takes 0.5
/// MiB per worker.
pub const USER_AGENTS_CACHED: usize = 1024;

/// A parser of User-Agents with a compiled list of crawlers.
pub struct UserAgentParser {
    crawlers: Crawlers,
}

impl UserAgentParser {
    /// Creates a parser with the crawlers of `crawlers.txt` and all general signs of crawlers.
    pub fn new() -> Self {
        Self { crawlers: Crawlers::with_signs(include_str!("crawlers.txt")) }
    }

    /// Creates a parser with the crawlers of `crawler_list`. Each line is one text to search for. A `^` before it
    /// means that a User-Agent must begin with the text. Empty lines and lines that begin with `#` are
    /// ignored.
    ///
    /// # Panics
    /// On a list with more than 2^31 automaton states. No compiled-in list is that large.
    pub fn from_list(crawler_list: &str) -> Self {
        Self { crawlers: Crawlers::of_names(crawler_list) }
    }

    /// Parses a User-Agent.
    pub fn parse(&self, user_agent: &str) -> UserAgentInfo {
        let agent = truncate(user_agent);
        if self.crawlers.contains(agent) {
            return UserAgentInfo::CRAWLER;
        }
        UserAgentInfo {
            is_crawler: false,
            device: first_match(DEVICES, agent),
            os: first_match(SYSTEMS, agent),
            browser: first_match(BROWSERS, agent),
        }
    }

    /// Returns the memory of the crawler list in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.crawlers.memory_bytes()
    }
}

impl Default for UserAgentParser {
    fn default() -> Self {
        Self::new()
    }
}

/// A worker's cache of parsed User-Agents.
pub struct UserAgentCache {
    slots: Box<[Slot]>,
}

impl UserAgentCache {
    /// Memory of one cache in bytes. It does not depend on the content.
    pub const MEMORY_BYTES: usize = USER_AGENTS_CACHED * size_of::<Slot>();

    /// Creates an empty cache and allocates all of its memory.
    pub fn new() -> Self {
        UserAgentCache { slots: vec![Slot::EMPTY; USER_AGENTS_CACHED].into_boxed_slice() }
    }

    /// Returns the information of `user_agent` as [`Self::get_or_parse`] does. Other bytes than UTF-8 give no
    /// information. Cached bytes are UTF-8, so that only others are validated.
    pub(crate) fn get_or_parse_bytes(
        &mut self,
        user_agent_parser: &UserAgentParser,
        user_agent: &[u8],
    ) -> UserAgentInfo {
        let slot = &self.slots[slot_index(user_agent)];
        if slot.agent() == user_agent {
            return slot.info;
        }
        let user_agent = std::str::from_utf8(user_agent).unwrap_or_default();
        self.get_or_parse(user_agent_parser, user_agent)
    }

    /// Returns the cached result for `user_agent`, or parses it and caches the result.
    pub fn get_or_parse(&mut self, user_agent_parser: &UserAgentParser, user_agent: &str) -> UserAgentInfo {
        let user_agent = truncate(user_agent);
        let slot = &mut self.slots[slot_index(user_agent.as_bytes())];
        if slot.agent() != user_agent.as_bytes() {
            slot.store(user_agent.as_bytes(), user_agent_parser.parse(user_agent));
        }
        slot.info
    }
}

impl Default for UserAgentCache {
    fn default() -> Self {
        Self::new()
    }
}

/// A slot of the cache: one User-Agent and its parsed information. The information always belongs to
/// `agent()`, in an empty slot too: it holds the empty User-Agent, which gives no information.
#[derive(Clone, Copy)]
struct Slot {
    info: UserAgentInfo,
    length: u16,
    bytes: [u8; USER_AGENT_BYTES_MAX],
}

impl Slot {
    const EMPTY: Slot = Slot {
        info: UserAgentInfo {
            is_crawler: false,
            device: Device::Unknown,
            os: Os::Unknown,
            browser: Browser::Unknown,
        },
        length: 0,
        bytes: [0; USER_AGENT_BYTES_MAX],
    };

    fn agent(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn store(&mut self, user_agent: &[u8], agent_info: UserAgentInfo) {
        self.info = agent_info;
        self.length = user_agent.len() as u16;
        self.bytes[..user_agent.len()].copy_from_slice(user_agent);
    }
}

/// Returns the only slot that may hold this User-Agent. The hash rotates and multiplies eight bytes at a
/// time. An attacker can find colliding User-Agents, but only makes the worker parse them each time, as it
/// would without a cache.
fn slot_index(user_agent: &[u8]) -> usize {
    let (words, rest) = user_agent.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().chain([&last]).fold(0u64, |hash, word| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    (hash >> (u64::BITS - USER_AGENTS_CACHED.ilog2())) as usize
}

/// Returns the examined part of a User-Agent, which ends at a character boundary.
fn truncate(user_agent: &str) -> &str {
    &user_agent[..user_agent.floor_char_boundary(USER_AGENT_BYTES_MAX)]
}

/// Returns the meaning of the first sign that the User-Agent contains, or `Unknown`.
fn first_match<T: Copy + Default>(signs: &[(&str, T)], user_agent: &str) -> T {
    let found = signs.iter().find(|(sign, _)| user_agent.contains(sign));
    found.map(|(_, meaning)| *meaning).unwrap_or_default()
}

/// Signs of a device, in the order in which they are tried. Tablets omit "Mobile", except for the iPad and
/// the Silk browser of Fire tablets. Windows Phones claim to be all other devices, and include "Mobile". An
/// iPad that requests desktop pages looks like a Mac, and an Android television like a tablet.
const DEVICES: &[(&str, Device)] = &[
    ("iPad", Device::Tablet),
    ("Silk/", Device::Tablet),
    ("Mobile", Device::Mobile),
    ("iPhone", Device::Mobile),
    ("iPod", Device::Mobile),
    ("Opera Mini", Device::Mobile),
    ("Android", Device::Tablet),
    ("Windows", Device::Desktop),
    ("Macintosh", Device::Desktop),
    ("CrOS", Device::Desktop),
    ("X11", Device::Desktop),
];

/// Signs of an operating system, in the order in which they are tried. Windows is first, because Windows
/// Phones claim to be Android and iPhone. Silk runs on Android and says Linux, and Android says Linux too.
const SYSTEMS: &[(&str, Os)] = &[
    ("Windows", Os::Windows),
    ("iPhone", Os::Ios),
    ("iPad", Os::Ios),
    ("iPod", Os::Ios),
    ("Android", Os::Android),
    ("Silk/", Os::Android),
    ("CrOS", Os::ChromeOs),
    ("Macintosh", Os::MacOs),
    ("Linux", Os::Linux),
];

/// Signs of a browser, in the order in which they are tried. All browsers say Safari and most say Chrome. The
/// others add a name of their own, so these names are first. The browser of Android before Chrome says Safari
/// too, but is a different one. So an Android browser without any of the names above is unknown.
const BROWSERS: &[(&str, Browser)] = &[
    ("Edg/", Browser::Edge),
    ("EdgA/", Browser::Edge),
    ("EdgiOS/", Browser::Edge),
    ("Edge/", Browser::Edge),
    ("OPR/", Browser::Opera),
    ("OPT/", Browser::Opera),
    ("Opera", Browser::Opera),
    ("SamsungBrowser/", Browser::SamsungInternet),
    ("Vivaldi/", Browser::Vivaldi),
    ("YaBrowser/", Browser::Yandex),
    ("Silk/", Browser::Silk),
    ("Firefox/", Browser::Firefox),
    ("FxiOS/", Browser::Firefox),
    ("MSIE ", Browser::InternetExplorer),
    ("Trident/", Browser::InternetExplorer),
    ("CriOS/", Browser::Chrome),
    ("Chrome/", Browser::Chrome),
    ("Chromium/", Browser::Chrome),
    ("Android", Browser::Unknown),
    ("Safari/", Browser::Safari),
];
