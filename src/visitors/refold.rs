//! The state of a visitor before one of their records: the kept records of the visitor, folded again.
//!
//! All records that name an ID of the visitor are folded into a table of their own, so that links move as they did in the
//! server. The fold is complete if it passes through the profile that the server has now. Otherwise records have
//! expired, the server has evicted the visitor, or other nodes have records. Then the state is not known.

use super::apply::{KeyHasher, ProfileUpdater};
use super::lookup::ProfileReader;
use super::ownership::{OwnershipError, OwnershipRule, OwnershipSource, Relation};
use super::profile::FoldCounts;
use super::profile::enrolments::Enrolments;
use super::profile::profile::{decode_alias, decode_enrolments};
use super::store::table::Table;
use crate::ids;
use crate::log::{EraseRule, LogError, LogItem, Queue, Records, segment_spans};
use crate::record::fold_input::{FoldInput, FoldParts};
use crate::record::{IdKind, Record, RecordContext, RecordKind, VisitorId};

/// Attempts to fold while the visitor is active, or while erasures change the log.
const ATTEMPTS_MAX: u32 = 3;

/// A reason why a past state is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The name in responses.
    pub code: &'static str,
    /// A sentence.
    pub detail: String,
}

impl Cut {
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

/// A record of the visitor, and the profile that the server had before it.
#[derive(Debug)]
pub(crate) struct PastRecord {
    pub kind: RecordKind,
    pub timestamp_ms: i64,
    pub bot: bool,
    pub gpc: bool,
    pub is_redacted: bool,
    pub anon_id: Option<String>,
    pub user_id: Option<String>,
    pub path: Option<String>,
    pub variants: Option<String>,
    pub experiments: Option<String>,
    pub context: RecordContext,
    /// Source, medium, campaign, term, content and referrer.
    pub touch: [Option<String>; 6],
    pub payload: String,
    /// The encoded profile. `None` for a new visitor.
    pub profile: Option<Vec<u8>>,
    /// The encoded enrolments of the ID that experiments hash.
    pub enrolments: Vec<u8>,
}

/// The state of a visitor before a record.
#[derive(Debug)]
pub(crate) enum Past {
    /// The visitor has no such record, and no record with this seq was erased or has expired.
    Unknown,
    /// The record is not kept.
    Lost(Cut),
    /// The record, and the reasons why the profile before it is not known.
    Found(Box<PastRecord>, Vec<Cut>),
}

/// The parts of a server that hold a visitor's past.
pub(crate) struct Refolder {
    pub source: OwnershipSource,
    pub log: Queue,
    pub profiles: ProfileReader,
}

impl Refolder {
    /// Returns the state of a visitor before the record `seq`.
    ///
    /// # Errors
    /// The log or the entries of ownership cannot be read.
    pub(crate) fn before(&mut self, visitor_id: VisitorId<'_>, seq: u64) -> Result<Past, OwnershipError> {
        let mut attempts = 1;
        loop {
            let generation = self.log.metrics().generation().now();
            let fold = self.fold(visitor_id, seq)?;
            let is_stable = generation == self.log.metrics().generation().now();
            if fold.is_complete && is_stable || attempts == ATTEMPTS_MAX {
                return self.past(fold, seq);
            }
            attempts += 1;
        }
    }

    fn fold(&mut self, visitor_id: VisitorId<'_>, wanted_seq: u64) -> Result<Refold, OwnershipError> {
        let live = self.encoded_profile(visitor_id);
        // Read after the profile, so that the log has all records of the profile up to here.
        let last_seq = self.log.metrics().last_seq();
        let reader = self.source.reader(0)?;
        let ownership = self.source.open()?;
        let visitor = ownership.visitor(visitor_id)?;
        let mut reader = reader.with_durable_seq(last_seq).with_filter(visitor.segment_filter());
        let mut rule = OwnershipRule::new(&ownership, vec![visitor]);
        let mut fold = Refold::new(live);
        while let Some(item) = reader.read_next()? {
            match item {
                LogItem::Damage(_) => fold.is_damaged = true,
                LogItem::Records(records) => fold.add(&records, &mut rule, visitor_id, wanted_seq)?,
            }
        }
        fold.end(visitor_id);
        Ok(fold)
    }

