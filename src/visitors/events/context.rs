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

    fn get(self, name: &str) -> Self {
        Self {
            own: self.own.and_then(|own| own.get(name)),
            under: self.visible_under().and_then(|under| under.get(name)),
        }
    }

    pub(super) fn string(self) -> Option<&'d str> {
        self.value()?.string()
    }

    /// The text of a member.
    pub(super) fn string_in(self, name: &str) -> Option<&'d str> {
        self.get(name).string()
    }

    pub(super) fn boolean(self) -> Option<bool> {
        self.value()?.boolean()
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

    fn write(self, out: &mut String) {
        let is_laid_over = |own: Value<'_>| own.is_object() && self.visible_under().is_some();
        if self.own.is_some_and(is_laid_over) {
            self.write_object(out, Ip::AsSent);
        } else if let Some(value) = self.visible_under().or(self.own) {
            value.write(out);
        }
    }

    /// Appends what is an object, where either is, with what becomes of its member `ip`.
    pub(super) fn write_object(self, out: &mut String, ip: Ip<'_>) {
        out.push('{');
        let is_kept = |name: &str| name != "ip" || ip != Ip::Gone;
        if let (Some(own), None, Ip::Gone | Ip::AsSent) = (self.own, self.visible_under(), ip) {
            own.write_members(is_kept, out);
            return out.push('}');
        }
        for (i, (member, value)) in self.members().filter(|(member, _)| is_kept(member.name)).enumerate() {
            begin_member(out, i == 0, member.name_source());
            match ip {
                // An address needs no escape.
                Ip::Written(ip) if member.name == "ip" => out.extend(["\"", ip, "\""]),
                _ => value.write(out),
            }
        }
        out.push('}');
    }
}

/// What becomes of `context.ip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ip<'a> {
    Gone,
    AsSent,
    Written(&'a str),
}

/// The members of a context that we read ourselves, found in one pass; `null` and `""` count as not there.
#[derive(Clone, Copy, Default)]
struct Known<'d> {
    page: Option<Value<'d>>,
    campaign: Option<Value<'d>>,
    consent: Option<Value<'d>>,
    locale: Option<Value<'d>>,
    user_agent: Option<Value<'d>>,
    preview: Option<Value<'d>>,
    ip: Option<Value<'d>>,
}

impl<'d> Known<'d> {
    fn of(context: Option<Value<'d>>) -> Self {
        let mut known = Self::default();
        let Some(context) = context else { return known };
        for member in context.members() {
            let slot = match member.name {
                "page" => &mut known.page,
                "campaign" => &mut known.campaign,
                "consent" => &mut known.consent,
                "locale" => &mut known.locale,
                "userAgent" => &mut known.user_agent,
                "preview" => &mut known.preview,
                "ip" => &mut known.ip,
                _ => continue,
            };
            *slot = member.value.present();
        }
        known
    }

    /// A consent that cannot be read must not pass for one that was given.
    fn check(&self, place: Place<'d>) -> Result<(), Refusal> {
        let objects = [self.page, self.campaign, self.consent];
        objects.into_iter().try_for_each(|value| Shape::Object.check(value, place))?;
        [self.locale, self.user_agent].into_iter().try_for_each(|value| Shape::Text.check(value, place))?;
        Shape::Truth.check(self.preview, place)?;
        Shape::Truth.check(self.consent.and_then(|consent| consent.find("measure")), place)
    }
}

/// The context of an event, checked, and what is read of it.
#[derive(Clone, Copy)]
pub(super) struct Context<'d> {
    pub whole: Layered<'d>,
    pub page: Layered<'d>,
    pub user_agent: Option<&'d str>,
    pub ip: Option<&'d str>,
    pub is_preview: bool,
    /// Whether the visitor does not want to be counted.
    pub is_refused: bool,
}

impl<'d> Context<'d> {
    /// `under` is that of its batch, checked.
    ///
    /// # Errors
    /// `invalid_event` with a pointer to what is wrong with the event's own.
    pub(super) fn read(
        own: Option<Value<'d>>,
        under: Option<Value<'d>>,
        place: Place<'d>,
    ) -> Result<Self, Refusal> {
        let (known, known_under) = (check(own, place)?, Known::of(under));
        let layered = |own, under| Layered { own, under };
        let consent = layered(known.consent, known_under.consent);
        Ok(Self {
            whole: layered(own, under),
            page: layered(known.page, known_under.page),
            user_agent: layered(known.user_agent, known_under.user_agent).string(),
            ip: layered(known.ip, known_under.ip).string(),
            is_preview: layered(known.preview, known_under.preview).boolean() == Some(true),
            is_refused: consent.get("measure").boolean() == Some(false),
        })
    }
}

/// What a member must be.
#[derive(Clone, Copy)]
enum Shape {
    Object,
    Text,
    Truth,
}

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

/// Checks a context that is a batch's.
///
/// # Errors
/// `invalid_event` with a pointer to what is wrong.
pub(super) fn check_batch<'d>(context: Value<'d>, place: Place<'d>) -> Result<(), Refusal> {
    check(Some(context), place)?;
    check_size(context, place)
}

fn check<'d>(context: Option<Value<'d>>, place: Place<'d>) -> Result<Known<'d>, Refusal> {
    Shape::Object.check(context, place)?;
    let known = Known::of(context);
    known.check(place).map(|()| known)
}

/// Checks that a batch's context can be laid under many events: no object has more than `CONTEXT_MEMBERS_MAX` members.
fn check_size<'d>(value: Value<'d>, place: Place<'d>) -> Result<(), Refusal> {
    if value.is_object() && value.len() > CONTEXT_MEMBERS_MAX {
        let expected = "a batch's context of at most 256 members an object";
        return Err(place.too_much(problem::INVALID_EVENT, value, expected, value.len()));
    }
    value.members().try_for_each(|member| check_size(member.value, place))
}
