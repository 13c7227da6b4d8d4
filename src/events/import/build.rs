//! The record of a line: columns of the line, and parts of its payload.

use std::net::{IpAddr, Ipv4Addr};

use super::super::context::IpAction;
use super::super::decode::read_agent;
use super::super::document::JsonParser;
use super::super::encode::{dedup_key, write_members, write_payload, write_times};
use super::super::event::Event;
use super::super::identity::named_tie;
use super::super::ignored::IgnoredValues;
use super::super::location::Location;
use super::super::members::{MemberName, Members};
use super::super::request::{Environment, Policy, RequestFacts};
use super::super::submission::Submission;
use super::super::visitor::{is_anon_id, is_placeholder};
use super::super::{exposure, page, time, touch};
use super::compare::compare;
use super::error::LineError;
use super::line::{Column, ExportLine, is_generated_id, read_time};
use crate::checksum::hash64;
use crate::identity_keys::UserRule;
use crate::ids::hex_u64;
use crate::limits::{MESSAGE_ID_BYTES_MAX, SITE_ID_BYTES_MAX, USER_ID_BYTES_MAX};
use crate::record::fold_input::{ClientTimes, FoldInputBuilder};
use crate::record::{
    Browser, Code, Device, Os, Record, RecordContext, RecordKind, UserAgentInfo, primary_language,
};
use crate::url::{PageUrl, normal_host};

/// The rules by which lines become records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportRules {
    /// True if events of crawlers change profiles. An export does not say whether they did.
    pub keeps_bots: bool,
}

/// A decoder of the lines of an export. Reuses its buffers.
#[derive(Default)]
pub(crate) struct LineDecoder {
    parser: JsonParser,
    parts: RecordParts,
    ignored: IgnoredValues,
}

/// The parts of a record that the line does not have as a column, and buffers for them.
#[derive(Default)]
struct RecordParts {
    payload: String,
    page: String,
    exposure: String,
    url: PageUrl,
    fold_input: FoldInputBuilder,
    message_id: [u8; 16],
    key_input: Vec<u8>,
}

/// The values that a payload gives for the columns that the line lacks.
#[derive(Default)]
struct Derived<'d> {
    message_id: Option<&'d str>,
    anon_id: Option<&'d str>,
    user_id: Option<&'d str>,
    event: Option<&'d str>,
    name: Option<&'d str>,
    path: Option<&'d str>,
    variants: Option<&'d str>,
    experiments: Option<&'d str>,
    agent: UserAgentInfo,
    country: Option<Code<2>>,
    language: Option<Code<3>>,
}

/// The times of a record.
#[derive(Clone, Copy)]
struct Times {
    received_ms: i64,
    timestamp_ms: i64,
    client: ClientTimes,
}

impl LineDecoder {
    /// Appends the record of a line to `out`. `text` is the line.
    ///
    /// # Errors
    /// The line is invalid, or its record would have other columns.
    pub(crate) fn encode(
        &mut self,
        line: &ExportLine<'_>,
        text: &str,
        rules: ImportRules,
        environment: &mut impl Environment,
        out: &mut Vec<u8>,
    ) -> Result<(), LineError> {
        let kind = line.kind()?;
        check_ids(line)?;
        let start = out.len();
        self.parts.message_id = hex_u64(hash64(text.as_bytes()));
        if line.is_redacted(kind) {
            self.encode_redacted(line, kind, rules, out)?;
        } else {
            self.encode_whole(line, kind, rules, environment, out)?;
        }
        let compared = match Record::decode(&out[start..]) {
            Some((record, _)) => compare(line, &record),
            None => Err(LineError::Differs("payload")),
        };
        compared.inspect_err(|_| out.truncate(start))
    }