    fn encoded_profile(&mut self, visitor_id: VisitorId<'_>) -> Option<Vec<u8>> {
        let VisitorId { site, id_kind, id } = visitor_id;
        let pinned = self.profiles.pin();
        pinned.encoded_profile(pinned.key(site, id_kind, id)).map(<[u8]>::to_vec)
    }

    fn past(&self, refold: Refold, seq: u64) -> Result<Past, OwnershipError> {
        let oldest_seq = self.oldest_seq()?;
        let cuts = self.cuts(&refold, oldest_seq);
        match refold.found {
            Some(record) => Ok(Past::Found(record, cuts)),
            None => self.lost(seq, oldest_seq),
        }
    }

    fn cuts(&self, refold: &Refold, oldest_seq: u64) -> Vec<Cut> {
        let mut cuts = Vec::new();
        if refold.found.as_ref().is_some_and(|record| record.is_redacted) {
            cuts.push(Cut::new(
                "redacted",
                "An erasure of another visitor has removed an ID and the payload of this record.",
            ));
        }
        if refold.is_damaged {
            cuts.push(Cut::new("damaged", "The log is damaged; run `parallax check`."));
        }
        if !refold.is_complete {
            cuts.push(match refold.has_redacted {
                _ if oldest_seq > 1 => Cut::new(
                    "expired",
                    format!("Records before seq {oldest_seq} have expired, and the kept ones do not give the profile of the visitor."),
                ),
                true => Cut::new("redacted", "An erasure of another visitor has removed IDs of earlier records of this visitor."),
                false => Cut::new(
                    "evicted",
                    "The kept records do not give the profile that the server has: it has evicted the visitor to save memory.",
                ),
            });
        }
        cuts
    }

    /// Returns the reason why the visitor has no record `seq`.
    fn lost(&self, seq: u64, oldest_seq: u64) -> Result<Past, OwnershipError> {
        if seq < oldest_seq {
            let detail = format!("The record has expired; the log begins at seq {oldest_seq}.");
            return Ok(Past::Lost(Cut::new("expired", detail)));
        }
        let reader = self.source.reader(seq.saturating_sub(1))?;
        let mut reader = reader.with_durable_seq(self.log.metrics().last_seq());
        while let Some(item) = reader.read_next()? {
            let LogItem::Records(records) = item else { continue };
            let first = records.iter().next();
            let is_void = first.is_some_and(|(at, record)| at == seq && record.kind == RecordKind::Void);
            return Ok(match is_void {
                true => Past::Lost(Cut::new("erased", "The record was erased.")),
                false => Past::Unknown,
            });
        }
        Ok(Past::Unknown)
    }

    /// Returns the first seq of the log.
    fn oldest_seq(&self) -> Result<u64, OwnershipError> {
        let OwnershipSource { disk, directory, .. } = &self.source;
        let spans = segment_spans(disk, directory).map_err(|error| LogError::io(directory, error))?;
        Ok(spans.first().map_or(1, |span| span.first_seq))
    }
}

/// A fold of the kept records of a visitor.
struct Refold {
    table: Table,
    updater: ProfileUpdater,
    hasher: KeyHasher,
    counts: FoldCounts,
    /// The profile that the server has.
    live: Option<Vec<u8>>,
    /// True if the fold has passed through that profile.
    is_complete: bool,
    is_damaged: bool,
    /// True if an erasure removed an ID from a record of the visitor.
    has_redacted: bool,
    found: Option<Box<PastRecord>>,
}

impl Refold {
    fn new(encoded_profile: Option<Vec<u8>>) -> Self {
        let secret = ids::random_hash_key();
        Self {
            table: Table::new(),
            updater: ProfileUpdater::new(secret),
            hasher: KeyHasher::new(secret),
            counts: FoldCounts::default(),
            live: encoded_profile,
            is_complete: false,
            is_damaged: false,
            has_redacted: false,
            found: None,
        }
    }

