//! Profile reads: from the table of visitors, of the one profile that the host gives, or of the one in a visitor token.

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::rc::Rc;

use super::apply::KeyHasher;
use super::live::SharedTable;
use super::profile::profile::{Profile, decode_alias, decode_enrolments};
use super::store::table::{Key, Table};
use crate::clock;
use crate::record::IdKind;
use crate::visitor_keys::SiteKeys;
use crate::visitor_token::{TokenError, TokenOwner, open};

/// The key of the only profile.
const ONLY_KEY: Key = Key([0; 2]);

/// A reader of profiles. Its clones read the same ones.
#[derive(Clone)]
pub struct ProfileReader(Source);

#[derive(Clone)]
enum Source {
    /// The encoded profile of each visitor. Empty: the visitor is new.
    Only(Rc<RefCell<Vec<u8>>>),
    Table(SharedTable, KeyHasher),
    Token(Rc<TokenReader>),
}

/// A reader of the profile in the token of a visitor.
struct TokenReader {
    keys: SiteKeys,
    facts_hash: u64,
    /// Empty: the visitor is new.
    token: RefCell<String>,
    /// The reason why the token did not count in the last decision.
    error: Cell<Option<TokenError>>,
}

impl TokenReader {
    /// Opens the token for the ID that a request names. The profile is empty for a new visitor.
    fn open(&self, owner: TokenOwner<'_>) -> Vec<u8> {
        let token = self.token.borrow();
        if token.is_empty() {
            return Vec::new();
        }
        open(&self.keys, owner, self.facts_hash, &token, clock::now_s()).unwrap_or_else(|error| {
            self.error.set(Some(error));
            Vec::new()
        })
    }
}

/// The profiles, for one request.
pub struct PinnedProfiles<'l>(Pinned<'l>);

enum Pinned<'l> {
    Only(Ref<'l, Vec<u8>>),
    Table(Ref<'l, Table>, &'l KeyHasher),
    /// The token, and the profile in it after a lookup.
    Token(&'l TokenReader, OnceCell<Vec<u8>>),
}

impl Default for ProfileReader {
    fn default() -> Self {
        Self(Source::Only(Rc::default()))
    }
}

impl ProfileReader {
    /// Creates a reader of a table.
    pub(super) fn of_table(table: SharedTable, hasher: KeyHasher) -> Self {
        Self(Source::Table(table, hasher))
    }

    /// Creates a reader of tokens with these facts.
    pub(crate) fn of_tokens(keys: SiteKeys, facts_hash: u64) -> Self {
        let reader = TokenReader { keys, facts_hash, token: RefCell::default(), error: Cell::default() };
        Self(Source::Token(Rc::new(reader)))
    }

    /// Replaces the token. An empty one is that of a new visitor.
    pub(crate) fn set_token(&self, token: &str) {
        if let Source::Token(reader) = &self.0 {
            let mut present = reader.token.borrow_mut();
            present.clear();
            present.push_str(token);
            reader.error.set(None);
        }
    }

    /// Returns the reason why the token did not count.
    pub(crate) fn token_error(&self) -> Option<TokenError> {
        if let Source::Token(reader) = &self.0 { reader.error.get() } else { None }
    }

    /// Replaces the only profile. A reader of a table has none.
    pub(crate) fn set(&self, encoded: &[u8]) {
        if let Source::Only(profile) = &self.0 {
            let mut present = profile.borrow_mut();
            present.clear();
            present.extend_from_slice(encoded);
        }
    }

    /// Returns the profiles for one request.
    pub fn pin(&mut self) -> PinnedProfiles<'_> {
        PinnedProfiles(match &self.0 {
            Source::Only(profile) => Pinned::Only(profile.borrow()),
            Source::Table(table, hasher) => Pinned::Table(table.pin(), hasher),
            Source::Token(reader) => Pinned::Token(reader, OnceCell::new()),
        })
    }
}

impl PinnedProfiles<'_> {
    /// Returns the key of an ID. The host gives the only profile for the visitor that the request names.
    pub(crate) fn key(&self, site: &str, id_kind: IdKind, id: &str) -> Key {
        match &self.0 {
            Pinned::Only(_) => ONLY_KEY,
            Pinned::Table(_, hasher) => hasher.key(site, id_kind, id),
            Pinned::Token(reader, profile) => {
                profile.get_or_init(|| reader.open(TokenOwner { site, id_kind, id }));
                ONLY_KEY
            }
        }
    }

    /// Returns the profile of a key, with the enrolments of its ID.
    pub(crate) fn profile(&self, key: Key) -> Option<Profile<'_>> {
        let table = match &self.0 {
            Pinned::Only(profile) => return Profile::decode(profile),
            Pinned::Token(_, profile) => return Profile::decode(profile.get()?),
            Pinned::Table(table, _) => table,
        };
        let value = table.get(key)?;
        match decode_alias(value) {
            Some(user_key) => {
                let profile = Profile::decode(table.get(user_key)?)?;
                Some(profile.with_enrolments(decode_enrolments(value)))
            }
            None => Profile::decode(value),
        }
    }

    pub(crate) fn prefetch_word(&self, _: Key) {}

    pub(crate) fn prefetch_record(&self, _: Key) {}
}