    /// Encodes a record whose payload was erased, from the columns alone.
    fn encode_redacted(
        &mut self,
        line: &ExportLine<'_>,
        kind: RecordKind,
        rules: ImportRules,
        out: &mut Vec<u8>,
    ) -> Result<(), LineError> {
        let RecordParts { payload, fold_input, key_input, .. } = &mut self.parts;
        let times = times_of(line, ClientTimes::default())?;
        payload.clear();
        payload.push_str("{}");
        fold_input.clear();
        write_times(times.client, times.timestamp_ms, times.received_ms, fold_input);
        if kind == RecordKind::Page {
            add_touch(line, None, fold_input);
        }
        if kind == RecordKind::Alias {
            line.tied.text().into_iter().for_each(|id| fold_input.add_previous_id(id));
        }
        let site = line.site()?;
        let message_id = line.message_id.text();
        let own_id = message_id.filter(|id| !is_generated_id(id));
        let key = own_id.map_or(0, |id| dedup_key(site, id, key_input));
        let derived = Derived { message_id, ..Derived::default() };
        let record = columns(line, kind, times, &derived)?;
        let record = Record { key, is_redacted: true, payload, fold_input: fold_input.finish(), ..record };
        Ok(with_fold_flag(record, line, rules).encode(out)?)
    }

    /// Encodes a record with its payload.
    fn encode_whole(
        &mut self,
        line: &ExportLine<'_>,
        kind: RecordKind,
        rules: ImportRules,
        environment: &mut impl Environment,
        out: &mut Vec<u8>,
    ) -> Result<(), LineError> {
        let Self { parser, parts, ignored } = self;
        let document = parser.parse(line.payload()).map_err(|refusal| LineError::payload(&refusal))?;
        let location = Location { index: None, base: document.root() };
        let members = Members::new(document.root());
        let submission = Submission::of_record(&document);
        let request = request_of(line, line.received_ms()?)?;
        ignored.clear();
        let event = Event::read_as(kind, location, &members, &submission, &request, ignored)
            .map_err(|refusal| LineError::payload(&refusal))?;
        let times = times_of(line, event.client_times)?;
        parts.fold_input.clear();
        write_times(times.client, times.timestamp_ms, times.received_ms, &mut parts.fold_input);
        if kind == RecordKind::Page {
            if names_touch(line) {
                add_touch(line, Some(&event), &mut parts.fold_input);
            } else {
                let found = touch::find(&event, &request, environment, &mut parts.url);
                found.into_iter().for_each(|texts| parts.fold_input.add_touch(texts));
            }
        }
        write_members(kind, &members, &mut parts.fold_input);
        let derived = derive(&event, &members, &request, environment, &mut parts.page, &mut parts.exposure);
        let own_id = members.get(MemberName::MessageId).and(event.message_id);
        let message_id = own_id.or(std::str::from_utf8(&parts.message_id).ok());
        let record = columns(line, kind, times, &Derived { message_id, ..derived })?;
        let own_id = record.message_id.filter(|id| own_id == Some(id));
        let key = own_id.map_or(0, |id| dedup_key(request.site, id, &mut parts.key_input));
        parts.payload.clear();
        write_payload(&event, &members, IpAction::Keep, &mut parts.payload);
        let fold_input = parts.fold_input.finish();
        let record = Record { key, payload: &parts.payload, fold_input, ..record };
        Ok(with_fold_flag(record, line, rules).encode(out)?)
    }
}

/// Returns the request that would have given the columns of a line.
fn request_of<'l>(line: &'l ExportLine<'_>, received_ms: i64) -> Result<RequestFacts<'l>, LineError> {
    Ok(RequestFacts {
        site: line.site()?,
        tracking_id: "",
        policy: Policy::default(),
        received_ms,
        is_preview: false,
        gpc: line.gpc.unwrap_or_default(),
        referer: None,
        user_agent: None,
        language: None,
        country: None,
        // An event needs an ID. The columns replace it.
        anon_id: line.anon_id.text().or(line.user_id.text()),
        user_rule: UserRule::Any,
        peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    })
}

