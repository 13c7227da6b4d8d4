//! The context of an event, merged with that of its batch.
//!
//! Objects are merged member by member at every depth. Any other value of the event overrides that of the
//! batch. Members that the event omits, or gives as `null` or `""`, come from the batch. Reading and writing
//! follow the same rule.

use super::document::{Member, Value, write_member_name};
use super::ignored::{IgnoredValues, JsonType};
use super::location::Location;
use super::refusal::Refusal;
use crate::country::country_code;
use crate::limits::CONTEXT_MEMBERS_MAX;
use crate::problem;
use crate::record::Code;

/// A value of an event and the value with the same path in its batch.
#[derive(Clone, Copy)]
pub(super) struct MergedValue<'d> {
    pub event: Option<Value<'d>>,
    pub batch: Option<Value<'d>>,
}

impl<'d> MergedValue<'d> {
    /// Returns the batch's value, unless the event's own value overrides it.
    fn batch_value(self) -> Option<Value<'d>> {
        let own = self.event.and_then(Value::present);
        self.batch.filter(|under| own.is_none_or(|own| own.is_object() && under.is_object()))
    }

    /// Returns the effective value: the event's own, else the batch's.
    pub(super) fn value(self) -> Option<Value<'d>> {
        self.event.and_then(Value::present).or(self.batch.and_then(Value::present))
    }

    pub(super) fn get(self, name: &str) -> Self {
        Self {
            event: self.event.and_then(|event| event.get(name)),
            batch: self.batch_value().and_then(|under| under.get(name)),
        }
    }

    pub(super) fn as_str(self) -> Option<&'d str> {
        self.value()?.as_str()
    }

    /// Returns the text of a member.
    pub(super) fn get_str(self, name: &str) -> Option<&'d str> {
        self.get(name).as_str()
    }

    pub(super) fn as_bool(self) -> Option<bool> {
        self.value()?.as_bool()
    }

    /// Iterates over the members of both: first the event's, then those that only the batch has.
    fn members(self) -> impl Iterator<Item = (Member<'d>, Self)> {
        let own = self.event.filter(|own| own.is_object());
        let under = self.batch_value();
        let owned = own.into_iter().flat_map(Value::members).map(move |member| {
            let under = under.and_then(|under| under.get(member.name));
            (member, Self { event: Some(member.value), batch: under })
        });
        let rest = under.into_iter().flat_map(Value::members);
        let rest = rest.filter(move |member| own.is_none_or(|own| own.get(member.name).is_none()));
        owned.chain(rest.map(|member| (member, Self { event: None, batch: Some(member.value) })))
    }

    fn write(self, out: &mut String) {
        let is_laid_over = |own: Value<'_>| own.is_object() && self.batch_value().is_some();
        if self.event.is_some_and(is_laid_over) {
            self.write_object(out, |_| true, IpAction::Keep);
        } else if let Some(value) = self.batch_value().or(self.event) {
            value.write(out);
        }
    }

    /// Appends a context. Applies `ip_action` to its member `ip`, and leaves out the hash of the user ID, which nobody may read
    /// in a record. At least one of the two values must be an object.
    pub(super) fn write_context(self, out: &mut String, ip_action: IpAction<'_>) {
        let is_kept = |name: &str| match name {
            "ip" => ip_action != IpAction::Remove,
            "userHash" => false,
            _ => true,
        };
        self.write_object(out, is_kept, ip_action);
    }

    /// Appends the kept members of the merged object, and replaces its member `ip` if `ip_action` says so. At least one
    /// of the two values must be an object.
    fn write_object(self, out: &mut String, is_kept: impl Fn(&str) -> bool, ip_action: IpAction<'_>) {
        out.push('{');
        let keeps_or_removes = !matches!(ip_action, IpAction::Replace(_));
        if let Some(own) = self.event.filter(|_| keeps_or_removes && self.batch_value().is_none()) {
            own.write_members(is_kept, out);
            return out.push('}');
        }
        for (i, (member, value)) in self.members().filter(|(member, _)| is_kept(member.name)).enumerate() {
            write_member_name(out, i == 0, member.name_source());
            match ip_action {
                // An address needs no escape.
                IpAction::Replace(ip) if member.name == "ip" => out.extend(["\"", ip, "\""]),
                _ => value.write(out),
            }
        }
        out.push('}');
    }
}

