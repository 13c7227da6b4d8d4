//! The table as the log's writer keeps it: records in, in their order; figures for the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::apply::{Applier, Keys};
use super::checkpoint::scheduler::Making;
use super::lookup::Lookup;
use super::profile::Counted;
use super::profile::profile::Profile;
use super::store::table::{Readers, Table};
use crate::clock::Clock;
use crate::visitors::log::bloom::Whose;
use crate::visitors::log::{Kind, Record, Records, Secret};

/// What the table holds and what was left out of it, for whoever shows it.
#[derive(Debug, Default)]
pub struct Figures {
    entries: AtomicU64,
    bytes: AtomicU64,
    evicted: AtomicU64,
    traits_too_large: AtomicU64,
    operations_of_another_type: AtomicU64,
}

impl Figures {
    /// Visitors, and ids that are tied to users, now.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// What they cost now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Visitors that went for the bound.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Traits that were not kept for their size.
    pub fn traits_too_large(&self) -> u64 {
        self.traits_too_large.load(Ordering::Relaxed)
    }

    /// Profile operations on a value of another type.
    pub fn operations_of_another_type(&self) -> u64 {
        self.operations_of_another_type.load(Ordering::Relaxed)
    }
}

/// The writer's half.
pub struct Live {
    table: Table,
    applier: Applier,
    cost_max: u64,
    counted: Counted,
    figures: Arc<Figures>,
    making: Option<Making>,
    /// What tombstones of a log that is read again name ids by.
    names: Option<Secret>,
    /// The seq of the last tombstone whose visitor is forgotten already.
    erased: u64,
}

/// Where threads that answer get their look.
#[derive(Clone)]
pub struct Looks {
    readers: Readers,
    keys: Keys,
    figures: Arc<Figures>,
}

impl Looks {
    /// One thread's.
    pub fn lookup(&self) -> Lookup {
        Lookup::new(self.readers.reader(), self.keys.clone())
    }

    /// What there is.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}

impl Live {
    /// Nobody is known; visitors are found by hashes with this secret, and go where they cost more than `cost_max`.
    pub fn new(secret: [u8; 16], cost_max: u64) -> (Self, Looks) {
        Self::standing(Table::new(), secret, cost_max)
    }

    /// Those are known whom a table holds that was folded with this secret; who does not fit `cost_max` goes.
    pub fn standing(mut table: Table, secret: [u8; 16], cost_max: u64) -> (Self, Looks) {
        let figures = Arc::<Figures>::default();
        let (applier, mut counted) = (Applier::new(secret), Counted::default());
        applier.evict(&mut table, cost_max, &mut counted);
        let live = Self { table, applier, cost_max, counted, figures, making: None, names: None, erased: 0 };
        let looks = live.looks();
        live.show();
        (live, looks)
    }

    /// Has the table kept in files from now on.
    #[must_use]
    pub fn keeping(self, making: Making) -> Self {
        Self { making: Some(making), ..self }
    }

    /// Understands the tombstones of a log that is read again.
    #[must_use]
    pub fn naming(self, names: Option<Secret>) -> Self {
        Self { names, ..self }
    }

    /// Where threads get their look.
    pub fn looks(&self) -> Looks {
        let keys = self.applier.keys().clone();
        Looks { readers: self.table.readers(), keys, figures: Arc::clone(&self.figures) }
    }

    /// Takes in the next records of the log.
    pub fn fold(&mut self, records: Records<'_>) {
        for (seq, record) in records.iter() {
            if record.kind == Kind::Tombstone && seq > self.erased {
                self.forget_named(&record, seq);
            }
            self.applier.apply(&mut self.table, &record, self.cost_max, &mut self.counted);
        }
        if let Some(making) = &mut self.making {
            making.folded(records.count as usize, records.byte_len());
        }
        self.show();
    }

    /// Forgets everyone who has one of these ids, and the ids that are tied to them, as of the tombstone of `seq`.
    pub fn erase<'i>(&mut self, site: &str, ids: impl Iterator<Item = (Whose, &'i str)>, seq: u64) {
        for (whose, id) in ids {
            self.applier.forget(&mut self.table, site, whose, id);
        }
        self.is_erased(seq);
    }

    /// Forgets whom a tombstone names: who they are, it does not tell, so that everybody is asked.
    fn forget_named(&mut self, tombstone: &Record<'_>, seq: u64) {
        let Some(names) = &self.names else { return };
        let mut named = Vec::new();
        self.table.begin_copy();
        while !self.table.copy_some(usize::MAX, &mut |key, value, _, _| {
            let Some(profile) = Profile::read(value) else { return };
            let is_named = |whose, id: &str| names.is_named(tombstone, profile.site(), whose, id);
            let is_user = profile.user_id().is_some_and(|id| is_named(Whose::User, id));
            if is_user || profile.anon_ids().any(|id| is_named(Whose::Anon, id)) {
                named.push(key);
            }
        }) {}
        named.into_iter().for_each(|key| self.applier.remove(&mut self.table, key));
        self.is_erased(seq);
    }

    fn is_erased(&mut self, seq: u64) {
        self.erased = seq;
        self.making.iter_mut().for_each(|making| making.erased(seq));
        self.show();
    }

    /// Goes on with a checkpoint, or begins one: see [`Making::between`].
    pub fn between(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        self.making.as_mut()?.between(&mut self.table, clock, durable)
    }

    /// Makes a last checkpoint: see [`Making::close`].
    pub fn close(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        if let Some(making) = &mut self.making {
            making.close(&mut self.table, clock, durable);
        }
    }

    /// The records up to this one are not needed to know the visitors again.
    pub fn covered(&self) -> u64 {
        self.making.as_ref().map_or(u64::MAX, Making::covered)
    }

    /// Retention waits for a checkpoint.
    pub fn held_back(&mut self) {
        self.making.iter_mut().for_each(Making::held_back);
    }

    /// What all of it has come to.
    pub fn into_table(self) -> Table {
        self.table
    }

    fn show(&self) {
        let Figures { entries, bytes, evicted, traits_too_large, operations_of_another_type } =
            &*self.figures;
        entries.store(self.table.len() as u64, Ordering::Relaxed);
        bytes.store(self.table.cost(), Ordering::Relaxed);
        evicted.store(self.counted.visitors_evicted, Ordering::Relaxed);
        traits_too_large.store(self.counted.traits_too_large, Ordering::Relaxed);
        operations_of_another_type.store(self.counted.operations_of_another_type, Ordering::Relaxed);
    }
}
