//! Tests that compare a field with a value that it never has.
//!
//! The condition is valid: the parser has accepted it. So an operand that has another form is not checked here.

use serde_json::Value as Json;

use super::conditions::SiteCondition;
use crate::nearest::nearest;
use crate::site::compile::fields::SiteFields;
use crate::site::profile_fields::ProfileField;
use crate::site::profile_values::{FieldValues, ValueType};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, push_token};

/// The comparison without an operator, which converts types as JavaScript does.
const LOOSE: &str = "";

/// Adds the warnings about a condition. `site_fields` are those that it can name.
pub(super) fn check(site_fields: SiteFields<'_>, condition: &SiteCondition<'_>, warnings: &mut Diagnostics) {
    let SiteCondition { file, ref pointer, when, .. } = *condition;
    let mut lint = ValueLint { site_fields, file, pointer: pointer.clone(), warnings };
    lint.check_condition(when);
}

struct ValueLint<'c> {
    site_fields: SiteFields<'c>,
    file: &'c str,
    /// The pointer to the current value.
    pointer: String,
    warnings: &'c mut Diagnostics,
}

/// A field and its possible values.
#[derive(Clone, Copy)]
struct Subject<'c> {
    path: &'c str,
    values: FieldValues,
}

impl ValueLint<'_> {
    fn check_condition(&mut self, condition: &Json) {
        for (key, operand) in condition.as_object().into_iter().flatten() {
            self.at_token(key, |lint| match key.as_str() {
                "$and" | "$or" | "$nor" => lint.each_item(operand, |lint, item| lint.check_condition(item)),
                "$not" => lint.check_condition(operand),
                path => {
                    let field = lint
                        .site_fields
                        .find(path)
                        .ok()
                        .and_then(|field| ProfileField::from_code(field.code));
                    if let Some(field) = field {
                        lint.check_test(operand, Subject { path, values: FieldValues::of(field) });
                    }
                }
            });
        }
    }

    /// Checks the value beside a path: a literal, or an object of operators.
    fn check_test(&mut self, test: &Json, subject: Subject<'_>) {
        let operators = test.as_object().filter(|members| members.keys().any(|key| key.starts_with('$')));
        let Some(operators) = operators else { return self.check_literal(LOOSE, test, subject) };
        for (operator, operand) in operators {
            self.at_token(operator, |lint| match operator.as_str() {
                "$not" => lint.check_test(operand, subject),
                "$in" | "$nin" | "$ini" | "$nini" => {
                    lint.each_item(operand, |lint, item| lint.check_literal(operator, item, subject));
                }
                "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" => {
                    lint.check_literal(operator, operand, subject);
                }
                "$all" | "$alli" | "$elemMatch" | "$size" if subject.values.value_type != ValueType::Any => {
                    let expected = format!("an operator for {}", subject.values.value_type.name());
                    lint.warn(&expected, operator, format!("`{}` is never an array", subject.path), None);
                }
                _ => {}
            });
        }
    }

    fn check_literal(&mut self, operator: &str, literal: &Json, subject: Subject<'_>) {
        let Subject { path, values } = subject;
        if !can_compare(values.value_type, operator, literal) {
            let title = format!("`{path}` is {}, which never matches {literal}", values.value_type.name());
            return self.warn(values.value_type.name(), &literal.to_string(), title, None);
        }
        let is_equality = !matches!(operator, "$gt" | "$gte" | "$lt" | "$lte");
        let Some(text) = literal.as_str().filter(|_| is_equality) else {
            let number = literal.as_f64().filter(|number| is_equality && !values.list.has_number(*number));
            if number.is_some() {
                let title = format!("`{path}` is never {literal}");
                self.warn(&values.list.description(), &literal.to_string(), title, None);
            }
            return;
        };
        let ignores_case = matches!(operator, "$ini" | "$nini");
        if !values.list.has_text(text, ignores_case) {
            let hint =
                values.list.suggest(text).or_else(|| nearest(text, values.list.names().iter().copied()));
            let title = format!("`{path}` is never {literal}");
            self.warn(&values.list.description(), &literal.to_string(), title, hint);
        }
    }

    fn each_item(&mut self, items: &Json, mut check: impl FnMut(&mut Self, &Json)) {
        for (i, item) in items.as_array().into_iter().flatten().enumerate() {
            self.at_token(&i.to_string(), |lint| check(lint, item));
        }
    }

    fn at_token(&mut self, token: &str, check: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        push_token(&mut self.pointer, token);
        check(self);
        self.pointer.truncate(length);
    }

    fn warn(&mut self, expected: &str, actual: &str, title: String, suggestion: Option<String>) {
        let diagnostic = Diagnostic::at_value(self.file, self.pointer.clone(), expected, actual);
        self.warnings.add(diagnostic.with_title(title).with_nearest(suggestion));
    }
}

/// Returns whether some value of the type passes the comparison with `literal`.
fn can_compare(value_type: ValueType, operator: &str, literal: &Json) -> bool {
    let is_exact = matches!(operator, "$eq" | "$ne" | "$in" | "$nin");
    match (value_type, literal) {
        (ValueType::Any, _) | (_, Json::Null) => true,
        (_, Json::Array(_) | Json::Object(_)) => false,
        (ValueType::Boolean, Json::Bool(_)) | (ValueType::Number, Json::Number(_)) => true,
        (ValueType::Text | ValueType::NumericText, Json::String(_)) => true,
        (_, _) if is_exact => false,
        (ValueType::Text, Json::Number(_)) => false,
        (ValueType::NumericText, Json::Number(_)) | (_, Json::Bool(_)) => true,
        (ValueType::Boolean, Json::Number(number)) => matches!(number.as_f64(), Some(0.0 | 1.0)),
        (ValueType::Boolean, Json::String(text)) => matches!(text.as_str(), "true" | "false"),
        (ValueType::Number, Json::String(text)) => text.trim().parse::<f64>().is_ok(),
    }
}
