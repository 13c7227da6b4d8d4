//! The file of `--access`: TOML with tokens, people and groups.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use jiff::civil::{Date, date};
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use super::caller::{ActorKind, Caller, Grant, Sites};
use super::role::Role;
use super::token::token_hash;
use crate::checksum::sha256;
use crate::limits::SITE_ID_BYTES_MAX;
use crate::limits::access::{ACCESS_ENTRIES_MAX, ACCESS_GROUPS_MAX, ACCESS_NAME_BYTES_MAX, ACCESS_SITES_MAX};

/// The name of all sites.
const ALL_SITES: &str = "*";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const EPOCH: Date = date(1970, 1, 1);
/// Characters of a digest: enough to tell the contents of a file apart.
const DIGEST_CHARS: usize = 16;

/// The tokens, people and groups of a file.
#[derive(Debug, Default)]
pub(crate) struct AccessFile {
    /// The beginning of the SHA-256 of the text.
    digest: String,
    tokens: BTreeMap<[u8; 32], Token>,
    /// By name in lower case.
    users: BTreeMap<String, Vec<Grant>>,
    groups: BTreeMap<String, Vec<Grant>>,
}

#[derive(Debug)]
struct Token {
    name: String,
    grant: Grant,
    /// The first millisecond at which the token does not count.
    ends_at_ms: Option<i64>,
}

/// The kind of an entry, and its name.
type EntryName<'f> = (&'static str, &'f str);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<Spanned<TokenEntry>>,
    #[serde(default)]
    user: Vec<Spanned<PersonEntry>>,
    #[serde(default)]
    group: Vec<Spanned<PersonEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    role: Role,
    sites: Vec<String>,
    expires: Option<Datetime>,
    hash: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PersonEntry {
    #[serde(rename = "match")]
    name: String,
    role: Role,
    sites: Vec<String>,
}

impl AccessFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// An entry is invalid. The text begins with the separator after the name of the file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let at = |offset: usize, error: String| {
            let line = 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
            format!(":{line}: {error}")
        };
        let document: Document = toml::from_str(text).map_err(|error| {
            at(error.span().map_or(0, |span| span.start), error.message().replace('\n', "; "))
        })?;
        let count = document.token.len() + document.user.len() + document.group.len();
        if count > ACCESS_ENTRIES_MAX {
            return Err(format!(" has {count} entries, and at most {ACCESS_ENTRIES_MAX} are allowed"));
        }
        let digest = token_hash(text.as_bytes())[..DIGEST_CHARS].to_owned();
        let mut file = Self { digest, ..Self::default() };
        let mut names = BTreeSet::new();
        for entry in document.token {
            let start = entry.span().start;
            if !names.insert(entry.get_ref().name.clone()) {
                let name = &entry.get_ref().name;
                return Err(at(start, format!("two tokens have the name {name:?}; give each another one")));
            }
            file.add_token(entry.into_inner()).map_err(|error| at(start, error))?;
        }
        for (entries, people) in [(document.user, &mut file.users), (document.group, &mut file.groups)] {
            for entry in entries {
                let start = entry.span().start;
                add_person(people, entry.into_inner()).map_err(|error| at(start, error))?;
            }
        }
        Ok(file)
    }

    fn add_token(&mut self, entry: TokenEntry) -> Result<(), String> {
        check_name("name", &entry.name)?;
        let mut hash = [0; 32];
        if entry.hash.len() != 64 || HEXLOWER.decode_mut(entry.hash.as_bytes(), &mut hash).is_err() {
            return Err("hash must be the SHA-256 of a token, 64 digits of 0-9 a-f, as `parallax token new` prints it".to_owned());
        }
        let grant = grant_of(entry.role, entry.sites)?;
        let ends_at_ms = entry.expires.map(end_of_day).transpose()?;
        let token = Token { name: entry.name, grant, ends_at_ms };
        match self.tokens.insert(hash, token) {
            Some(other) => Err(format!("the token {:?} has the same hash", other.name)),
            None => Ok(()),
        }
    }

    /// Returns a digest of the file, empty without one.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the entries that differ from those of an earlier file, each in words: "removed token dashboards".
    pub(crate) fn changes_since(&self, earlier: &Self) -> Vec<String> {
        let [before, now] = [earlier, self].map(Self::entries);
        let names: BTreeSet<_> = before.keys().chain(now.keys()).copied().collect();
        let change = |entry: EntryName<'_>| {
            let verb = match (before.get(&entry), now.get(&entry)) {
                (None, _) => "added",
                (_, None) => "removed",
                (before, now) if before == now => return None,
                _ => "changed",
            };
            let (kind, name) = entry;
            Some(format!("{verb} {kind} {name}"))
        };
        names.into_iter().filter_map(change).collect()
    }

    /// Returns the kind and the name of each entry, with its content.
    fn entries(&self) -> BTreeMap<EntryName<'_>, String> {
        let tokens =
            self.tokens.iter().map(|(hash, token)| (("token", &*token.name), format!("{hash:?} {token:?}")));
        let users = self.users.iter().map(|(name, grants)| (("user", &**name), format!("{grants:?}")));
        let groups = self.groups.iter().map(|(name, grants)| (("group", &**name), format!("{grants:?}")));
        tokens.chain(users).chain(groups).collect()
    }

    /// Returns the number of tokens, of people and of groups.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.tokens.len(), self.users.len(), self.groups.len()]
    }

    /// Returns the client that has a token, if the token counts at `now_ms`.
    pub(crate) fn caller_with_token(&self, token: &[u8], now_ms: i64) -> Option<Caller> {
        // The map compares hashes. Their order tells nothing about a token that is not known.
        let token = self.tokens.get(&sha256(token))?;
        let counts = token.ends_at_ms.is_none_or(|ends_at_ms| now_ms < ends_at_ms);
        counts.then(|| Caller::new(ActorKind::Token, &token.name, vec![token.grant.clone()]))
    }

    /// Returns a person that a proxy names, with the grants of the person and of its groups. `None` without a grant.
    pub(crate) fn person<'g>(&self, name: &str, groups: impl Iterator<Item = &'g str>) -> Option<Caller> {
        if name.is_empty() || name.len() > ACCESS_NAME_BYTES_MAX {
            return None;
        }
        let groups = groups.take(ACCESS_GROUPS_MAX).map(str::to_lowercase);
        let of_groups = groups.filter_map(|group| self.groups.get(&group));
        let own = self.users.get(&name.to_lowercase());
        let grants: Vec<Grant> = own.into_iter().chain(of_groups).flatten().cloned().collect();
        (!grants.is_empty()).then(|| Caller::new(ActorKind::User, name, grants))
    }
}

