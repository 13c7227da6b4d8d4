//! Lists the fields that a condition tests, and the comparisons of a field with a literal.
//!
//! The condition is valid: the parser has accepted it. So an operand that has another form is skipped.

use serde_json::Value as Json;

use super::fields::SiteFields;
use crate::site::profile_fields::ProfileField;
use crate::site::source::diagnostics::join_token;

/// The comparison without an operator, which converts types as JavaScript does.
pub(super) const LOOSE: &str = "";

/// The fields and comparisons of one condition, in its order.
pub(super) struct Comparisons<'c> {
    /// The fields that conditions of the site can name.
    site_fields: SiteFields<'c>,
    pub(super) fields: Vec<FieldTest<'c>>,
    pub(super) all: Vec<Comparison<'c>>,
    /// The number of conjunctions so far.
    conjunctions: usize,
}

/// A field that a condition tests.
pub(super) struct FieldTest<'c> {
    pub(super) path: &'c str,
    pub(super) field: ProfileField,
    /// The name of the field, or an empty text.
    pub(super) name: String,
    pub(super) pointer: String,
}

impl FieldTest<'_> {
    /// Returns the path of the page that the condition names itself. The page of a goal is in `site.json`.
    pub(super) fn page_path(&self) -> Option<&str> {
        self.path.starts_with("pages.").then_some(&*self.name)
    }
}

/// A comparison of a field with a literal.
pub(super) struct Comparison<'c> {
    pub(super) path: &'c str,
    pub(super) field: ProfileField,
    pub(super) operator: &'c str,
    pub(super) literal: &'c Json,
    pub(super) pointer: String,
    /// The number of the conjunction. All comparisons of a conjunction must hold together.
    pub(super) conjunction: usize,
    /// True if the condition holds only if the conjunction does not hold.
    pub(super) is_negated: bool,
    /// True if the comparison is with the number of occurrences (`$count`).
    pub(super) is_count: bool,
}

/// A conjunction in which a part of the condition is.
#[derive(Clone, Copy)]
struct Scope {
    conjunction: usize,
    is_negated: bool,
}

impl<'c> Comparisons<'c> {
    /// Collects those of the condition at `pointer`. `site_fields` are those that it can name.
    pub(super) fn collect(site_fields: SiteFields<'c>, condition: &'c Json, pointer: &str) -> Self {
        let mut found = Self { site_fields, fields: Vec::new(), all: Vec::new(), conjunctions: 0 };
        let scope = found.begin(false);
        found.add_condition(condition, pointer, scope);
        found
    }

    /// Begins a conjunction.
    fn begin(&mut self, is_negated: bool) -> Scope {
        self.conjunctions += 1;
        Scope { conjunction: self.conjunctions, is_negated }
    }

    fn add_condition(&mut self, condition: &'c Json, pointer: &str, scope: Scope) {
        for (key, operand) in condition.as_object().into_iter().flatten() {
            let pointer = join_token(pointer, key);
            match key.as_str() {
                "$and" => each_item(operand, &pointer, |item, pointer| {
                    self.add_condition(item, &pointer, scope);
                }),
                "$or" | "$nor" => each_item(operand, &pointer, |item, pointer| {
                    let scope = self.begin(scope.is_negated != (key == "$nor"));
                    self.add_condition(item, &pointer, scope);
                }),
                "$not" => {
                    let scope = self.begin(!scope.is_negated);
                    self.add_condition(operand, &pointer, scope);
                }
                path => {
                    let Ok(found) = self.site_fields.find(path) else { continue };
                    let Some(field) = ProfileField::from_code(found.code) else { continue };
                    let subject = Subject { path, field };
                    self.add_test(operand, &pointer, subject, scope);
                    self.fields.push(FieldTest { path, field, name: found.name, pointer });
                }
            }
        }
    }

    /// Adds the comparisons of the value beside a path: a literal, or an object of operators.
    fn add_test(&mut self, test: &'c Json, pointer: &str, subject: Subject<'c>, scope: Scope) {
        let operators = test.as_object().filter(|members| members.keys().any(|key| key.starts_with('$')));
        let Some(operators) = operators else {
            return self.add(LOOSE, test, pointer.to_owned(), subject, scope, false);
        };
        for (operator, operand) in operators {
            let pointer = join_token(pointer, operator);
            match operator.as_str() {
                "$not" => {
                    let scope = self.begin(!scope.is_negated);
                    self.add_test(operand, &pointer, subject, scope);
                }
                "$in" | "$nin" | "$ini" | "$nini" => each_item(operand, &pointer, |item, pointer| {
                    self.add(operator, item, pointer, subject, scope, false);
                }),
                "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" => {
                    self.add(operator, operand, pointer, subject, scope, false);
                }
                "$count" => {
                    let scope = self.begin(scope.is_negated);
                    let members = operand.as_object().into_iter().flatten();
                    for (operator, bound) in members.filter(|(name, _)| *name != "within") {
                        self.add(operator, bound, join_token(&pointer, operator), subject, scope, true);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(
        &mut self,
        operator: &'c str,
        literal: &'c Json,
        pointer: String,
        subject: Subject<'c>,
        scope: Scope,
        is_count: bool,
    ) {
        let Subject { path, field } = subject;
        let Scope { conjunction, is_negated } = scope;
        let test = Comparison { path, field, operator, literal, pointer, conjunction, is_negated, is_count };
        self.all.push(test);
    }

    /// Returns the comparisons that must hold together, in groups of one conjunction and one path. Only these groups can
    /// contradict themselves.
    pub(super) fn windows(&self) -> Vec<Vec<&Comparison<'c>>> {
        let mut sorted: Vec<&Comparison<'_>> = self.all.iter().collect();
        sorted.sort_by_key(|comparison| (comparison.conjunction, comparison.path));
        let together =
            |a: &&Comparison<'_>, b: &&Comparison<'_>| a.conjunction == b.conjunction && a.path == b.path;
        sorted.chunk_by(together).map(<[_]>::to_vec).collect()
    }
}

/// The field of a test.
#[derive(Clone, Copy)]
struct Subject<'c> {
    path: &'c str,
    field: ProfileField,
}

fn each_item<'c>(items: &'c Json, pointer: &str, mut add: impl FnMut(&'c Json, String)) {
    for (i, item) in items.as_array().into_iter().flatten().enumerate() {
        add(item, join_token(pointer, &i.to_string()));
    }
}
