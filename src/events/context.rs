//! The context of an event, with that of its batch under it.
//!
//! Objects are laid over each other member by member, as deep as both are objects; otherwise the event's own value stands.
//! What the event leaves out, or gives as `null` or `""`, comes from the batch. Reading and writing go by the same rule.

use super::document::{Member, Value, begin_member};
use super::refusal::{Place, Refusal};
use crate::limits::CONTEXT_MEMBERS_MAX;
use crate::problem;

/// A value of an event and the value at the same place of its batch.
#[derive(Clone, Copy)]
pub(super) struct Layered<'d> {
    pub own: Option<Value<'d>>,
    pub under: Option<Value<'d>>,
}

impl<'d> Layered<'d> {
    /// The batch's value where it counts.
    fn visible_under(self) -> Option<Value<'d>> {
        let own = self.own.and_then(Value::present);
        self.under.filter(|under| own.is_none_or(|own| own.is_object() && under.is_object()))
    }

    /// The value that stands: the event's own, else the batch's.
    pub(super) fn value(self) -> Option<Value<'d>> {
        self.own.and_then(Value::present).or(self.under.and_then(Value::present))
    }

    pub(super) fn get(self, name: &str) -> Self {
        Self {
            own: self.own.and_then(|own| own.get(name)),
            under: self.visible_under().and_then(|under| under.get(name)),
        }
    }

    pub(super) fn string(self, name: &str) -> Option<&'d str> {
        self.get(name).value()?.string()
    }

    pub(super) fn is_true(self, name: &str) -> bool {
        self.get(name).value().and_then(Value::boolean) == Some(true)
    }

    /// The members of both: the event's, then what only the batch has.
    fn members(self) -> impl Iterator<Item = (Member<'d>, Self)> {
        let (own, under) = (self.own.filter(|own| own.is_object()), self.visible_under());
        let owned = own.into_iter().flat_map(Value::members).map(move |member| {
            let under = under.and_then(|under| under.get(member.name));
            (member, Self { own: Some(member.value), under })
        });
        let rest = under.into_iter().flat_map(Value::members);
        let rest = rest.filter(move |member| own.is_none_or(|own| own.get(member.name).is_none()));
        owned.chain(rest.map(|member| (member, Self { own: None, under: Some(member.value) })))
    }

    fn write(self, out: &mut Vec<u8>) {
        let is_laid_over = |own: Value<'_>| own.is_object() && self.visible_under().is_some();
        if self.own.is_some_and(is_laid_over) {
            self.write_object(out, Ip::AsSent);
        } else if let Some(value) = self.visible_under().or(self.own) {
            value.write(out);
        }
    }

    /// Appends what is an object, where either is, with what becomes of its member `ip`.
    pub(super) fn write_object(self, out: &mut Vec<u8>, ip: Ip<'_>) {
        out.push(b'{');
        let kept = self.members().filter(|(member, _)| member.name != "ip" || ip != Ip::Gone);
        for (i, (member, value)) in kept.enumerate() {
            begin_member(out, i == 0, member.name_source);
            match ip {
                Ip::Written(ip) if member.name == "ip" => crate::json::string(out, ip),
                _ => value.write(out),
            }
        }
        out.push(b'}');
    }
}

/// What becomes of `context.ip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ip<'a> {
    Gone,
    AsSent,
    Written(&'a str),
}

/// What a context must be where we read it ourselves.
#[derive(Clone, Copy)]
enum Shape {
    Object,
    Text,
    Truth,
}

const SHAPES: [(&str, Shape); 6] = [
    ("page", Shape::Object),
    ("campaign", Shape::Object),
    ("consent", Shape::Object),
    ("locale", Shape::Text),
    ("userAgent", Shape::Text),
    ("preview", Shape::Truth),
];

impl Shape {
    fn check<'d>(self, value: Option<Value<'d>>, place: Place<'d>) -> Result<(), Refusal> {
        let Some(value) = value else { return Ok(()) };
        let (fits, expected) = match self {
            Self::Object => (value.is_object(), "an object"),
            Self::Text => (value.string().is_some(), "a string"),
            Self::Truth => (value.boolean().is_some(), "true or false"),
        };
        if fits { Ok(()) } else { Err(place.refuse(problem::INVALID_EVENT, value, expected)) }
    }
}

/// Checks a context, an event's or a batch's own: a consent that cannot be read must not pass for one that was given.
///
/// # Errors
/// `invalid_event` with a pointer to what is wrong.
pub(super) fn check<'d>(context: Option<Value<'d>>, place: Place<'d>) -> Result<(), Refusal> {
    let Some(context) = context else { return Ok(()) };
    Shape::Object.check(Some(context), place)?;
    for (name, shape) in SHAPES {
        shape.check(context.find(name), place)?;
    }
    Shape::Truth.check(context.find("consent").and_then(|consent| consent.find("measure")), place)
}

/// Checks that a batch's context can be laid under many events.
///
/// # Errors
/// `invalid_event` where an object has more than `CONTEXT_MEMBERS_MAX` members.
pub(super) fn check_size<'d>(value: Value<'d>, place: Place<'d>) -> Result<(), Refusal> {
    if value.is_object() && value.len() > CONTEXT_MEMBERS_MAX {
        let expected = "a batch's context of at most 256 members an object";
        return Err(place.too_much(problem::INVALID_EVENT, value, expected, value.len()));
    }
    value.members().try_for_each(|member| check_size(member.value, place))
}