fn add_person(people: &mut BTreeMap<String, Vec<Grant>>, entry: PersonEntry) -> Result<(), String> {
    check_name("match", &entry.name)?;
    let grant = grant_of(entry.role, entry.sites)?;
    people.entry(entry.name.to_lowercase()).or_default().push(grant);
    Ok(())
}

/// Checks a name that a header and a line of the audit log can have.
fn check_name(member: &str, name: &str) -> Result<(), String> {
    let is_valid = (1..=ACCESS_NAME_BYTES_MAX).contains(&name.len())
        && name.trim() == name
        && !name.chars().any(|character| character.is_control() || character == ',');
    match is_valid {
        true => Ok(()),
        false => Err(format!(
            "{member} {name:?} must have 1 to {ACCESS_NAME_BYTES_MAX} bytes, no comma, and no blank at its ends"
        )),
    }
}

fn grant_of(role: Role, sites: Vec<String>) -> Result<Grant, String> {
    if sites.is_empty() || sites.len() > ACCESS_SITES_MAX {
        return Err(format!(
            "sites has {} entries; write 1 to {ACCESS_SITES_MAX} site IDs, or [\"*\"] for all sites",
            sites.len()
        ));
    }
    let sites = match sites.iter().any(|site| site == ALL_SITES) {
        true => Sites::All,
        false => Sites::Listed(
            sites.into_iter().map(|site| check_site(site).map(Into::into)).collect::<Result<_, _>>()?,
        ),
    };
    if role == Role::Operator && sites != Sites::All {
        return Err(
            "the role operator is one for all sites; write sites = [\"*\"], or choose the role privacy"
                .to_owned(),
        );
    }
    Ok(Grant { role, sites })
}

fn check_site(site: String) -> Result<String, String> {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match (1..=SITE_ID_BYTES_MAX).contains(&site.len()) && site.bytes().all(is_character) {
        true => Ok(site),
        false => {
            Err(format!("{site:?} is no site ID; a site ID has 1 to {SITE_ID_BYTES_MAX} of A-Z a-z 0-9 _ -"))
        }
    }
}

/// Returns the end of a day in UTC: a token counts on the day that it names.
fn end_of_day(expires: Datetime) -> Result<i64, String> {
    let wrong = || format!("expires {expires} must be a day, such as 2027-01-31");
    let day = expires.date.filter(|_| expires.time.is_none()).ok_or_else(wrong)?;
    // A TOML date has at most four digits of a year, so they fit.
    let day = Date::new(day.year as i16, day.month as i8, day.day as i8).map_err(|_| wrong())?;
    Ok(i64::from((day - EPOCH).get_days() + 1) * DAY_MS)
}
