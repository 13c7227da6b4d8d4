//! The question about the pages and events before or after a page.

use std::collections::HashMap;
use std::sync::Arc;

use super::selection::EventSelection;
use crate::checksum::hash64;
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::ask::each_value_part;
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::credits::ScannedFiles;
use crate::insights::questions::limits::{Limits, ScanError, VALUES_SHARE};
use crate::insights::questions::part::{PARTS_MAX, Part};
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::{
    LIMIT_DEFAULT, LIST_BYTES_MAX, QuestionError, parse_limit, single_value,
};
use crate::insights::questions::row::{PAGE, Row};
use crate::insights::questions::scan::{ScanSummary, scan_into};
use crate::insights::questions::sealed::{CountResult, CutVisitors, IsCut};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::steps::Step;
use crate::insights::questions::values::Values;
use crate::insights::questions::visit_scan::count_since_visit_starts;
use crate::insights::questions::visits::{Selection, Visit, each_visit};
use crate::site::goals::SiteGoals;

/// All parameters of the question except `site`.
pub(super) const PARAM_NAMES: [&str; 13] = [
    "page",
    "direction",
    "limit",
    "from",
    "to",
    "bots",
    "source",
    "campaign",
    "country",
    "device",
    "language",
    "event",
    "variant",
];
/// The number of levels of the tree.
pub const PATHS_LEVELS: usize = 3;
/// Maximum value of `limit`, and so the maximum number of branches of a branch. A larger `limit` gets 400. With this maximum, the
/// tree has at most 8,420 branches, which take about 1 MB as JSON.
pub const PATHS_LIMIT_MAX: usize = 20;
/// Memory of a path, in bytes: in a table with free places, in the sorted paths, and as branches of the tree.
const PATH_BYTES: u64 = (3 * size_of::<(Path, u64)>() + PATHS_LEVELS * size_of::<Branch>()) as u64;
/// Minimum memory for the paths, and minimum memory for their texts, in bytes. They can always take this memory, even if the
/// memory of Insights is small.
const PATHS_BYTES_MIN: u64 = 64 << 10;

/// A question about the pages and events before or after a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PathsQuestion {
    pub selection: EventSelection,
    /// The step that accepts the page.
    pub page: Step,
    /// True if the answer has the events before the page. Otherwise it has the events after it.
    pub is_backward: bool,
    /// Maximum number of branches of a branch.
    pub limit: usize,
}

impl PathsQuestion {
    /// Parses the parameters. Ignores unknown parameters. No value is empty.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse(pairs: &[(&str, &str)], zone: &Zone, now_ms: i64) -> Result<Self, QuestionError> {
        let page = single_value(pairs, "page")?.unwrap_or_default();
        let invalid_page = || QuestionError::invalid("page", "the path of a page, such as '/'", page);
        let limit = single_value(pairs, "limit")?;
        Ok(Self {
            selection: EventSelection::parse(pairs, false, zone, now_ms)?,
            page: Step::parse(&format!("page:{page}"), &SiteGoals::default()).ok_or_else(invalid_page)?,
            is_backward: single_value(pairs, "direction")?.map_or(Ok(false), parse_direction)?,
            limit: limit.map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, PATHS_LIMIT_MAX))?,
        })
    }
}

fn parse_direction(text: &str) -> Result<bool, QuestionError> {
    match text {
        "after" => Ok(false),
        "before" => Ok(true),
        _ => Err(QuestionError::invalid("direction", "'after' or 'before'", text)),
    }
}

/// An event on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PathEvent {
    /// The number of the path of a page, or of the name of an event.
    value: u32,
    is_page: bool,
}

/// The events after or before the page. `None` if the visit has no further event.
type Path = [Option<PathEvent>; PATHS_LEVELS];

/// A page or an event of the tree, with the visits that reached it on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    pub is_page: bool,
    /// The path of a page, or the name of an event. `None` if the page has no path.
    pub value: Option<Arc<str>>,
    pub node: Node,
}

/// The visits that reached a point of the tree.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub visits: u64,
    /// The number of visits that have no further event.
    pub ends: u64,
    pub branches: Vec<Branch>,
    /// The number of branches that are not in `branches`.
    pub more: usize,
}

/// The tree of a question.
#[derive(Debug, Default)]
pub(super) struct PathCounts {
    pub root: Node,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the tree.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count(
    question: &PathsQuestion,
    site: &SiteFacts,
    columns: &[&Columns],
    limits: &Limits<'_>,
) -> Result<PathCounts, ScanError> {
    let mut counts = PathCounts::default();
    let parts = each_value_part(|part| {
        let (part, summary) = count_part(question, site, columns, limits, part)?;
        let mut paths: Vec<_> = part.paths.into_iter().collect();
        paths.sort_unstable();
        let root = Node::of(&paths, 0, question.limit, &summary.values);
        Ok(PathCounts { root, rows: summary.rows, other: summary.other })
    })?;
    for PathCounts { root, rows, other } in parts {
        counts.root.visits += root.visits;
        counts.root.ends += root.ends;
        counts.root.more += root.more;
        counts.root.branches.extend(root.branches);
        counts.rows = rows;
        counts.other = other;
    }
    counts.root.keep_first(question.limit);
    counts.root.keep_bytes(&mut 0);
    Ok(counts)
}

impl Node {
    /// Builds the node of sorted paths that are equal before `level`.
    fn of(paths: &[(Path, u64)], level: usize, branches_max: usize, values: &Values) -> Self {
        let mut node = Self { visits: paths.iter().map(|(_, visits)| visits).sum(), ..Self::default() };
        if level == PATHS_LEVELS {
            return node;
        }
        for of_branch in paths.chunk_by(|(a, _), (b, _)| a[level] == b[level]) {
            let next = Self::of(of_branch, level + 1, branches_max, values);
            match of_branch[0].0[level] {
                None => node.ends += next.visits,
                Some(event) => {
                    let value = values.texts.get(event.value as usize).cloned();
                    node.branches.push(Branch { is_page: event.is_page, value, node: next });
                }
            }
        }
        node.keep_first(branches_max);
        node
    }