/// Returns the values for the columns that a line may lack.
fn derive<'d>(
    event: &Event<'d>,
    members: &Members<'d>,
    request: &RequestFacts<'d>,
    environment: &mut impl Environment,
    page_buffer: &'d mut String,
    exposure_buffer: &'d mut String,
) -> Derived<'d> {
    let has_page = page::write(event, None, environment, page_buffer);
    let has_exposure = event.experiments.is_none() && exposure::write(event, exposure_buffer);
    Derived {
        message_id: event.message_id,
        anon_id: members.anon_id().and(event.anon_id),
        user_id: event.user_id,
        event: event.event,
        name: event.name,
        path: has_page.then_some(page_buffer),
        variants: event.variants,
        experiments: event.experiments.or(has_exposure.then_some(exposure_buffer)),
        agent: read_agent(event, request, environment),
        country: event.context.country,
        language: event.context.locale.and_then(primary_language),
    }
}

/// Returns the times of a record. `stated` are those in the payload.
fn times_of(line: &ExportLine<'_>, stated: ClientTimes) -> Result<Times, LineError> {
    let received_ms = line.received_ms()?;
    let of_line = |member, column: &Column<'_>, stated: Option<i64>| {
        let time_ms = read_time(member, column)?;
        Ok::<_, LineError>(if column.is_missing() { stated } else { time_ms })
    };
    let client = ClientTimes {
        timestamp_ms: of_line("clientTimestamp", &line.client_timestamp, stated.timestamp_ms)?,
        sent_ms: of_line("sentAt", &line.sent_at, stated.sent_ms)?,
    };
    let timestamp_ms = read_time("timestamp", &line.timestamp)?;
    let timestamp_ms = timestamp_ms.unwrap_or_else(|| time::correct_clock_skew(client, received_ms));
    Ok(Times { received_ms, timestamp_ms, client })
}

/// Returns a record with the columns of a line. Those that the line lacks come from `derived`.
fn columns<'r>(
    line: &'r ExportLine<'_>,
    kind: RecordKind,
    times: Times,
    derived: &Derived<'r>,
) -> Result<Record<'r>, LineError> {
    let agent = agent_of(line, derived.agent)?;
    let upper = |text: &str| text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let lower = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase());
    let record = Record {
        bot: line.bot.unwrap_or(derived.agent.is_crawler),
        gpc: line.gpc.unwrap_or_default(),
        received_ms: times.received_ms,
        timestamp_ms: times.timestamp_ms,
        site: Some(line.site()?),
        message_id: line.message_id.or(derived.message_id),
        anon_id: line.anon_id.or(derived.anon_id),
        user_id: line.user_id.or(derived.user_id),
        event: line.event.or(derived.event),
        name: line.name.or(derived.name),
        path: line.path.or(derived.path),
        variants: line.variants.or(derived.variants),
        ip: line.ip.text(),
        experiments: line.experiments.or(derived.experiments),
        context: RecordContext::new(
            agent,
            code_of("country", &line.country, derived.country, upper)?,
            code_of("language", &line.language, derived.language, lower)?,
        ),
        ..Record::new(kind)
    };
    if kind == RecordKind::Track && record.event.is_none() {
        return Err(LineError::Missing("event"));
    }
    // The end of a tie has an anonymous ID and nothing else.
    match record.anon_id.or(record.user_id) {
        None if !line.is_redacted(kind) => Err(LineError::Missing("anonId")),
        _ => Ok(record),
    }
}

/// Returns device, system and browser of a line.
fn agent_of(line: &ExportLine<'_>, derived: UserAgentInfo) -> Result<UserAgentInfo, LineError> {
    let device = value_of("device", &line.device, derived.device, Device::from_name)?;
    Ok(UserAgentInfo {
        is_crawler: device == Device::Bot,
        device,
        os: value_of("os", &line.os, derived.os, Os::from_name)?,
        browser: value_of("browser", &line.browser, derived.browser, Browser::from_name)?,
    })
}

fn value_of<T: Default>(
    member: &'static str,
    column: &Column<'_>,
    derived: T,
    parse: fn(&str) -> Option<T>,
) -> Result<T, LineError> {
    match column {
        Column::Missing => Ok(derived),
        Column::Null => Ok(T::default()),
        Column::Text(text) => {
            let unknown = || LineError::invalid(member, format!("this release does not know '{text:.100}'"));
            parse(text).ok_or_else(unknown)
        }
    }
}

