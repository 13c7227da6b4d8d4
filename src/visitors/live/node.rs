//! The operations of a node of a cluster on its table of visitors. A stream determines the table.

use std::collections::HashSet;

use super::ProfileTable;
use crate::checksum::hash128_parts;
use crate::record::{IdTag, Record, TombstoneKey, tombstone_tags};
use crate::visitors::apply::{KeyHasher, ProfileUpdater};
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::visitors::store::table::{EvictionClass, Key};
use crate::visitors::ties::known::OrderRules;

impl ProfileTable {
    /// Makes the entries of ownership with another key than that of the tombstones. Tombstones then end no
    /// ID: their digests mean nothing under this key, and the records before them are void.
    #[must_use]
    pub(crate) fn with_tie_key(self, key: TombstoneKey) -> Self {
        self.known.reset(0, []);
        self.known.replace_key_check(key.check());
        Self { tie_key: Some(key), ..self }
    }

    /// Applies one record that a stream has returned with this order. Returns whether it made an entry of
    /// ownership. Call [`on_folded`](Self::on_folded) after some of them.
    pub(crate) fn apply(&mut self, record: &Record<'_>, order: u64) -> bool {
        self.add_site(record.site);
        self.updater.apply(&mut self.table, record, self.cost_max, &mut self.counts);
        self.add_tie(record, order)
    }

    /// Applies a tombstone that a stream has returned with this order: removes the visitors with these keys,
    /// and ends the named IDs. If there are fewer keys than named IDs, the visitors whose IDs have one of the
    /// hashes and a named digest go too.
    pub(crate) fn apply_tombstone(
        &mut self,
        tombstone: &Record<'_>,
        order: u64,
        keys: &[Key],
        hashes: &HashSet<u64>,
    ) {
        let Some(site) = tombstone.site else { return };
        for key in keys {
            self.updater.erase_key(&mut self.table, site, *key);
        }
        let named: HashSet<IdTag> = tombstone_tags(tombstone).collect();
        if let Some(key) = self.tombstone_key.clone().filter(|_| keys.len() < named.len()) {
            self.erase_tagged(site, hashes, &named, &key);
        }
        self.add_ends(tombstone, order);
        self.updater.evict(&mut self.table, self.cost_max, &mut self.counts);
    }

    /// Returns the key of an ID in the table.
    pub(crate) fn hasher(&self) -> KeyHasher {
        self.updater.hasher().clone()
    }

    /// Sets the rules by which a node of a cluster numbers and drops the entries of ownership.
    pub(crate) fn set_orders(&self, orders: OrderRules) {
        self.known.set_orders(orders);
    }

    /// Leaves the ties of an erased visitor out of the next checkpoint.
    pub(crate) fn forget_ties(&self, owner: IdTag, order: u64) {
        self.known.forget(owner, order);
    }

    /// Sets the limit of the table, which belongs to the era of a cluster.
    pub(crate) fn set_cost_max(&mut self, cost_max: u64) {
        self.cost_max = cost_max;
    }

    /// Keeps a digest of the table from now on, to compare it with those of other nodes.
    #[must_use]
    pub(crate) fn with_digest(mut self) -> Self {
        self.table.keep_digest(hash_entry);
        self
    }

    /// Returns the digest of the table.
    pub(crate) fn digest(&self) -> u128 {
        self.table.digest()
    }

    /// Removes all visitors.
    pub(crate) fn clear(&mut self) {
        let mut keys = Vec::with_capacity(self.table.len());
        self.table.visit(&mut |key, _, _, _| keys.push(key));
        keys.into_iter().for_each(|key| self.table.remove(key));
        let secret = self.updater.hasher().secret();
        self.updater = ProfileUpdater::new(secret);
        self.known.reset(0, []);
        self.publish_metrics();
    }

    /// Replaces all visitors by those of a checkpoint of this directory, with the limit `cost_max`. Readers
    /// see the table fill.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read. The table has a part of the visitors then.
    pub(crate) fn reload(
        &mut self,
        checkpoint: CheckpointReader,
        cost_max: u64,
    ) -> Result<(), CheckpointError> {
        self.clear();
        let secret = self.updater.hasher().secret();
        let seq = checkpoint.header().seq;
        let lost = checkpoint.lost_aliases()?;
        let sites = checkpoint.sites()?;
        let mut entries = checkpoint.entries()?;
        while let Some(kept) = entries.read_next()? {
            self.table.put(kept.key, kept.value, kept.class);
        }
        self.updater = ProfileUpdater::new(secret).with_lost_aliases(lost);
        self.known.reset(seq, []);
        sites.iter().for_each(|site| self.known.add_site(site));
        self.cost_max = cost_max;
        self.publish_metrics();
        Ok(())
    }
}

/// Hashes an entry of the table for its digest.
fn hash_entry(Key([low, high]): Key, value: &[u8], class: EvictionClass) -> u128 {
    hash128_parts([&low.to_le_bytes(), &high.to_le_bytes(), &[class as u8], value])
}
