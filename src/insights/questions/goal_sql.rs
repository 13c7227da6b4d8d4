//! Writes the conditions and the amounts of goals in SQL.

use super::goals::ChosenGoal;
use super::site::SiteFacts;
use super::sql_parts::text;
use crate::limits::{CURRENCY_CHARS_MAX, PROPERTY_VALUE_BYTES_MAX};
use crate::site::experiment_metrics::Goal;
use crate::site::goals::{PropertyBound, PropertyPath, PropertyTest, PropertyValue, SiteGoal};

/// Returns the condition that an event reaches a goal. `prefix` is before each column, such as `e.`.
pub(crate) fn chosen_condition(goal: &ChosenGoal, site: &SiteFacts, prefix: &str) -> String {
    match goal {
        ChosenGoal::OfSite(number) => goal_condition(&site.goals.all()[*number], prefix),
        ChosenGoal::Target(target) => target_condition(target, prefix),
    }
}

/// Returns the condition that an event is the event or the page of a goal. `prefix` is before each column.
fn target_condition(target: &Goal<String>, prefix: &str) -> String {
    let (kinds, column, pattern) = match target {
        Goal::Event(name) => ("in ('track', 'screen')", "event", name),
        Goal::Page(path) => ("= 'page'", "path", path),
    };
    match pattern.strip_suffix('*') {
        Some(beginning) => {
            let beginning = text(beginning);
            format!("{prefix}type {kinds} and coalesce(starts_with({prefix}{column}, {beginning}), false)")
        }
        None => format!("{prefix}type {kinds} and {prefix}{column} = {}", text(pattern)),
    }
}

/// Returns the condition that an event reaches a goal of the site. `prefix` is before each column.
pub(crate) fn goal_condition(goal: &SiteGoal, prefix: &str) -> String {
    let tests =
        goal.tests.iter().flat_map(|(path, test)| test_conditions(&EventProperty { prefix, path }, test));
    let conditions: Vec<String> = [target_condition(&goal.target, prefix)].into_iter().chain(tests).collect();
    conditions.join("\n    and ")
}

/// Returns the amount of a property, as a decimal number. It is null if the value is no amount.
pub(crate) fn amount(path: &PropertyPath, prefix: &str) -> String {
    let property = EventProperty { prefix, path };
    let kind = property.kind();
    let value = property.value();
    format!(
        "try_cast(if({kind} in ('BIGINT', 'UBIGINT', 'DOUBLE')
      or regexp_full_match({value}, '-?[0-9]+([.][0-9]+)?'), {value}, null) as decimal(15,4))"
    )
}

/// Returns the value of a property in a breakdown. It is null if the property has none.
pub(crate) fn breakdown(path: &PropertyPath, prefix: &str) -> String {
    let property = EventProperty { prefix, path };
    let kind = property.kind();
    let value = property.value();
    format!(
        "if(strlen({value}) > {PROPERTY_VALUE_BYTES_MAX}, '(other)', if({kind} in ('VARCHAR', 'BOOLEAN', 'BIGINT', 'UBIGINT')
      or {kind} = 'DOUBLE' and (try_cast({value} as double) = 0 or abs(try_cast({value} as double)) >= 0.0001
      and abs(try_cast({value} as double)) < 1e15), {value}, null))"
    )
}

/// Returns the condition that the property is present and not null.
pub(crate) fn exists(path: &PropertyPath, prefix: &str) -> String {
    format!("coalesce({} <> 'NULL', false)", EventProperty { prefix, path }.kind())
}

/// Returns the currency of an amount. It is null if the property is no text of 1 to [`CURRENCY_CHARS_MAX`] characters.
pub(crate) fn currency(path: &PropertyPath, prefix: &str) -> String {
    let property = EventProperty { prefix, path };
    let kind = property.kind();
    let value = property.value();
    format!("if({kind} = 'VARCHAR' and length({value}) between 1 and {CURRENCY_CHARS_MAX}, {value}, null)")
}

/// A property of events, and the prefix of their columns.
struct EventProperty<'p> {
    prefix: &'p str,
    path: &'p PropertyPath,
}

impl EventProperty<'_> {
    /// Returns the JSON type of the property.
    fn kind(&self) -> String {
        format!("json_type({}payload, {})", self.prefix, text(&self.path.json_path()))
    }

    /// Returns the text of the property.
    fn value(&self) -> String {
        format!("{}payload->>{}", self.prefix, text(&self.path.json_path()))
    }

    fn compare_text(&self, operator: &str, operand: &str) -> String {
        format!(
            "coalesce({} = 'VARCHAR' and ({}) {operator} {}, false)",
            self.kind(),
            self.value(),
            text(operand)
        )
    }

    fn compare_number(&self, operator: &str, operand: &serde_json::Number) -> String {
        format!(
            "coalesce({} in ('BIGINT', 'UBIGINT', 'DOUBLE') and try_cast({} as double) {operator} cast('{operand}' as double), false)",
            self.kind(),
            self.value()
        )
    }

    fn equals(&self, value: &PropertyValue) -> String {
        match value {
            PropertyValue::Text(operand) => self.compare_text("=", operand),
            PropertyValue::Number(operand) => self.compare_number("=", operand),
            PropertyValue::Boolean(operand) => {
                format!("coalesce({} = 'BOOLEAN' and ({}) = '{operand}', false)", self.kind(), self.value())
            }
        }
    }

    fn compare(&self, operator: &str, bound: &PropertyBound) -> String {
        match bound {
            PropertyBound::Text(operand) => self.compare_text(operator, operand),
            PropertyBound::Number(operand) => self.compare_number(operator, operand),
        }
    }
}

/// Returns one condition for each operator of a test.
fn test_conditions(property: &EventProperty<'_>, test: &PropertyTest) -> Vec<String> {
    let any_of = |values: &Vec<PropertyValue>| {
        let conditions: Vec<String> = values.iter().map(|value| property.equals(value)).collect();
        format!("({})", conditions.join(" or "))
    };
    let mut conditions = Vec::new();
    conditions.extend(test.eq.as_ref().map(|value| property.equals(value)));
    conditions.extend(test.ne.as_ref().map(|value| format!("not {}", property.equals(value))));
    conditions.extend(test.one_of.as_ref().map(any_of));
    conditions.extend(test.none_of.as_ref().map(|values| format!("not {}", any_of(values))));
    let bounds = [(">", &test.gt), (">=", &test.gte), ("<", &test.lt), ("<=", &test.lte)];
    for (operator, bound) in bounds {
        conditions.extend(bound.as_ref().map(|bound| property.compare(operator, bound)));
    }
    conditions.extend(test.exists.map(|is_present| match is_present {
        true => exists(property.path, property.prefix),
        false => format!("not {}", exists(property.path, property.prefix)),
    }));
    conditions
}
