//! What a User-Agent says: whether it is a crawler, and the device, system and browser that rules may ask for.
//!
//! In comes the text of an agent, out come [`Facts`], four bytes. An agent that is empty or not known is a visitor of whom
//! nothing is known, and never a crawler. Only the first [`USER_AGENT_BYTES_MAX`] bytes count.
//!
//! [`Agents`] is built once and shared by all workers. It holds the texts of `crawlers.txt` in one automaton of 360 KB,
//! a contiguous NFA: a pass over the agent tells whether any of 1,500 texts is in it, and needs no memory to do so. The rest
//! are short lists of signs, gone through in order. The time is linear in the agent's length.
//! [`AgentTable`] is a worker's own: since the same few hundred agents come again and again, it remembers their facts by
//! their bytes, in a fixed number of slots. It allocates nothing after it was made, and it never changes an answer: a slot
//! counts only where it holds exactly the bytes that were asked for.

use crate::limits::{AGENTS_REMEMBERED, USER_AGENT_BYTES_MAX};
use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// What an agent says of who sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// True exactly where `device` is [`Device::Bot`].
    pub crawler: bool,
    pub device: Device,
    /// Unknown for a crawler: what it claims to run on is a costume.
    pub os: Os,
    /// Unknown for a crawler, as `os` is.
    pub browser: Browser,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    #[default]
    Unknown,
    Desktop,
    Mobile,
    Tablet,
    Bot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Os {
    #[default]
    Unknown,
    Android,
    ChromeOs,
    Ios,
    Linux,
    MacOs,
    Windows,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Browser {
    #[default]
    Unknown,
    Chrome,
    Edge,
    Firefox,
    InternetExplorer,
    Opera,
    Safari,
    SamsungInternet,
    Silk,
    Vivaldi,
    Yandex,
}

/// The kept list of crawlers, ready to be searched.
pub struct Agents {
    anywhere: AhoCorasick,
    at_start: Box<[Box<str>]>,
}

impl Agents {
    /// Knows the crawlers of `crawlers.txt`.
    pub fn new() -> Self {
        Self::from_list(include_str!("crawlers.txt"))
    }

    /// Knows the crawlers of `list`: one text a line, after `^` where an agent must begin with it. Lines that are empty or
    /// begin with `#` say nothing.
    ///
    /// # Panics
    /// On a list of more than 2^31 states, as no list that is compiled in can have.
    pub fn from_list(list: &str) -> Self {
        let texts = || list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let anywhere = texts().filter(|text| !text.starts_with('^'));
        let at_start = texts().filter_map(|text| text.strip_prefix('^'));
        Agents {
            anywhere: AhoCorasick::builder()
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(anywhere)
                .expect("a list that is compiled in has fewer than 2^31 states"),
            at_start: at_start.map(Box::from).collect(),
        }
    }

    /// What `user_agent` says.
    pub fn facts(&self, user_agent: &str) -> Facts {
        let agent = cut(user_agent);
        if self.is_crawler(agent) {
            return Facts { crawler: true, device: Device::Bot, ..Facts::default() };
        }
        Facts {
            crawler: false,
            device: first_of(DEVICES, agent),
            os: first_of(SYSTEMS, agent),
            browser: first_of(BROWSERS, agent),
        }
    }

    /// Bytes of memory that the list takes.
    pub fn memory_bytes(&self) -> usize {
        let starts = self.at_start.iter().map(|text| size_of_val(text) + text.len());
        self.anywhere.memory_usage() + starts.sum::<usize>()
    }

    fn is_crawler(&self, agent: &str) -> bool {
        self.anywhere.is_match(agent) || self.at_start.iter().any(|text| agent.starts_with(&**text))
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self::new()
    }
}

/// A worker's memory of agents and their facts.
pub struct AgentTable {
    slots: Box<[Slot]>,
}

impl AgentTable {
    /// Bytes of memory that one table takes, whatever it remembers.
    pub const MEMORY_BYTES: usize = AGENTS_REMEMBERED * size_of::<Slot>();

    /// Remembers nothing yet; all of its memory is taken here.
    pub fn new() -> Self {
        AgentTable { slots: vec![Slot::EMPTY; AGENTS_REMEMBERED].into_boxed_slice() }
    }

    /// What `agents` says of `agent`, or said of the same bytes before.
    pub fn facts(&mut self, agents: &Agents, agent: &str) -> Facts {
        let agent = cut(agent);
        let slot = &mut self.slots[slot_of(agent.as_bytes())];
        if slot.agent() != agent.as_bytes() {
            slot.remember(agent.as_bytes(), agents.facts(agent));
        }
        slot.facts
    }
}

impl Default for AgentTable {
    fn default() -> Self {
        Self::new()
    }
}

/// One agent and its facts. What `facts` says is true of `agent()` at all times, in an empty slot too: the empty agent says
/// nothing.
#[derive(Clone, Copy)]
struct Slot {
    facts: Facts,
    length: u16,
    bytes: [u8; USER_AGENT_BYTES_MAX],
}

impl Slot {
    const EMPTY: Slot = Slot {
        facts: Facts { crawler: false, device: Device::Unknown, os: Os::Unknown, browser: Browser::Unknown },
        length: 0,
        bytes: [0; USER_AGENT_BYTES_MAX],
    };

    fn agent(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn remember(&mut self, agent: &[u8], facts: Facts) {
        self.facts = facts;
        self.length = agent.len() as u16;
        self.bytes[..agent.len()].copy_from_slice(agent);
    }
}

/// Where an agent stands, if it is remembered. Rotate and multiply, eight bytes at a time: somebody who seeks agents that meet
/// in one slot finds them, and gains that these are looked at anew each time, as they would be without a table.
fn slot_of(agent: &[u8]) -> usize {
    let (words, rest) = agent.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().chain([&last]).fold(0u64, |hash, word| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    (hash >> (u64::BITS - AGENTS_REMEMBERED.ilog2())) as usize
}

/// The part of an agent that counts, ended where a character ends.
fn cut(agent: &str) -> &str {
    &agent[..agent.floor_char_boundary(USER_AGENT_BYTES_MAX)]
}

/// What the first sign that stands in the agent says; unknown where none does.
fn first_of<T: Copy + Default>(signs: &[(&str, T)], agent: &str) -> T {
    let found = signs.iter().find(|(sign, _)| agent.contains(sign));
    found.map(|(_, meaning)| *meaning).unwrap_or_default()
}

/// Tablets leave "Mobile" out, but for the iPad and the Fire tablets' Silk; Windows Phones claim to be all others, "Mobile"
/// included. An iPad that asks for desktop pages cannot be told from a Mac, and an Android television not from a tablet.
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

/// Windows Phones claim to be Android and iPhone, so Windows comes first; Silk runs on Android and says Linux; Android says
/// Linux too.
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

/// Everybody says Safari, most say Chrome, and those who are neither add a name of their own, so these come first. The
/// browser that Android had before Chrome says Safari, and is not: what is left on Android by then is unknown.
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

impl Device {
    /// As rules read it under `device.type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Device::Unknown => "unknown",
            Device::Desktop => "desktop",
            Device::Mobile => "mobile",
            Device::Tablet => "tablet",
            Device::Bot => "bot",
        }
    }
}

impl Os {
    /// As rules read it under `device.os`.
    pub fn as_str(self) -> &'static str {
        match self {
            Os::Unknown => "unknown",
            Os::Android => "Android",
            Os::ChromeOs => "ChromeOS",
            Os::Ios => "iOS",
            Os::Linux => "Linux",
            Os::MacOs => "macOS",
            Os::Windows => "Windows",
        }
    }
}

impl Browser {
    /// As rules read it under `device.browser`.
    pub fn as_str(self) -> &'static str {
        match self {
            Browser::Unknown => "unknown",
            Browser::Chrome => "Chrome",
            Browser::Edge => "Edge",
            Browser::Firefox => "Firefox",
            Browser::InternetExplorer => "Internet Explorer",
            Browser::Opera => "Opera",
            Browser::Safari => "Safari",
            Browser::SamsungInternet => "Samsung Internet",
            Browser::Silk => "Silk",
            Browser::Vivaldi => "Vivaldi",
            Browser::Yandex => "Yandex",
        }
    }
}