    fn add(
        &mut self,
        records: &Records<'_>,
        rule: &mut OwnershipRule<'_>,
        visitor_id: VisitorId<'_>,
        wanted_seq: u64,
    ) -> Result<(), OwnershipError> {
        for (at, record) in records.iter() {
            if !rule.names_visitor(&record) {
                continue;
            }
            if at == wanted_seq && rule.relation(at, &record)? == Relation::Owned {
                self.found = Some(Box::new(self.past_record(visitor_id.site, &record)));
            }
            self.has_redacted |= record.is_redacted;
            self.apply(&record, rule);
            let is_live =
                self.profile(visitor_id).is_some_and(|profile| self.live.as_deref() == Some(profile));
            self.is_complete |= is_live;
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record<'_>, rule: &OwnershipRule<'_>) {
        // The table lacks the other visitors, so it cannot tell whether the ID of an alias was free.
        let is_without_effect = record.kind == RecordKind::Alias && !rule.had_previous_id(record);
        let fold_input = if is_without_effect { FoldInput::EMPTY } else { record.fold_input };
        let record = Record { fold_input, ..*record };
        self.updater.apply(&mut self.table, &record, u64::MAX, &mut self.counts);
    }

    /// Notes that there is no further record.
    fn end(&mut self, visitor_id: VisitorId<'_>) {
        self.is_complete |= self.live.is_none() && self.profile(visitor_id).is_none();
    }

    fn past_record(&self, site: &str, record: &Record<'_>) -> PastRecord {
        let anon_id = record.anon_id.map(|id| VisitorId { site, id_kind: IdKind::Anon, id });
        let visitor_id = anon_id.or(record.user_id.map(|id| VisitorId { site, id_kind: IdKind::User, id }));
        let mut content = Vec::new();
        record.fold_input.unpack(&mut content);
        let touch =
            FoldParts::parse(&content).touch.map(|touch| touch.texts().map(|text| text.map(str::to_owned)));
        let owned = |text: Option<&str>| text.map(str::to_owned);
        PastRecord {
            kind: record.kind,
            timestamp_ms: record.timestamp_ms,
            bot: record.bot,
            gpc: record.gpc,
            is_redacted: record.is_redacted,
            anon_id: owned(record.anon_id),
            user_id: owned(record.user_id),
            path: owned(record.path),
            variants: owned(record.variants),
            experiments: owned(record.experiments),
            context: record.context,
            touch: touch.unwrap_or_default(),
            payload: record.payload.to_owned(),
            profile: visitor_id.and_then(|visitor_id| self.profile(visitor_id)).map(<[u8]>::to_vec),
            enrolments: visitor_id
                .map(|visitor_id| self.enrolments(visitor_id).bytes().to_vec())
                .unwrap_or_default(),
        }
    }

    fn entry(&self, visitor_id: VisitorId<'_>) -> Option<&[u8]> {
        let VisitorId { site, id_kind, id } = visitor_id;
        self.table.get(self.hasher.key(site, id_kind, id))
    }

    fn enrolments(&self, visitor_id: VisitorId<'_>) -> Enrolments<'_> {
        self.entry(visitor_id).map_or(Enrolments::NONE, decode_enrolments)
    }

    /// Returns the encoded profile of an ID.
    fn profile(&self, visitor_id: VisitorId<'_>) -> Option<&[u8]> {
        let value = self.entry(visitor_id)?;
        match decode_alias(value) {
            Some(user_key) => self.table.get(user_key),
            None => Some(value),
        }
    }
}
