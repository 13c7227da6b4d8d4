//! The IDs of a record: their kinds, and the hashes by which filters and tables find them.

use super::record;
use crate::checksum::hash64;

/// A hasher of the IDs of encoded records. Reuses its buffer.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(Vec<u8>);

impl IdHasher {
    /// Passes the hashes by which filters find an encoded record to `visit`.
    pub(crate) fn each(&mut self, encoded_record: &[u8], mut visit: impl FnMut(u64)) {
        let [site, anon_id, user_id] = record::ids(encoded_record);
        let site = site.unwrap_or_default();
        for (id_kind, id) in [(IdKind::Anon, anon_id), (IdKind::User, user_id)] {
            id.into_iter().for_each(|id| visit(hash(site, id_kind, id, &mut self.0)));
        }
        // A `previousId` may be an ID of either kind.
        record::with_previous_id(encoded_record, |id| {
            visit(hash(site, IdKind::Anon, id.as_bytes(), &mut self.0));
            visit(hash(site, IdKind::User, id.as_bytes(), &mut self.0));
        });
    }
}

/// The kind of a visitor's ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdKind {
    /// An anonymous ID.
    Anon,
    /// A user ID.
    User,
}

/// The ID of a visitor of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisitorId<'v> {
    /// The site ID.
    pub site: &'v str,
    pub id_kind: IdKind,
    pub id: &'v str,
}

/// Returns the hash by which filters find an ID.
pub(crate) fn id_hash(site: &str, id_kind: IdKind, id: &str) -> u64 {
    hash(site.as_bytes(), id_kind, id.as_bytes(), &mut Vec::new())
}

fn hash(site: &[u8], id_kind: IdKind, id: &[u8], buffer: &mut Vec<u8>) -> u64 {
    buffer.clear();
    hash_parts(site, id_kind, id).iter().for_each(|part| buffer.extend_from_slice(part));
    hash64(buffer)
}

/// Returns the parts of an ID's hash input. The byte FF, which never occurs in UTF-8, separates site and ID,
/// so that no two pairs give the same input.
pub(crate) fn hash_parts<'a>(site: &'a [u8], id_kind: IdKind, id: &'a [u8]) -> [&'a [u8]; 3] {
    let mark: &[u8] = match id_kind {
        IdKind::Anon => b"\xFFa",
        IdKind::User => b"\xFFu",
    };
    [site, mark, id]
}
