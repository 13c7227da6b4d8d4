//! The location of an event in a body, and the refusals of its values.

use super::document::Value;
use super::refusal::{OwnedActual, Refusal};
use crate::problem::{Detail, ProblemKind};

/// The location of an event, for JSON pointers to values inside it.
#[derive(Clone, Copy)]
pub(super) struct Location<'d> {
    /// The index of the event in its batch. `None` if `base` is the whole body.
    pub index: Option<usize>,
    pub base: Value<'d>,
}

impl<'d> Location<'d> {
    fn pointer(self, value: Value<'d>, member_name: Option<&str>) -> String {
        let mut pointer = self.index.map(|index| format!("/batch/{index}")).unwrap_or_default();
        self.base.write_pointer_to(value, &mut pointer);
        pointer.extend(member_name.into_iter().flat_map(|name| ["/", name]));
        pointer
    }

    /// Creates a refusal of `value`: "Expected {expected}, got '{value}'."
    pub(super) fn refuse(
        self,
        kind: &'static ProblemKind,
        value: Value<'d>,
        expected: &'static str,
    ) -> Refusal {
        let actual = OwnedActual::of_text(value.as_str().unwrap_or(value.source()));
        let pointer = Some(self.pointer(value, None));
        Refusal { kind, pointer, detail: Detail::Expected(expected), actual }
    }

    /// Creates a refusal of `value` because `count` is over a limit. The count replaces `{}` in `sentence`.
    pub(super) fn refuse_count(
        self,
        kind: &'static ProblemKind,
        value: Value<'d>,
        sentence: &'static str,
        count: usize,
    ) -> Refusal {
        let pointer = Some(self.pointer(value, None));
        Refusal { kind, pointer, detail: Detail::Sentence(sentence), actual: OwnedActual::Count(count) }
    }

    /// Creates a refusal because `member_name` is missing. Its name must need no escape in a JSON pointer.
    pub(super) fn refuse_missing(
        self,
        kind: &'static ProblemKind,
        member_name: &str,
        sentence: &'static str,
    ) -> Refusal {
        let pointer = Some(self.pointer(self.base, Some(member_name)));
        Refusal { kind, pointer, detail: Detail::Sentence(sentence), actual: OwnedActual::Missing }
    }
}
