//! A visitor, naively: everything that happened in lists, and everything recomputed from them.

use std::collections::BTreeMap;

use parallax::visitors::log::Kind;
use serde_json::Value;

use super::shown::{Brought, Happened, Shown};
use super::{MINUTE_MS, Sent};

/// What happened to one visitor, in the order of arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Person {
    pub user_id: Option<String>,
    pub anon_ids: Vec<String>,
    pub sent: Vec<Sent>,
    /// Visits that were two before they became one span.
    doubled: u64,
}

impl Person {
    pub(super) fn anonymous(id: &str) -> Self {
        Self { anon_ids: vec![id.to_owned()], ..Self::default() }
    }

    pub(super) fn user(id: &str) -> Self {
        Self { user_id: Some(id.to_owned()), ..Self::default() }
    }

    /// Takes in another's history; counts add.
    pub(super) fn merge(&mut self, other: Self) {
        let visits = self.visits() + other.visits();
        self.sent.extend(other.sent);
        self.doubled = 0;
        self.doubled = visits - self.visits();
    }

    fn visits(&self) -> u64 {
        let mut times: Vec<i64> = self.seen().map(|sent| sent.at_ms).collect();
        times.sort_unstable();
        let silences = times.windows(2).filter(|two| two[1] - two[0] > 30 * MINUTE_MS).count();
        self.doubled + u64::from(!times.is_empty()) + silences as u64
    }

    fn seen(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.kind != Kind::Profile)
    }

    fn counted(&self, kinds: &[Kind]) -> u64 {
        self.sent.iter().filter(|sent| kinds.contains(&sent.kind)).count() as u64
    }

    fn happened(&self, named: impl Fn(&Sent) -> Option<&String>) -> BTreeMap<String, Happened> {
        let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for sent in &self.sent {
            named(sent).into_iter().for_each(|name| times.entry(name.clone()).or_default().push(sent.at_ms));
        }
        times.into_iter().map(|(name, times)| (name, Happened::from_all(&times))).collect()
    }

    /// Of the streams of these tests each touch has a time of its own.
    fn touches(&self) -> Vec<Brought> {
        let mut touches: Vec<Brought> = self.sent.iter().filter_map(touch).collect();
        touches.sort_by_key(|(_, at_ms)| *at_ms);
        touches
    }

    /// Traits where each write of a name has a time of its own.
    fn traits(&self) -> BTreeMap<String, Value> {
        let mut newest: BTreeMap<String, (i64, Option<Value>)> = BTreeMap::new();
        for sent in &self.sent {
            for (name, value) in writes(sent) {
                let stands = newest.get(&name).is_none_or(|(at_ms, _)| *at_ms <= sent.at_ms);
                if stands {
                    newest.insert(name, (sent.at_ms, value));
                }
            }
        }
        newest.into_iter().filter_map(|(name, (_, value))| Some((name, value?))).collect()
    }

    pub(super) fn shown(&self) -> Shown {
        let times = || self.seen().map(|sent| sent.at_ms);
        let touches = self.touches();
        Shown {
            user_id: self.user_id.clone(),
            anon_ids: self.anon_ids.clone(),
            visits: self.visits(),
            page_views: self.counted(&[Kind::Page]),
            events: self.counted(&[Kind::Track, Kind::Screen]),
            seen_ms: times().min().zip(times().max()),
            names: self.happened(|sent| sent.event.as_ref()),
            pages: self.happened(|sent| sent.path.as_ref()),
            first_touch: touches.first().cloned(),
            last_touch: touches.last().cloned(),
            traits: self.traits(),
        }
    }
}

/// A campaign's source is all that these streams have.
fn touch(sent: &Sent) -> Option<Brought> {
    let source = sent.payload.pointer("/context/campaign/source")?.as_str()?;
    let mut texts = [const { None }; 7];
    texts[0] = Some(source.to_owned());
    texts[6].clone_from(&sent.path);
    Some((texts, sent.at_ms))
}

/// What is set, and what is unset.
fn writes(sent: &Sent) -> Vec<(String, Option<Value>)> {
    let set = sent.payload.get("traits").or_else(|| sent.payload.get("set")).and_then(Value::as_object);
    let unset = sent.payload.get("unset").and_then(Value::as_array);
    let set = set.into_iter().flatten().map(|(name, value)| (name.clone(), Some(value.clone())));
    let unset = unset.into_iter().flatten().filter_map(Value::as_str).map(|name| (name.to_owned(), None));
    set.chain(unset).collect()
}
