//! Audiences and conditions to programs, over the vocabulary of the profile document.

use std::cell::Cell;

use serde_json::{Value as Json, json};

use crate::condition::{self, Condition, Fault, Field, Vocabulary};
use crate::limits::{AUDIENCE_CHAIN_MAX, AUDIENCES_MAX};
use crate::nearest::nearest;
use crate::site::profile_fields::{self, ProfileField};
use crate::site::snapshot::format::Audience;
use crate::site::source::diagnostics::{Mistake, Mistakes};
use crate::site::source::read::Source;
use crate::site::source::types::{Audiences, Groups};

const FILE: &str = "audiences.json";

/// Compiles the conditions of one site into one table of regular expressions.
pub(super) struct Conditions<'s> {
    words: Words<'s>,
    patterns: Vec<String>,
    audiences: Vec<Audience>,
}

impl<'s> Conditions<'s> {
    /// Begins with the audiences, sorted by key.
    pub(super) fn new(source: &'s Source, mistakes: &mut Mistakes) -> Self {
        let words = Words {
            audiences: source.audiences.as_ref(),
            groups: source.groups.as_ref(),
            sees_url: Cell::new(false),
        };
        let mut conditions = Self { words, patterns: Vec::new(), audiences: Vec::new() };
        if let Some(audiences) = &source.audiences {
            conditions.audiences(audiences, mistakes);
        }
        conditions
    }

    fn audiences(&mut self, audiences: &Audiences, mistakes: &mut Mistakes) {
        if audiences.len() > AUDIENCES_MAX {
            let expected = format!("at most {AUDIENCES_MAX} audiences");
            mistakes.add(Mistake::of_value(FILE, "", expected, audiences.len().to_string()));
            return;
        }
        let mut read = Vec::with_capacity(audiences.len());
        for (key, audience) in audiences {
            let pointer = format!("/{key}/when");
            // One that cannot be read stands in as "nobody", so that circles among the others show.
            let condition = self.read(FILE, &pointer, &audience.when, mistakes);
            read.push(
                condition.unwrap_or_else(|| condition::lenient(&json!({ "$not": {} }), &Default::default())),
            );
        }
        if let Some(at) = condition::overlong_chain(&read) {
            let key = audiences.keys().nth(at).map_or("", |key| key);
            let expected = format!(
                "audiences that name each other in no circle, and at most {AUDIENCE_CHAIN_MAX} in a row"
            );
            let came = format!("`{key}`, which comes back to itself or goes on too long");
            mistakes.add(Mistake::of_value(FILE, format!("/{key}/when"), expected, came));
        }
        for ((key, audience), condition) in audiences.iter().zip(&read) {
            let program = self.program(FILE, &format!("/{key}/when"), condition, mistakes);
            self.audiences.push(Audience {
                key: key.to_string(),
                name: audience.name.clone().unwrap_or_default(),
                program,
            });
        }
    }

    /// The program of the condition that stands at `pointer` in `file`.
    pub(super) fn compile(
        &mut self,
        file: &str,
        pointer: &str,
        when: &Json,
        mistakes: &mut Mistakes,
    ) -> Vec<u8> {
        match self.read(file, pointer, when, mistakes) {
            Some(condition) => self.program(file, pointer, &condition, mistakes),
            None => Vec::new(),
        }
    }

    /// The program that asks for one audience, whose key stands at `pointer`.
    pub(super) fn audience(
        &mut self,
        file: &str,
        pointer: &str,
        key: &str,
        mistakes: &mut Mistakes,
    ) -> Vec<u8> {
        if self.words.audience(key).is_none() {
            let known = self.words.audience_names();
            let mistake =
                Mistake::of_value(file, pointer, "an audience of `audiences.json`", format!("{key:?}"));
            mistakes.add(mistake.with_nearest(nearest(key, known)));
            return Vec::new();
        }
        self.compile(file, pointer, &json!({ "$audience": key }), mistakes)
    }

    fn read(&self, file: &str, pointer: &str, when: &Json, mistakes: &mut Mistakes) -> Option<Condition> {
        read(when, &self.words, (file, pointer), mistakes)
    }

    /// The program of a condition that was read, which stands at `pointer` in `file`.
    pub(super) fn program(
        &mut self,
        file: &str,
        pointer: &str,
        condition: &Condition,
        mistakes: &mut Mistakes,
    ) -> Vec<u8> {
        condition.compile(&mut self.patterns).unwrap_or_else(|too_large| {
            let expected = "a smaller condition, or smaller groups";
            mistakes.add(Mistake::of_value(file, pointer, expected, too_large.to_string()));
            Vec::new()
        })
    }

    /// The regular expressions of what was compiled so far.
    pub(super) fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The site's regular expressions and audiences, and whether a condition looks at the URL.
    pub(super) fn finish(self, mistakes: &mut Mistakes) -> (Vec<String>, Vec<Audience>, bool) {
        if let Err(fault) = condition::Patterns::new(&self.patterns) {
            let expected = "regular expressions that fit beside each other";
            mistakes.add(Mistake::of_value("site.json", "", expected, fault.to_string()));
        }
        (self.patterns, self.audiences, self.words.sees_url.get())
    }
}

/// Reads the condition that stands at `pointer` in `file`; its faults become mistakes.
pub(super) fn read(
    written: &Json,
    words: &dyn Vocabulary,
    (file, pointer): (&str, &str),
    mistakes: &mut Mistakes,
) -> Option<Condition> {
    condition::strict(written, words)
        .map_err(|faults| {
            for Fault { pointer: inner, expected, came, nearest } in faults {
                let mistake = Mistake::of_value(file, format!("{pointer}{inner}"), expected, came);
                mistakes.add(mistake.with_nearest(nearest));
            }
        })
        .ok()
}

/// What conditions of this site may name. A file with mistakes is taken to hold every name, so that
/// what names it is not reported as well.
struct Words<'s> {
    audiences: Option<&'s Audiences>,
    groups: Option<&'s Groups>,
    sees_url: Cell<bool>,
}

impl Vocabulary for Words<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        let field = profile_fields::field(path)?;
        let sees_url = ProfileField::of(field.code).is_some_and(ProfileField::sees_url);
        self.sees_url.set(self.sees_url.get() || sees_url);
        Ok(field)
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
        text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
    }
}