    /// Sorts the branches, and drops the branches beyond the limit.
    fn keep_first(&mut self, branches_max: usize) {
        self.branches.sort_by(|a, b| {
            let by_visits = b.node.visits.cmp(&a.node.visits);
            let key = |branch: &Branch| (!branch.is_page, branch.value.is_none(), branch.value.clone());
            by_visits.then_with(|| key(a).cmp(&key(b)))
        });
        self.more += self.branches.len().saturating_sub(branches_max);
        self.branches.truncate(branches_max);
    }

    /// Drops the branches of a tree beyond [`LIST_BYTES_MAX`]. `bytes` is the size of the values so far.
    fn keep_bytes(&mut self, bytes: &mut usize) {
        let fits = |branch: &&Branch| {
            *bytes += branch.value.as_ref().map_or(0, |value| value.len());
            *bytes <= LIST_BYTES_MAX
        };
        let fitting = self.branches.iter().take_while(fits).count();
        self.more += self.branches.len() - fitting;
        self.branches.truncate(fitting);
        self.branches.iter_mut().for_each(|branch| branch.node.keep_bytes(bytes));
    }
}

/// Counts the paths in one part of the first events.
fn count_part(
    question: &PathsQuestion,
    site: &SiteFacts,
    columns: &[&Columns],
    limits: &Limits<'_>,
    part: Part,
) -> Result<(PartCount, ScanSummary), ScanError> {
    if part.count > PARTS_MAX {
        return Err(ScanError::TooLarge);
    }
    let steps = std::slice::from_ref(&question.page);
    let plan = Plan { value: RowValue::Visited, steps, ..question.selection.plan(site) };
    let bytes_max = (limits.memory_bytes / VALUES_SHARE).max(PATHS_BYTES_MIN);
    let count = |plan: &Plan<'_>, is_cut: IsCut<'_>| {
        let mut count = PartCount { part, paths: HashMap::new(), bytes_max };
        let mut cut = CutVisitors::default();
        let values = Values::undivided(PATHS_BYTES_MIN);
        let mut summary = ScanSummary { values, ..ScanSummary::default() };
        let files = ScannedFiles::all(columns);
        scan_into(files, plan, limits, &mut summary, &mut |visitor, rows| match is_cut(rows) {
            true => cut.add(visitor),
            false => count.add_visitor(rows, question),
        })
        .map_err(|error| match error {
            // More parts of the first events would not help, because each pass has all texts.
            ScanError::TooManyValues => ScanError::TooLarge,
            error => error,
        })?;
        Ok(CountResult { summary, counts: count, cut })
    };
    let mut add = |count: &mut PartCount, _, rows: &[Row], _: &ScanSummary| count.add_visitor(rows, question);
    let (summary, count) = count_since_visit_starts(columns, plan, true, limits, count, &mut add)?;
    if !count.is_full() {
        Ok((count, summary))
    } else if count.has_one_first() {
        Err(ScanError::TooLarge)
    } else {
        Err(ScanError::TooManyValues)
    }
}

/// The paths in one part of the first events.
struct PartCount {
    part: Part,
    paths: HashMap<Path, u64>,
    bytes_max: u64,
}

impl PartCount {
    /// Returns true if the paths have exceeded their memory. Then they are incomplete.
    fn is_full(&self) -> bool {
        self.paths.len() as u64 * PATH_BYTES > self.bytes_max
    }

    /// Returns whether all paths have the same first event. Then more parts would not divide them.
    fn has_one_first(&self) -> bool {
        let mut firsts = self.paths.keys().map(|path| path[0]);
        let first = firsts.next();
        firsts.all(|other| Some(other) == first)
    }

    fn add_visitor(&mut self, rows: &[Row], question: &PathsQuestion) {
        let range = &question.selection.range;
        each_visit(rows, range, Selection::new(&question.selection.filters), &mut |visit| {
            if visit.is_visit() && !self.is_full() {
                self.add_visit(visit, question);
            }
        });
    }

    fn add_visit(&mut self, visit: &Visit<'_>, question: &PathsQuestion) {
        let rows = visit.rows_in_range();
        let Some(page) = rows.iter().position(|row| row.order != 0) else { return };
        if !question.selection.selects(rows[page], visit) {
            return;
        }
        let mut path: Path = [None; PATHS_LEVELS];
        let event = |row: &Row| Some(PathEvent { value: row.value, is_page: row.has(PAGE) });
        let events = path.iter_mut();
        match question.is_backward {
            true => events.zip(rows[..page].iter().rev()).for_each(|(slot, row)| *slot = event(row)),
            false => events.zip(&rows[page + 1..]).for_each(|(slot, row)| *slot = event(row)),
        }
        // Values get the same numbers in each pass, because each pass reads the same rows.
        let hash = path[0].map_or(0, |first| hash64(&first.value.to_le_bytes()));
        if self.part.has(hash) {
            *self.paths.entry(path).or_default() += 1;
        }
    }
}
