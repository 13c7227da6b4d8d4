//! The goals that the records of a segment reach, in the columns of the segment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::amounts::{Amount, parse_amount};
use super::format::{CODE_ABSENT, GOAL_AMOUNT_BYTES, GOAL_ID_BYTES, GOAL_SET_BYTES, SCREEN};
use super::packing::PackedWriter;
use super::texts::{TextBudget, TextWriter};
use crate::record::{Record, RecordKind};
use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
use crate::site::goals::{GoalEvent, Properties, SiteGoals};

/// Maximum size of the texts of all currencies of a file, in bytes. Any further text becomes `(other)`.
const CURRENCY_BYTES_MAX: usize = 1 << 20;

/// The goals of all published sites that have goals.
#[derive(Debug, Default, PartialEq)]
pub struct SitesGoals(BTreeMap<String, SiteGoals>);

impl SitesGoals {
    /// Returns the goals of the sites of a catalog.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let sites = catalog.sites().iter().map(|site| site.site());
        let sites = sites.map(|site| (site.site.to_string(), site.site_goals()));
        Self(sites.filter(|(_, goals)| goals.id() != 0).collect())
    }

    /// Adds the goals of a site.
    pub fn add(&mut self, site: &str, goals: SiteGoals) {
        self.0.insert(site.to_owned(), goals);
    }

    /// Iterates over the sites and their goals.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &SiteGoals)> {
        self.0.iter().map(|(site, goals)| (&**site, goals))
    }

    pub(crate) fn of_site(&self, site: &str) -> Option<&SiteGoals> {
        self.0.get(site)
    }
}

/// A reader of the goals of the served sites.
pub(crate) struct ServedGoals {
    current: CurrentCatalog,
    /// The generation of the catalog of `goals`. `None` before the first call.
    generation: Option<u64>,
    goals: Arc<SitesGoals>,
}

impl ServedGoals {
    pub(crate) fn new(current: CurrentCatalog) -> Self {
        Self { current, generation: None, goals: Arc::default() }
    }

    /// Returns the goals of the sites that are served now. If they have not changed, returns the same value again.
    pub(crate) fn get(&mut self) -> Arc<SitesGoals> {
        let catalog = self.current.load();
        if self.generation != Some(catalog.generation()) {
            self.generation = Some(catalog.generation());
            let goals = SitesGoals::of(&catalog);
            if goals != *self.goals {
                self.goals = Arc::new(goals);
            }
        }
        Arc::clone(&self.goals)
    }
}

/// A writer of the goals of the rows of a segment.
#[derive(Debug, Clone, Default)]
pub(super) struct GoalWriter {
    sites: Arc<SitesGoals>,
    /// For each row, the code of the set of its goals.
    codes: PackedWriter,
    codes_by_set: HashMap<u128, u32>,
    /// The sets, in the order of their codes. The code 0 is the empty set, which is not in here.
    sets: Vec<u128>,
    amounts: Vec<GoalAmount>,
    currencies: TextWriter,
    currency_budget: TextBudget,
}

/// The amount of a goal in a row.
#[derive(Debug, Clone, Copy)]
struct GoalAmount {
    row: u32,
    /// The number of the goal among the goals of its site.
    goal: u8,
    currency: u32,
    units: i64,
}

impl GoalWriter {
    /// Creates a writer that notes these goals.
    pub(super) fn new(sites: Arc<SitesGoals>) -> Self {
        let currency_budget = TextBudget::new(CURRENCY_BYTES_MAX);
        Self { sites, currency_budget, ..Self::default() }
    }

    pub(super) fn sites(&self) -> &Arc<SitesGoals> {
        &self.sites
    }

    /// Adds the next row.
    pub(super) fn add(
        &mut self,
        row: u32,
        record: &Record<'_>,
        site_goals: Option<&SiteGoals>,
        properties: &Properties<'_>,
    ) {
        let set = site_goals.map_or(0, |goals| self.set_of(row, record, goals, properties));
        let code = self.code_of(set);
        self.codes.push(i64::from(code));
    }

    /// Returns the set of the goals that a record reaches, one bit for each goal. Adds their amounts.
    fn set_of(
        &mut self,
        row: u32,
        record: &Record<'_>,
        goals: &SiteGoals,
        properties: &Properties<'_>,
    ) -> u128 {
        let event = if record.kind == RecordKind::Screen { Some(SCREEN) } else { record.event };
        let event = GoalEvent { kind: record.kind, event, path: record.path };
        let mut set = 0;
        for (number, goal) in goals.all().iter().enumerate().filter(|(_, goal)| goal.has_target(event)) {
            if goal.reads_properties() {
                if !goal.accepts(properties) {
                    continue;
                }
                if let Some(json) = goal.value.as_ref().and_then(|path| properties.json(path)) {
                    let units = match parse_amount(json) {
                        Amount::Units(units) => units,
                        Amount::Ignored => i64::MIN,
                    };
                    let currency = goal.currency.as_ref().and_then(|path| properties.currency(path));
                    let currency = currency.map_or(CODE_ABSENT, |currency| {
                        self.currencies.code_of(&currency, &mut self.currency_budget)
                    });
                    self.amounts.push(GoalAmount { row, goal: number as u8, currency, units });
                }
            }
            set |= 1 << number;
        }
        set
    }

    fn code_of(&mut self, set: u128) -> u32 {
        if set == 0 {
            return 0;
        }
        let sets = &mut self.sets;
        *self.codes_by_set.entry(set).or_insert_with(|| {
            sets.push(set);
            sets.len() as u32
        })
    }

    /// Returns the code of each row.
    pub(super) fn codes(&self) -> &PackedWriter {
        &self.codes
    }

    /// Writes the IDs of the goals of all sites.
    pub(super) fn write_ids(&self, out: &mut Vec<u8>) {
        const _: () = assert!(GOAL_ID_BYTES == size_of::<u128>());
        self.sites.iter().for_each(|(_, goals)| out.extend_from_slice(&goals.id().to_le_bytes()));
    }

    pub(super) fn write_sets(&self, out: &mut Vec<u8>) {
        const _: () = assert!(GOAL_SET_BYTES == size_of::<u128>());
        self.sets.iter().for_each(|set| out.extend_from_slice(&set.to_le_bytes()));
    }

    /// Writes the amounts. `position` returns the position of a row in the file.
    pub(super) fn write_amounts(&self, position: impl Fn(u32) -> u32, out: &mut Vec<u8>) {
        let mut amounts = self.amounts.clone();
        amounts.iter_mut().for_each(|amount| amount.row = position(amount.row));
        // The rows of a question are read in the order of the file.
        amounts.sort_by_key(|amount| (amount.row, amount.goal));
        for GoalAmount { row, goal, currency, units } in amounts {
            let start = out.len();
            out.extend_from_slice(&row.to_le_bytes());
            out.push(goal);
            out.extend_from_slice(&currency.to_le_bytes());
            out.extend_from_slice(&units.to_le_bytes());
            debug_assert_eq!(out.len() - start, GOAL_AMOUNT_BYTES);
        }
    }

    pub(super) fn write_currencies(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.currencies.texts());
    }
}
