//! Folds events into the profile of one visitor, as a pure function: profile, request and time give a response and a profile.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::{IdKind, Site, add_body, meta};
use crate::api::{EventSink, Handler, Service, Settings};
use crate::http::request::{BufferedRequest, ParseOutcome, parse};
use crate::limits::DEDUP_WINDOW_MS;
use crate::log::{MemoryLog, Records};
use crate::metrics::EventCounters;
use crate::visitors::live::ProfileTable;

/// Message IDs that a fold knows beside those of its own request: none. The window holds at least one, which
/// [`EventFolder::fold`] makes too old.
const MESSAGE_IDS_MAX: usize = 1;

/// The hash key of the table. It holds the visitors of one request.
const TABLE_KEY: [u8; 16] = [0; 16];

/// A handler of events that keeps no visitor.
pub struct EventFolder {
    handler: Handler,
    log: MemoryLog,
    visitors: Rc<RefCell<Visitors>>,
    /// The time of the dedup window. It passes 24 hours with each fold, so that no fold knows the IDs of another one.
    window_ms: i64,
}

/// The visitors of one request.
struct Visitors {
    profiles: ProfileTable,
    /// The site and the ID of the last folded record.
    last: Option<(String, IdKind, String)>,
}

impl Visitors {
    fn fold(&mut self, records: Records<'_>) {
        self.profiles.fold(records);
        let name = |id_kind, id: Option<&str>| Some((id_kind, id?.to_owned()));
        for (_, record) in records.iter().filter(|(_, record)| record.is_folded()) {
            let id = name(IdKind::Anon, record.anon_id).or_else(|| name(IdKind::User, record.user_id));
            if let Some(((id_kind, id), site)) = id.zip(record.site) {
                self.last = Some((site.to_owned(), id_kind, id));
            }
        }
    }
}

impl EventFolder {
    /// Creates a handler for a site.
    pub fn new(site: &Site) -> Self {
        let (profiles, _) = ProfileTable::new(TABLE_KEY, u64::MAX);
        let visitors = Rc::new(RefCell::new(Visitors { profiles, last: None }));
        let folded = Rc::clone(&visitors);
        let fold = move |records: Records<'_>| folded.borrow_mut().fold(records);
        let (queue, log) = MemoryLog::new(MESSAGE_IDS_MAX, Box::new(fold));
        let sink = EventSink::new(queue.client(Arc::new(|| {})), EventCounters::default());
        let handler = site.handler(Settings::default()).with_event_sink(sink);
        Self { handler, log, visitors, window_ms: 0 }
    }

    /// Appends the response to a complete request with events, and returns the encoded profile of its visitor after them: of the
    /// anonymous ID of the last recorded event, or else of its user ID. `profiles` are the encoded profiles of the IDs that the
    /// request names: of one anonymous ID first, then of users. An ID without a profile is new. An empty profile is none. If nothing
    /// is recorded, the first profile returns unchanged.
    ///
    /// # Errors
    /// The bytes are no complete request to an event endpoint, or a profile is malformed.
    pub fn fold(
        &mut self,
        profiles: &[&[u8]],
        request: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Vec<u8>, &'static str> {
        let ParseOutcome::Complete(mut parsed, head_bytes) = parse(request, None) else {
            return Err("the bytes are no request");
        };
        add_body(&mut parsed, &request[head_bytes..])?;
        self.begin(profiles)?;
        let Self { handler, log, visitors, window_ms } = self;
        let buffered = BufferedRequest { bytes: request, close: parsed.close };
        let mut run_log = || log.run_once(*window_ms);
        if !handler.record(&parsed, &buffered, &meta(), &mut run_log, out) {
            return Err("the request is not one to an event endpoint");
        }
        let Visitors { profiles: folded, last } = &*visitors.borrow();
        let unchanged = || profiles.first().map_or(Vec::new(), |profile| profile.to_vec());
        Ok(last.as_ref().map_or_else(unchanged, |(site, id_kind, id)| folded.encoded(site, *id_kind, id)))
    }

    /// Forgets the fold before, and adds the profiles of the next one.
    fn begin(&mut self, profiles: &[&[u8]]) -> Result<(), &'static str> {
        self.handler.tick();
        self.window_ms = self.window_ms.saturating_add(DEDUP_WINDOW_MS);
        let Visitors { profiles: table, last } = &mut *self.visitors.borrow_mut();
        table.clear();
        *last = None;
        match profiles.iter().filter(|profile| !profile.is_empty()).all(|profile| table.insert(profile)) {
            true => Ok(()),
            false => Err("a profile is malformed"),
        }
    }
}
