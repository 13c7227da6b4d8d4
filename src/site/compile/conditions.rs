//! Compiles audiences and conditions to programs, over the vocabulary of profile paths.

use std::cell::Cell;

use serde_json::{Value as Json, json};

use super::fields::SiteFields;
use super::operands;
use crate::condition::program::Program;
use crate::condition::{self, Condition, ConditionError, Field, TABLE_FORMAT, Vocabulary};
use crate::limits::{AUDIENCE_CHAIN_MAX, AUDIENCES_MAX};
use crate::nfc;
use crate::site::profile_fields::ProfileField;
use crate::site::snapshot::format::{self, Audience};
use crate::site::snapshot::pattern_format::SitePatterns;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::Source;
use crate::site::source::types::{Audiences, Groups};

const AUDIENCES_FILE: &str = "audiences.json";

/// The parts of a site that conditions give.
pub(super) struct CompiledConditions {
    pub(super) patterns: SitePatterns,
    pub(super) audiences: Vec<Audience>,
    /// True if a condition depends on the URL.
    pub(super) sees_url: bool,
}

/// A compiler for the conditions of one site, with one shared table of regular expressions.
pub(super) struct ConditionCompiler<'s> {
    vocabulary: ProfileVocabulary<'s>,
    patterns: Vec<String>,
    audiences: Vec<Audience>,
}

impl<'s> ConditionCompiler<'s> {
    /// Creates the compiler and compiles the audiences, sorted by key.
    pub(super) fn new(source: &'s Source, diagnostics: &mut Diagnostics) -> Self {
        let words = ProfileVocabulary {
            audiences: source.audiences.as_ref(),
            groups: source.groups.as_ref(),
            fields: SiteFields::new(source),
            sees_url: Cell::new(false),
        };
        let mut conditions = Self { vocabulary: words, patterns: Vec::new(), audiences: Vec::new() };
        if let Some(audiences) = &source.audiences {
            conditions.compile_audiences(audiences, diagnostics);
        }
        conditions
    }

    fn compile_audiences(&mut self, audiences: &Audiences, diagnostics: &mut Diagnostics) {
        if audiences.len() > AUDIENCES_MAX {
            let expected = format!("at most {AUDIENCES_MAX} audiences");
            diagnostics.add_titled(AUDIENCES_FILE, "", "too many audiences", expected, audiences.len());
            return;
        }
        let mut read = Vec::with_capacity(audiences.len());
        for (key, audience) in audiences {
            let pointer = format!("/{key}/when");
            // An invalid condition is replaced by one that matches nobody, so that cycles of other audiences
            // are found.
            let condition = self.parse(AUDIENCES_FILE, &pointer, &audience.when, diagnostics);
            read.push(
                condition
                    .unwrap_or_else(|| condition::parse_lenient(&json!({ "$not": {} }), &Default::default())),
            );
        }
        if let Some(at) = condition::find_overlong_chain(&read) {
            let key = audiences.keys().nth(at).map_or("", |key| key);
            let expected = format!(
                "audiences without reference cycles, and chains of at most {AUDIENCE_CHAIN_MAX} audiences"
            );
            let actual = format!("a cycle or a longer chain that starts at `{key}`");
            let title = "audiences refer to each other in a cycle or in too long a chain";
            diagnostics.add_titled(AUDIENCES_FILE, format!("/{key}/when"), title, expected, actual);
        }
        for ((key, audience), condition) in audiences.iter().zip(&read) {
            let program =
                self.compile_parsed(AUDIENCES_FILE, &format!("/{key}/when"), condition, diagnostics);
            self.audiences.push(Audience {
                key: key.to_string(),
                name: audience.name.clone().unwrap_or_default(),
                condition: format::Condition { program, authored: audience.when.to_string() },
            });
        }
    }

    /// Compiles the condition at `pointer` in `file` to a program.
    pub(super) fn compile(
        &mut self,
        file: &str,
        pointer: &str,
        authored_condition: &Json,
        diagnostics: &mut Diagnostics,
    ) -> Program {
        match self.parse(file, pointer, authored_condition, diagnostics) {
            Some(condition) => self.compile_parsed(file, pointer, &condition, diagnostics),
            None => Program::constant(false),
        }
    }

