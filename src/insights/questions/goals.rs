//! Goals of questions: the events that reach them, their amounts, and the currencies of the amounts.

use super::blocks::Block;
use super::question::NamedValue;
use crate::insights::columns::amounts::Amount;
use crate::insights::columns::format::{CODE_OTHER, ColumnFileError, OTHER, TextColumn};
use crate::insights::columns::goal_reader::GoalAmountEntry;
use crate::insights::columns::packing::BLOCK_ROWS;
use crate::insights::columns::reader::{Columns, FilePart};
use crate::limits::GOALS_ASKED_MAX;
use crate::site::experiment_metrics::Goal;
use crate::site::goals::{SiteGoals, matches_pattern};

/// The number of currencies that an answer tells apart, with those of amounts without a currency and of `(other)`. A site has a few.
/// Further ones count as `(other)`.
const CURRENCIES_MAX: usize = 64;
const _: () = assert!(GOALS_ASKED_MAX <= u16::BITS as usize, "one bit of a hit for each goal of a question");

/// The goal that a question names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChosenGoal {
    /// The number of a goal of the site.
    OfSite(usize),
    /// An event or a page.
    Target(Goal<String>),
}

impl ChosenGoal {
    /// Parses the key of a goal of the site, the name of an event, or `page:` and a path. A key has precedence over an event with
    /// the same name. `None` if the text is none of them.
    pub(crate) fn parse(text: &str, goals: &SiteGoals) -> Option<Self> {
        match goals.by_key(text) {
            Some((number, _)) => Some(Self::OfSite(number)),
            None => Goal::parse(text).map(|goal| Self::Target(goal.to_owned())),
        }
    }

    /// Returns the number of the goal of the site.
    pub(crate) fn site_number(&self) -> Option<usize> {
        match self {
            Self::OfSite(number) => Some(*number),
            Self::Target(_) => None,
        }
    }

    /// Returns the column and the pattern of the events of a target. `None` for a goal of the site.
    fn pattern(&self) -> Option<(&'static [TextColumn; 1], &str)> {
        match self {
            Self::OfSite(_) => None,
            Self::Target(Goal::Event(name)) => Some((&[TextColumn::Event], name)),
            Self::Target(Goal::Page(path)) => Some((&[TextColumn::Path], path)),
        }
    }

    /// Returns whether an event with this text in this column reaches the target. Never true for a goal of the site.
    pub(crate) fn has_text(&self, column: TextColumn, text: &str) -> bool {
        self.pattern()
            .is_some_and(|(columns, pattern)| columns[0] == column && matches_pattern(text, pattern))
    }

    /// Returns the text that the events of the goal must have, as a value of a parameter. `None` if they can have different texts.
    pub(crate) fn named_value<'q>(&'q self, param: &'static str, value: &'q str) -> Option<NamedValue<'q>> {
        let (columns, text) = self.pattern()?;
        (!text.ends_with('*')).then_some(NamedValue { param, value, text, columns })
    }
}

/// The currencies of amounts, by their numbers. An amount without a currency has the number 0, and `(other)` has the number of its code in
/// column files.
#[derive(Debug, Clone)]
pub(crate) struct Currencies(Vec<String>);

impl Default for Currencies {
    fn default() -> Self {
        Self(vec![String::new(), OTHER.to_owned()])
    }
}

impl Currencies {
    /// Returns the number of a currency. A new one gets the next number, or that of `(other)` if there are [`CURRENCIES_MAX`].
    fn number(&mut self, currency: &str) -> u16 {
        let known = self.0.iter().position(|other| other == currency);
        let number = known.unwrap_or_else(|| {
            if self.0.len() == CURRENCIES_MAX {
                return CODE_OTHER as usize;
            }
            self.0.push(currency.to_owned());
            self.0.len() - 1
        });
        number as u16
    }

    /// Returns the name of a currency. `None` if the amounts with this number have no currency.
    pub(crate) fn name(&self, number: usize) -> Option<&str> {
        self.0.get(number).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// The amount of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MoneyAmount {
    pub amount: Amount,
    /// The number of the currency in [`Currencies`].
    pub currency: u16,
}

/// The goals of the rows of a file. Only rows of the site of a question have its goals.
pub(crate) struct GoalColumns {
    codes: Block,
    sets: Vec<u128>,
    amounts: Vec<GoalAmountEntry>,
    /// The index of the first amount that is not before the current row.
    next_amount: usize,
    /// The number of each currency code.
    currencies: Vec<u16>,
    /// The numbers of the blocks that are read. `None` if all blocks are read.
    block_numbers: Option<Vec<usize>>,
    /// The number of blocks that were read.
    blocks_read: usize,
}

impl GoalColumns {
    /// Opens the goals of a part of a file.
    pub(crate) fn open(
        file: &Columns,
        part: &FilePart,
        currencies: &mut Currencies,
    ) -> Result<Self, ColumnFileError> {
        let sets = file.goal_sets()?;
        let codes = Block::new(file.goal_codes(sets.len(), part)?);
        let numbers = file.currencies()?.iter().map(|currency| currencies.number(currency)).collect();
        Ok(Self {
            codes,
            sets,
            amounts: file.goal_amounts()?,
            next_amount: 0,
            currencies: numbers,
            block_numbers: part.block_numbers().map(<[usize]>::to_vec),
            blocks_read: 0,
        })
    }