fn code_of<const N: usize>(
    member: &'static str,
    column: &Column<'_>,
    derived: Option<Code<N>>,
    is_code: impl Fn(&str) -> bool,
) -> Result<Option<Code<N>>, LineError> {
    match column {
        Column::Missing => Ok(derived),
        Column::Null => Ok(None),
        Column::Text(text) => {
            let invalid = || LineError::invalid(member, format!("expected a code of at most {N} characters"));
            let code = Code::new(text.as_bytes()).filter(|_| is_code(text));
            code.map(Some).ok_or_else(invalid)
        }
    }
}

/// Returns whether a line has a column of a touch.
fn names_touch(line: &ExportLine<'_>) -> bool {
    let campaign = [&line.source, &line.medium, &line.campaign, &line.term, &line.content];
    campaign.into_iter().chain([&line.referrer_host]).any(|column| !column.is_missing())
}

/// Adds the touch of the columns. The payload has the URL of the referrer. A redacted record has only its host.
fn add_touch(line: &ExportLine<'_>, event: Option<&Event<'_>>, out: &mut FoldInputBuilder) {
    let referrer = line.referrer_host.text().map(|host| {
        let stated = event.and_then(|event| event.page_text("referrer")).map(touch::truncate);
        let stated = stated.filter(|referrer| normal_host(referrer).as_deref() == Some(host));
        stated.map_or_else(|| format!("https://{host}/"), str::to_owned)
    });
    let campaign = [&line.source, &line.medium, &line.campaign, &line.term, &line.content];
    let [source, medium, campaign, term, content] = campaign.map(Column::text);
    let texts = [source, medium, campaign, term, content, referrer.as_deref()];
    if texts.iter().any(Option::is_some) {
        out.add_touch(texts.map(|text| text.map(touch::truncate)));
    }
}

/// Sets the flag of a crawler's event that changes profiles. The column `tied` tells it for an event that names a tie.
fn with_fold_flag<'r>(record: Record<'r>, line: &ExportLine<'_>, rules: ImportRules) -> Record<'r> {
    if !record.bot {
        return record;
    }
    let mut buffer = Vec::new();
    let folded = Record { is_folded_bot: true, ..record };
    let names_tie = named_tie(&folded, folded.previous_id(&mut buffer)).is_some();
    let is_folded_bot = match &line.tied {
        tied if names_tie && !tied.is_missing() => tied.text().is_some(),
        _ => rules.keeps_bots,
    };
    Record { is_folded_bot, ..record }
}

/// Checks the IDs in the columns of a line.
fn check_ids(line: &ExportLine<'_>) -> Result<(), LineError> {
    let site = line.site()?;
    let is_site = site.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !is_site || !(1..=SITE_ID_BYTES_MAX).contains(&site.len()) {
        return Err(LineError::invalid("site", "expected the ID of a site"));
    }
    let is_user_id = |id: &str| (1..=USER_ID_BYTES_MAX).contains(&id.len());
    let is_message_id = |id: &str| (1..=MESSAGE_ID_BYTES_MAX).contains(&id.len());
    let anon_id = line.anon_id.text().filter(|id| !is_anon_id(id) || is_placeholder(id));
    let user_id = line.user_id.text().filter(|id| !is_user_id(id) || is_placeholder(id));
    let message_id = line.message_id.text().filter(|id| !is_message_id(id));
    if anon_id.is_some() {
        return Err(LineError::invalid(
            "anonId",
            "expected 1 to 128 bytes of visible ASCII, the ID of one visitor",
        ));
    }
    if user_id.is_some() {
        return Err(LineError::invalid("userId", "expected 1 to 256 bytes of text, the ID of one user"));
    }
    if message_id.is_some() {
        return Err(LineError::invalid("messageId", "expected 1 to 128 bytes of text"));
    }
    Ok(())
}