    /// Returns the index of an audience, whose key is at `pointer`. An unknown audience is reported and replaced by the
    /// first one.
    pub(super) fn audience_index(
        &self,
        file: &str,
        pointer: &str,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> u16 {
        self.vocabulary.audience(key).unwrap_or_else(|| {
            let known = self.vocabulary.audience_names();
            let expected = "an audience of `audiences.json`";
            diagnostics.add_unknown(file, pointer, "audience", key, expected, known);
            0
        })
    }

    fn parse(
        &self,
        file: &str,
        pointer: &str,
        authored_condition: &Json,
        diagnostics: &mut Diagnostics,
    ) -> Option<Condition> {
        let condition = parse_condition(authored_condition, &self.vocabulary, file, pointer, diagnostics)?;
        operands::check(self.vocabulary.fields, file, pointer, authored_condition, diagnostics);
        // Paths of events and requests are in this form, too.
        let is_path = |field: &Field| ProfileField::from_code(field.code).is_some_and(ProfileField::is_path);
        Some(condition.map_field_texts(&is_path, |text| nfc::normalize(text).into_owned()))
    }

    /// Compiles a parsed condition, which is at `pointer` in `file`, to a program.
    pub(super) fn compile_parsed(
        &mut self,
        file: &str,
        pointer: &str,
        condition: &Condition,
        diagnostics: &mut Diagnostics,
    ) -> Program {
        condition.compile(&mut self.patterns).unwrap_or_else(|too_large| {
            let expected = "a smaller condition, or smaller groups";
            diagnostics.add_titled(file, pointer, "the condition is too large", expected, too_large);
            Program::constant(false)
        })
    }

    /// Returns the regular expressions of all conditions compiled so far.
    pub(super) fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns the site's regular expressions with their tables, its audiences, and whether a condition depends on the URL.
    pub(super) fn finish(self, diagnostics: &mut Diagnostics) -> CompiledConditions {
        let tables = condition::Patterns::new(&self.patterns).map(|patterns| patterns.tables());
        let tables = tables.unwrap_or_else(|fault| {
            let expected = "regular expressions that together fit the limit";
            let title = "the regular expressions of the site are too large";
            diagnostics.add_titled("site.json", "", title, expected, fault);
            Vec::new()
        });
        let sees_url = self.vocabulary.sees_url.get();
        let patterns = SitePatterns { sources: self.patterns, tables, table_format: TABLE_FORMAT };
        CompiledConditions { patterns, audiences: self.audiences, sees_url }
    }
}

/// Parses the condition at `pointer` in `file`. Reports its errors as diagnostics.
pub(super) fn parse_condition(
    condition: &Json,
    vocabulary: &dyn Vocabulary,
    file: &str,
    pointer: &str,
    diagnostics: &mut Diagnostics,
) -> Option<Condition> {
    condition::parse_strict(condition, vocabulary)
        .map_err(|faults| {
            for ConditionError { pointer: inner, expected, actual, nearest } in faults {
                let diagnostic = Diagnostic::at_value(file, format!("{pointer}{inner}"), expected, actual);
                diagnostics.add(diagnostic.with_nearest(nearest));
            }
        })
        .ok()
}

/// The names that conditions of this site can use. If a file has errors, every name in it counts as known, so
/// that references to it cause no further diagnostics.
struct ProfileVocabulary<'s> {
    audiences: Option<&'s Audiences>,
    groups: Option<&'s Groups>,
    fields: SiteFields<'s>,
    sees_url: Cell<bool>,
}

impl Vocabulary for ProfileVocabulary<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        let field = self.fields.find(path)?;
        let sees_url = ProfileField::from_code(field.code).is_some_and(ProfileField::sees_url);
        self.sees_url.set(self.sees_url.get() || sees_url);
        Ok(field)
    }

    fn expected_paths(&self, unknown_path: &str) -> String {
        self.fields.describe_paths(unknown_path)
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        self.groups.map_or(Some(&[]), |groups| groups.get(name).map(Vec::as_slice))
    }

    fn group_names(&self) -> Vec<&str> {
        self.groups.into_iter().flat_map(|groups| groups.keys()).map(|name| &**name).collect()
    }

    fn audience(&self, name: &str) -> Option<u16> {
        let Some(audiences) = self.audiences else { return Some(0) };
        audiences.keys().position(|key| **key == *name).map(|at| at as u16)
    }

    fn audience_names(&self) -> Vec<&str> {
        self.audiences.into_iter().flat_map(|audiences| audiences.keys()).map(|name| &**name).collect()
    }

    fn time_ms(&self, text: &str) -> Option<i64> {
        operands::parse_time_ms(text)
    }
}