/// The treatment of `context.ip` in the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IpAction<'a> {
    Remove,
    Keep,
    Replace(&'a str),
}

/// The members of a context that the server reads, collected in one pass. `null` and `""` count as missing.
#[derive(Clone, Copy, Default)]
struct ContextFields<'d> {
    page: Option<Value<'d>>,
    campaign: Option<Value<'d>>,
    consent: Option<Value<'d>>,
    locale: Option<Value<'d>>,
    user_agent: Option<Value<'d>>,
    preview: Option<Value<'d>>,
    ip: Option<Value<'d>>,
    /// True if there is a member `ip`, also if its value is `null` or `""`.
    names_ip: bool,
    country: Option<Value<'d>>,
    location: Option<Value<'d>>,
    user_hash: Option<Value<'d>>,
    /// True if there is a member `userHash`, also if its value is `null` or `""`.
    names_user_hash: bool,
    /// True if there is a member `device` or `os`. Few events have one, so they are looked up when they are needed.
    names_device: bool,
}

impl<'d> ContextFields<'d> {
    fn new(context: Option<Value<'d>>) -> Self {
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
                "ip" => {
                    known.names_ip = true;
                    &mut known.ip
                }
                "userHash" => {
                    known.names_user_hash = true;
                    &mut known.user_hash
                }
                "country" => &mut known.country,
                "location" => &mut known.location,
                "device" | "os" => {
                    known.names_device = true;
                    continue;
                }
                _ => continue,
            };
            *slot = member.value.present();
        }
        known
    }

    /// Removes the members that have a wrong type and are not needed, and passes each to `ignore`.
    fn retain_usable(&mut self, mut ignore: impl FnMut(JsonType, Value<'d>)) {
        for (json_type, slot) in [
            (JsonType::Object, &mut self.page),
            (JsonType::Object, &mut self.campaign),
            (JsonType::String, &mut self.locale),
            (JsonType::String, &mut self.user_agent),
        ] {
            if let Some(value) = slot.take_if(|value| !json_type.fits(*value)) {
                ignore(json_type, value);
            }
        }
        self.consent.take_if(|consent| consent.is_empty_array());
    }

    /// Checks the members that decide whether the event may be recorded. A malformed consent must not count as consent.
    fn check_permissions(&self, location: Location<'d>) -> Result<(), Refusal> {
        check_type(JsonType::Object, self.consent, location)?;
        check_type(JsonType::Boolean, self.preview, location)?;
        let measure = self.consent.and_then(|consent| consent.get_present("measure"));
        check_type(JsonType::Boolean, measure, location)
    }
}

/// The validated context of an event.
#[derive(Clone, Copy)]
pub(super) struct Context<'d> {
    pub merged: MergedValue<'d>,
    pub page: MergedValue<'d>,
    pub campaign: MergedValue<'d>,
    pub user_agent: Option<&'d str>,
    pub locale: Option<&'d str>,
    pub country: Option<Code<2>>,
    pub ip: Option<&'d str>,
    /// True if the context may state a device or an operating system, as libraries of apps do.
    pub names_device: bool,
    /// The consent of the visitor.
    consent: MergedValue<'d>,
    /// True if the event's own context has a member `ip`, also if its value is `null` or `""`.
    names_ip: bool,
    /// The hash of the user ID.
    pub user_hash: Option<&'d str>,
    /// True if the event's own context has a member `userHash`, also if its value is `null` or `""`.
    names_user_hash: bool,
    pub is_preview: bool,
    /// True if the visitor denied measurement (`consent.measure` is false).
    pub has_denied_consent: bool,
}

