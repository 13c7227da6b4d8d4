//! A naive model of a visitor. It keeps all events in lists and recomputes everything from them.

use std::collections::BTreeMap;

use parallax::testing::record::RecordKind;
use serde_json::Value;

use super::shown::{HistoryView, ProfileView, TouchView};
use super::{MINUTE_MS, SentEvent};

/// All events of one visitor, in the order of arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Person {
    pub user_id: Option<String>,
    pub anon_ids: Vec<String>,
    pub sent: Vec<SentEvent>,
    /// Visits that were counted separately before a merge made them one span.
    separate_visits: u64,
}

impl Person {
    pub(super) fn anonymous(id: &str) -> Self {
        Self { anon_ids: vec![id.to_owned()], ..Self::default() }
    }

    pub(super) fn user(id: &str) -> Self {
        Self { user_id: Some(id.to_owned()), ..Self::default() }
    }

    /// Adds the history of another visitor. The numbers of visits add up.
    pub(super) fn merge(&mut self, other: Self) {
        let visits = self.visits() + other.visits();
        self.sent.extend(other.sent);
        self.separate_visits = 0;
        self.separate_visits = visits - self.visits();
    }

    fn visits(&self) -> u64 {
        let mut times: Vec<i64> =
            self.sent.iter().filter(|sent| is_of_visit(sent)).map(|sent| sent.at_ms).collect();
        times.sort_unstable();
        let silences = times.windows(2).filter(|two| two[1] - two[0] > 30 * MINUTE_MS).count();
        self.separate_visits + u64::from(!times.is_empty()) + silences as u64
    }

    fn activity(&self) -> impl Iterator<Item = &SentEvent> {
        self.sent.iter().filter(|sent| sent.kind != RecordKind::Profile)
    }

    fn count(&self, kinds: &[RecordKind]) -> u64 {
        self.sent.iter().filter(|sent| kinds.contains(&sent.kind)).count() as u64
    }

    fn histories(&self, name_of: impl Fn(&SentEvent) -> Option<&String>) -> BTreeMap<String, HistoryView> {
        let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for sent in &self.sent {
            name_of(sent)
                .into_iter()
                .for_each(|name| times.entry(name.clone()).or_default().push(sent.at_ms));
        }
        times.into_iter().map(|(name, times)| (name, HistoryView::from_all(&times))).collect()
    }

    /// Returns the touches by time. In these streams each touch has its own time.
    fn touches(&self) -> Vec<TouchView> {
        let mut touches: Vec<TouchView> = self.sent.iter().filter_map(touch).collect();
        touches.sort_by_key(|(_, at_ms)| *at_ms);
        touches
    }

    /// Returns the current traits. In these streams each write of a name has its own time.
    fn traits(&self) -> BTreeMap<String, Value> {
        let mut newest: BTreeMap<String, (i64, Option<Value>)> = BTreeMap::new();
        for sent in &self.sent {
            for (name, value) in writes(sent) {
                let is_newest = newest.get(&name).is_none_or(|(at_ms, _)| *at_ms <= sent.at_ms);
                if is_newest {
                    newest.insert(name, (sent.at_ms, value));
                }
            }
        }
        newest.into_iter().filter_map(|(name, (_, value))| Some((name, value?))).collect()
    }

    /// Returns the newest context. In these streams each event has its own time.
    fn context(&self) -> Option<(i64, [u8; 2])> {
        let contexts = self.sent.iter().filter_map(|sent| {
            let is_of_device = match sent.kind {
                RecordKind::Page | RecordKind::Screen => true,
                RecordKind::Track => sent.anon_id.is_some(),
                _ => false,
            };
            let country = sent.country().filter(|_| is_of_device)?;
            Some((sent.at_ms, country.as_bytes().try_into().expect("two letters")))
        });
        contexts.max()
    }

    pub(super) fn view(&self) -> ProfileView {
        let times = || self.activity().map(|sent| sent.at_ms);
        let touches = self.touches();
        ProfileView {
            user_id: self.user_id.clone(),
            anon_ids: self.anon_ids.clone(),
            visits: self.visits(),
            page_views: self.count(&[RecordKind::Page]),
            events: self.count(&[RecordKind::Track, RecordKind::Screen]),
            seen_ms: times().min().zip(times().max()),
            names: self.histories(|sent| sent.event.as_ref()),
            pages: self.histories(|sent| sent.path.as_ref()),
            first_touch: touches.first().cloned(),
            last_touch: touches.last().cloned(),
            traits: self.traits(),
            context: self.context(),
        }
    }
}

/// Returns the touch of an event. In these streams it has only a campaign source and a landing page.
fn touch(sent: &SentEvent) -> Option<TouchView> {
    let source = sent.payload.pointer("/context/campaign/source")?.as_str()?;
    let mut texts = [const { None }; 7];
    texts[0] = Some(source.to_owned());
    texts[6].clone_from(&sent.path);
    Some((texts, sent.at_ms))
}

/// Returns the traits that an event sets, and with `None` those that it unsets.
fn writes(sent: &SentEvent) -> Vec<(String, Option<Value>)> {
    let set = sent.payload.get("traits").or_else(|| sent.payload.get("set")).and_then(Value::as_object);
    let unset = sent.payload.get("unset").and_then(Value::as_array);
    let set = set.into_iter().flatten().map(|(name, value)| (name.clone(), Some(value.clone())));
    let unset = unset.into_iter().flatten().filter_map(Value::as_str).map(|name| (name.to_owned(), None));
    set.chain(unset).collect()
}

/// Returns whether an event begins or extends a visit.
fn is_of_visit(sent: &SentEvent) -> bool {
    let is_kind = matches!(sent.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen);
    is_kind && sent.anon_id.is_some() && sent.event.as_deref() != Some("Experiment Viewed")
}
