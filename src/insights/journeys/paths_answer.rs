//! Writes the answer about the pages and events before or after a page, and its SQL.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::params::share;
use super::paths::{Branch, Node, PATHS_LEVELS, PathCounts, PathsQuestion};
use super::selection::step_condition;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::site::SiteFacts;

/// The columns of CSV and of tables. Each line has a branch. The columns `kind` and `value` are those of the last event of its
/// path, and `before` has the values of the events between it and the page.
const HEADER: [&str; 7] = ["level", "before", "kind", "value", "visits", "ofPage", "ofBefore"];

/// Writes the answer.
pub(super) fn write(
    question: &PathsQuestion,
    site: &SiteFacts,
    counts: &PathCounts,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.selection.range, site, answered_log);
    let page = question.page.text.strip_prefix("page:").unwrap_or_default();
    document.insert("page".to_owned(), json!(page));
    let direction = if question.is_backward { "before" } else { "after" };
    document.insert("direction".to_owned(), json!(direction));
    document.insert("visits".to_owned(), json!(counts.root.visits));
    let tree = Tree { root: &counts.root, is_backward: question.is_backward };
    document.extend(tree.next_json(&counts.root, 0));
    let mut lines = Vec::new();
    tree.add_lines(&counts.root, &mut Vec::new(), &mut lines);
    end_document(&mut document, &counts.other, counts.rows, answered_log, query(question, site));
    let document = Json::Object(document);
    Answer { document, header: HEADER.to_vec(), lines, notes: Vec::new(), seq: answered_log.seq }
}

/// The tree of an answer.
struct Tree<'t> {
    root: &'t Node,
    is_backward: bool,
}

impl Tree<'_> {
    /// Returns the members of a node about its branches. A node of the last level has none.
    fn next_json(&self, node: &Node, level: usize) -> Map<String, Json> {
        let mut members = Map::new();
        if level < PATHS_LEVELS {
            let ends = if self.is_backward { "entries" } else { "exits" };
            let branches = node.branches.iter().map(|branch| self.branch_json(branch, node, level + 1));
            members.insert(ends.to_owned(), json!(node.ends));
            members.insert("next".to_owned(), branches.collect());
            members.insert("more".to_owned(), json!(node.more));
        }
        members
    }

    fn branch_json(&self, branch: &Branch, before: &Node, level: usize) -> Json {
        let visits = branch.node.visits;
        let mut members = Map::new();
        members.insert("kind".to_owned(), json!(kind(branch)));
        members.insert("value".to_owned(), json!(branch.value.as_deref()));
        members.insert("visits".to_owned(), json!(visits));
        members.insert("ofPage".to_owned(), json!(share(visits, self.root.visits)));
        members.insert("ofBefore".to_owned(), json!(share(visits, before.visits)));
        members.extend(self.next_json(&branch.node, level));
        Json::Object(members)
    }

    /// Adds a line for each branch below a node. `path` has the values of the events between the page and the node.
    fn add_lines<'n>(&self, node: &'n Node, path: &mut Vec<&'n str>, lines: &mut Vec<Vec<Cell>>) {
        let decimal = |number: Option<f64>| number.map_or(Cell::Text(None), Cell::Decimal);
        for branch in &node.branches {
            let visits = branch.node.visits;
            lines.push(vec![
                Cell::Number(path.len() as i64 + 1),
                Cell::Text(Some(path.join(" > ")).filter(|before| !before.is_empty())),
                Cell::Text(Some(kind(branch).to_owned())),
                Cell::Text(branch.value.as_deref().map(str::to_owned)),
                Cell::Number(visits as i64),
                decimal(share(visits, self.root.visits)),
                decimal(share(visits, node.visits)),
            ]);
            path.push(branch.value.as_deref().unwrap_or_default());
            self.add_lines(&branch.node, path, lines);
            path.pop();
        }
    }
}

fn kind(branch: &Branch) -> &'static str {
    if branch.is_page { "page" } else { "event" }
}

/// Returns the query. Each row has a path from the page on. A null kind means that the visit has no further event.
fn query(question: &PathsQuestion, site: &SiteFacts) -> String {
    let mut sql = question.selection.begin_sql(site);
    let sign = if question.is_backward { '-' } else { '+' };
    let _ = write!(
        sql,
        ",
numbered as (
  select visitor, visit, passes, row_number() over (partition by visitor, visit order by ts, seq) as number,
    if(type = 'page', 'page', 'event') as kind, if(type = 'page', path, event) as value,
    coalesce({}, false) as is_page
  from journeys where in_range and visit > 0),
pages as (
  select visitor, visit, min(number) as number from numbered where is_page group by 1, 2),
paths as (
  select p.visitor, p.visit, a.kind as kind_1, a.value as value_1, b.kind as kind_2, b.value as value_2,
    c.kind as kind_3, c.value as value_3
  from pages p join numbered n using (visitor, visit, number)
  left join numbered a on a.visitor = p.visitor and a.visit = p.visit and a.number = p.number {sign} 1
  left join numbered b on b.visitor = p.visitor and b.visit = p.visit and b.number = p.number {sign} 2
  left join numbered c on c.visitor = p.visitor and c.visit = p.visit and c.number = p.number {sign} 3
  where n.passes)
select kind_1, value_1, kind_2, value_2, kind_3, value_3, count(*) as visits from paths
group by all order by visits desc, kind_1, value_1, kind_2, value_2, kind_3, value_3",
        step_condition(&question.page, site)
    );
    sql
}
