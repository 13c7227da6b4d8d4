//! The table as the log's writer keeps it: records in, in their order; figures for the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Counted;
use super::identity::{Applier, Keys};
use super::lookup::Lookup;
use super::table::{Readers, Table};
use crate::segment::Records;
use crate::segment::filter::Whose;

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
        let (table, figures) = (Table::new(), Arc::<Figures>::default());
        let keys = Keys::new(secret);
        let looks = Looks { readers: table.readers(), keys, figures: Arc::clone(&figures) };
        let applier = Applier::new(secret);
        (Self { table, applier, cost_max, counted: Counted::default(), figures }, looks)
    }

    /// Takes in the next records of the log.
    pub fn fold(&mut self, records: Records<'_>) {
        for (_, record) in records.iter() {
            self.applier.apply(&mut self.table, &record, self.cost_max, &mut self.counted);
        }
        self.show();
    }

    /// Forgets everyone who has one of these ids, and the ids that are tied to them.
    pub fn erase<'i>(&mut self, site: &str, ids: impl Iterator<Item = (Whose, &'i str)>) {
        for (whose, id) in ids {
            self.applier.forget(&mut self.table, site, whose, id);
        }
        self.show();
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