impl<'d> Context<'d> {
    /// Returns the categories that the visitor accepted or denied, as consent managers of Segment state them.
    pub(super) fn category_preferences(&self) -> MergedValue<'d> {
        self.consent.get("categoryPreferences")
    }

    /// Validates the event's own context and merges it with `batch_context`, the batch's context, which is already
    /// validated. Adds values that cannot be used to `ignored_values`.
    ///
    /// # Errors
    /// `invalid_event` with a pointer to the first error in the event's own context.
    pub(super) fn read(
        event_context: Option<Value<'d>>,
        batch_context: Option<Value<'d>>,
        location: Location<'d>,
        ignored_values: &mut IgnoredValues,
    ) -> Result<Self, Refusal> {
        let event_context = ignored_values.typed(JsonType::Object, event_context, location);
        let known = check(event_context, location, ignored_values)?;
        let mut batch_fields = ContextFields::new(batch_context);
        if batch_context.is_some() {
            batch_fields.retain_usable(|_, _| {});
        }
        let layered = |event, batch| MergedValue { event, batch };
        let text = |event: Option<Value<'d>>, batch| event.or(batch).and_then(Value::as_str);
        let consent = layered(known.consent, batch_fields.consent);
        Ok(Self {
            merged: layered(event_context, batch_context),
            page: layered(known.page, batch_fields.page),
            campaign: layered(known.campaign, batch_fields.campaign),
            locale: text(known.locale, batch_fields.locale),
            country: text(known.country, batch_fields.country).and_then(country).or_else(|| {
                layered(known.location, batch_fields.location).get_str("country").and_then(country)
            }),
            user_agent: text(known.user_agent, batch_fields.user_agent),
            ip: text(known.ip, batch_fields.ip),
            names_ip: known.names_ip,
            user_hash: text(known.user_hash, batch_fields.user_hash),
            names_user_hash: known.names_user_hash,
            names_device: known.names_device || batch_fields.names_device,
            consent,
            is_preview: known.preview.or(batch_fields.preview).and_then(Value::as_bool) == Some(true),
            has_denied_consent: consent.get("measure").as_bool() == Some(false),
        })
    }

    /// Returns whether the context is stored as the event has it.
    pub(super) fn is_stored_as_sent(&self, ip_action: IpAction<'_>) -> bool {
        let keeps_ip = ip_action == IpAction::Keep || !self.names_ip;
        keeps_ip && self.merged.batch.is_none() && !self.names_user_hash
    }
}

/// Returns the code of a country. `None` if the text names none.
pub(crate) fn country(text: &str) -> Option<Code<2>> {
    country_code(text.as_bytes()).and_then(|code| Code::new(&code))
}

/// Checks the context of a batch. Adds values that cannot be used to `ignored_values`.
///
/// # Errors
/// `invalid_event` with a pointer to the first error.
pub(super) fn check_batch<'d>(
    context: Value<'d>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Result<(), Refusal> {
    check(Some(context), location, ignored_values)?;
    check_member_counts(context, location)
}

fn check<'d>(
    context: Option<Value<'d>>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Result<ContextFields<'d>, Refusal> {
    let mut known = ContextFields::new(context);
    known.retain_usable(|json_type, value| {
        ignored_values.typed(json_type, Some(value), location);
    });
    known.check_permissions(location).map(|()| known)
}

fn check_type<'d>(
    json_type: JsonType,
    value: Option<Value<'d>>,
    location: Location<'d>,
) -> Result<(), Refusal> {
    match value.filter(|value| !json_type.fits(*value)) {
        Some(value) => Err(location.refuse(problem::INVALID_EVENT, value, json_type.expected())),
        None => Ok(()),
    }
}

/// Checks that no object of a batch's context has more than `CONTEXT_MEMBERS_MAX` members. Each is merged
/// into many events.
fn check_member_counts<'d>(value: Value<'d>, location: Location<'d>) -> Result<(), Refusal> {
    if value.is_object() && value.len() > CONTEXT_MEMBERS_MAX {
        let sentence = "An object in the context of the batch has {} members, more than the limit of 256.";
        return Err(location.refuse_count(problem::INVALID_EVENT, value, sentence, value.len()));
    }
    value.members().try_for_each(|member| check_member_counts(member.value, location))
}
