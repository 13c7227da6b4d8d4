//! Channels: groups of the sources of visits, such as search engines and social networks.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    Direct,
    Paid,
    Email,
    Ai,
    Social,
    Search,
    Referral,
    Other,
}

impl Channel {
    /// All channels, in the order of their discriminants.
    pub(crate) const ALL: [Self; 8] = [
        Self::Direct,
        Self::Paid,
        Self::Email,
        Self::Ai,
        Self::Social,
        Self::Search,
        Self::Referral,
        Self::Other,
    ];

    /// Returns the name in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Paid => "paid",
            Self::Email => "email",
            Self::Ai => "ai",
            Self::Social => "social",
            Self::Search => "search",
            Self::Referral => "referral",
            Self::Other => "other",
        }
    }
}

/// The channels that a host, a name or a medium can decide, in the order in which they are tried.
pub(crate) const DECIDED: [Channel; 5] =
    [Channel::Paid, Channel::Email, Channel::Ai, Channel::Social, Channel::Search];

/// The media of each channel, in lower case.
const MEDIA: [(Channel, &[&str]); 4] = [
    (
        Channel::Paid,
        &[
            "cpc",
            "cpm",
            "cpa",
            "cpv",
            "cpp",
            "ppc",
            "paid",
            "paidsearch",
            "paid-search",
            "paid_search",
            "paid search",
            "paidsocial",
            "paid-social",
            "paid_social",
            "paid social",
            "retargeting",
            "display",
            "banner",
            "affiliate",
            "affiliates",
            "sponsored",
        ],
    ),
    (Channel::Email, &["email", "e-mail", "e_mail", "e mail", "newsletter"]),
    (
        Channel::Social,
        &[
            "social",
            "social-network",
            "social_network",
            "social network",
            "social-media",
            "social_media",
            "social media",
            "sm",
        ],
    ),
    (Channel::Search, &["organic"]),
];
/// The media of visits from other sites, in lower case.
const REFERRAL_MEDIA: [&str; 3] = ["referral", "link", "app"];
/// The sources that mean e-mail, in lower case.
const EMAIL_SOURCES: [&str; 6] = ["email", "e-mail", "e_mail", "e mail", "mail", "newsletter"];

/// The hosts of a channel.
#[derive(Debug, Default)]
struct Hosts {
    /// Domains. Each covers its subdomains.
    domains: HashSet<&'static str>,
    /// Domains without their last labels: `google` of `google.*`.
    prefixes: HashSet<&'static str>,
    /// The first labels of domains with two labels, which are often sources: `facebook` of `facebook.com`.
    names: HashSet<&'static str>,
}

static HOSTS: LazyLock<HashMap<Channel, Hosts>> = LazyLock::new(|| {
    let mut hosts: HashMap<Channel, Hosts> = HashMap::new();
    for (channel, entry) in entries() {
        let of_channel = hosts.entry(channel).or_default();
        match entry.strip_suffix(".*") {
            Some(prefix) => of_channel.prefixes.insert(prefix),
            None => of_channel.domains.insert(entry),
        };
        of_channel.names.extend(name_of(entry));
    }
    hosts
});

/// Iterates over the entries of the list, each with its channel.
fn entries() -> impl Iterator<Item = (Channel, &'static str)> {
    let lines =
        include_str!("channels.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut channel = Channel::Other;
    lines.filter_map(move |line| {
        let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else {
            return Some((channel, line));
        };
        channel = Channel::ALL.into_iter().find(|channel| channel.name() == name).unwrap_or(Channel::Other);
        None
    })
}

/// Returns the name of an entry with two labels.
fn name_of(entry: &'static str) -> Option<&'static str> {
    let (name, rest) = entry.split_once('.')?;
    (!rest.contains('.')).then_some(name)
}

impl Hosts {
    fn has(&self, source: &str) -> bool {
        if self.names.contains(source) {
            return true;
        }
        let starts = source.match_indices('.').map(|(dot, _)| dot + 1);
        [0].into_iter().chain(starts).any(|start| {
            let domain = &source[start..];
            // One or two labels may follow the prefix.
            let ends = domain.rmatch_indices('.').take(2);
            self.domains.contains(domain)
                || ends.into_iter().any(|(end, _)| self.prefixes.contains(&domain[..end]))
        })
    }
}

/// Returns the channels that a source decides, as a set with one bit for each of [`DECIDED`].
pub(crate) fn channels_of_source(source: &str) -> u8 {
    let source = source.to_lowercase();
    let is_email = EMAIL_SOURCES.contains(&&*source);
    set_of(|channel| {
        channel == Channel::Email && is_email || HOSTS.get(&channel).is_some_and(|hosts| hosts.has(&source))
    })
}

/// Returns the channels that a medium decides, as a set like that of [`channels_of_source`].
pub(crate) fn channels_of_medium(medium: &str) -> u8 {
    let medium = medium.to_lowercase();
    set_of(|channel| MEDIA.iter().any(|(other, media)| *other == channel && media.contains(&&*medium)))
}

/// Returns whether a medium means that a link of another site brought the visitor.
pub(crate) fn is_referral_medium(medium: &str) -> bool {
    REFERRAL_MEDIA.contains(&&*medium.to_lowercase())
}

fn set_of(has: impl Fn(Channel) -> bool) -> u8 {
    DECIDED.into_iter().enumerate().map(|(bit, channel)| u8::from(has(channel)) << bit).sum()
}

/// Returns the channel that the sets of the source and of the medium decide. `None` if they decide none.
pub(crate) fn first_decided(set: u8) -> Option<Channel> {
    DECIDED.into_iter().enumerate().find(|(bit, _)| set >> bit & 1 == 1).map(|(_, channel)| channel)
}

/// Returns the channel of a visit in SQL. The expressions are those of the source, of the medium, and of whether the source is a
/// parameter of the campaign and no host.
pub(crate) fn channel_sql(source: &str, medium: &str, is_tagged: &str) -> String {
    let list = |texts: &[&str]| texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(", ");
    let cases = DECIDED.into_iter().map(|channel| {
        let media = MEDIA.iter().find(|(other, _)| *other == channel);
        let media = media.map(|(_, media)| format!("coalesce(lower({medium}) in ({}), false)", list(media)));
        let mut names: Vec<&str> = Vec::new();
        let mut domains = Vec::new();
        for (_, entry) in entries().filter(|(other, _)| *other == channel) {
            names.extend(name_of(entry));
            domains.push(match entry.strip_suffix(".*") {
                Some(prefix) => format!("{}([.][^.]+){{1,2}}", prefix.replace('.', "[.]")),
                None => entry.replace('.', "[.]"),
            });
        }
        if channel == Channel::Email {
            names.extend(EMAIL_SOURCES);
        }
        names.sort_unstable();
        names.dedup();
        let named = (!names.is_empty()).then(|| format!("lower({source}) in ({})", list(&names)));
        let hosts = (!domains.is_empty())
            .then(|| format!("regexp_matches(lower({source}), '(^|[.])({})$')", domains.join("|")));
        let any: Vec<String> = media.into_iter().chain(named).chain(hosts).collect();
        format!("when {} then '{}'", any.join(" or "), channel.name())
    });
    let cases: Vec<String> = cases.collect();
    format!(
        "case when {source} is null then null {} when {source} = '(direct)' and {medium} is null then 'direct'
  when not {is_tagged} and {source} <> '(direct)' or coalesce(lower({medium}) in ({}), false) then 'referral' else 'other' end",
        cases.join("\n  "),
        list(&REFERRAL_MEDIA)
    )
}