    /// Reads the next block.
    pub(crate) fn next_block(&mut self) -> Result<(), ColumnFileError> {
        self.blocks_read += 1;
        self.codes.next()
    }

    /// Returns the number that a row of the current block has in the file.
    fn row_in_file(&self, row: usize) -> usize {
        let index = self.blocks_read - 1;
        let block = self.block_numbers.as_ref().map_or(index, |numbers| numbers[index]);
        block * BLOCK_ROWS + row
    }

    /// Returns the set of goals of a row of the current block, one bit for each goal.
    pub(crate) fn set(&self, row: usize) -> u128 {
        self.sets[self.codes.numbers[row] as usize]
    }

    /// Returns the amount of a goal in a row of the current block. The row must not be before that of the last call.
    pub(crate) fn amount(&mut self, row: usize, goal_number: usize) -> Option<MoneyAmount> {
        let file_row = self.row_in_file(row);
        let is_before = |entry: &GoalAmountEntry| (entry.row as usize) < file_row;
        while self.amounts.get(self.next_amount).is_some_and(is_before) {
            self.next_amount += 1;
        }
        let of_row =
            self.amounts[self.next_amount..].iter().take_while(|entry| entry.row as usize == file_row);
        let entry = of_row.into_iter().find(|entry| usize::from(entry.goal) == goal_number)?;
        let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
        Some(MoneyAmount { amount, currency: self.currencies[entry.currency as usize] })
    }
}

/// The conversions of the rows that a scan has read. A row refers to its hit by the index.
#[derive(Debug, Default)]
pub(crate) struct ConversionHits {
    hits: Vec<Hit>,
    amounts: Vec<HitAmount>,
}

/// The goals of a question that one event reaches.
#[derive(Debug, Clone, Copy)]
struct Hit {
    /// One bit for each goal of the question.
    goals: u16,
    /// The index of the first amount.
    first_amount: u32,
}

#[derive(Debug, Clone, Copy)]
struct HitAmount {
    /// The index of the goal in the question.
    goal: u8,
    amount: MoneyAmount,
}

/// The goals that one event reaches, and their amounts.
pub(crate) struct ConversionHit<'h> {
    goals: u16,
    amounts: &'h [HitAmount],
}

impl ConversionHits {
    pub(crate) fn clear(&mut self) {
        self.hits.clear();
        self.amounts.clear();
    }

    /// Adds the conversions of a row. `goal_numbers` are the goals of the question. Returns the index, or `None` if the row
    /// reaches no goal.
    pub(crate) fn add(
        &mut self,
        columns: &mut GoalColumns,
        row: usize,
        goal_numbers: &[usize],
    ) -> Option<u32> {
        let set = columns.set(row);
        if set == 0 {
            return None;
        }
        let first_amount = self.amounts.len() as u32;
        let mut goals = 0;
        for (index, number) in goal_numbers.iter().enumerate().filter(|(_, number)| set >> **number & 1 == 1)
        {
            goals |= 1 << index;
            let amount = columns.amount(row, *number);
            self.amounts.extend(amount.map(|amount| HitAmount { goal: index as u8, amount }));
        }
        if goals == 0 {
            return None;
        }
        self.hits.push(Hit { goals, first_amount });
        Some(self.hits.len() as u32 - 1)
    }

    /// Returns the conversions with this index.
    pub(crate) fn get(&self, index: u32) -> ConversionHit<'_> {
        let hit = self.hits[index as usize];
        let end =
            self.hits.get(index as usize + 1).map_or(self.amounts.len(), |next| next.first_amount as usize);
        ConversionHit { goals: hit.goals, amounts: &self.amounts[hit.first_amount as usize..end] }
    }
}

impl ConversionHit<'_> {
    /// Returns whether the event reaches the goal with this index in the question.
    pub(crate) fn reaches(&self, goal_index: usize) -> bool {
        self.goals >> goal_index & 1 == 1
    }

    pub(crate) fn amount_of(&self, goal_index: usize) -> Option<MoneyAmount> {
        self.amounts.iter().find(|amount| usize::from(amount.goal) == goal_index).map(|amount| amount.amount)
    }
}
