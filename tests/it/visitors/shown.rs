//! All that a profile says, for comparing.

use std::collections::BTreeMap;

use parallax::visitors::profile::history::History;
use parallax::visitors::profile::profile::Profile;
use parallax::visitors::profile::touch::Touch;
use serde_json::Value;

/// Count, first, last, the newest times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Happened {
    pub count: u64,
    pub first_ms: i64,
    pub last_ms: i64,
    pub times: Vec<i64>,
}

impl Happened {
    fn of(history: History<'_>) -> Self {
        let times = history.times().collect();
        Self { count: history.count, first_ms: history.first_ms, last_ms: history.last_ms, times }
    }

    /// From all times.
    pub(super) fn from_all(all: &[i64]) -> Self {
        let mut times = all.to_vec();
        times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
        let (last_ms, first_ms) = (times[0], times[times.len() - 1]);
        times.truncate(16);
        Self { count: all.len() as u64, first_ms, last_ms, times }
    }
}

/// Source, medium, campaign, term, content, referrer, landing, and when.
pub(super) type Brought = ([Option<String>; 7], i64);

pub(super) fn brought(touch: Touch<'_>) -> Brought {
    let Touch { source, medium, campaign, term, content, referrer, landing, at_ms } = touch;
    let texts = [source, medium, campaign, term, content, referrer, landing];
    (texts.map(|text| text.map(str::to_owned)), at_ms)
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shown {
    pub user_id: Option<String>,
    pub anon_ids: Vec<String>,
    pub visits: u64,
    pub page_views: u64,
    pub events: u64,
    pub seen_ms: Option<(i64, i64)>,
    pub names: BTreeMap<String, Happened>,
    pub pages: BTreeMap<String, Happened>,
    pub first_touch: Option<Brought>,
    pub last_touch: Option<Brought>,
    pub traits: BTreeMap<String, Value>,
}

impl Shown {
    pub(super) fn of(profile: &Profile<'_>) -> Self {
        let named = |(name, history): (&str, History<'_>)| (name.to_owned(), Happened::of(history));
        let paged = |(path, history): (Option<&str>, History<'_>)| {
            (path.unwrap_or("hashed").to_owned(), Happened::of(history))
        };
        let shown = Self {
            user_id: profile.user_id().map(str::to_owned),
            anon_ids: profile.anon_ids().map(str::to_owned).collect(),
            visits: profile.visits(),
            page_views: profile.page_views(),
            events: profile.events(),
            seen_ms: profile.first_seen().zip(profile.last_seen()),
            names: profile.names().map(named).collect(),
            pages: profile.pages().map(paged).collect(),
            first_touch: profile.first_touch().map(brought),
            last_touch: profile.last_touch().map(brought),
            traits: profile.traits().map(|(name, value)| (name.to_owned(), value.to_json())).collect(),
        };
        shown.check_look_ups(profile);
        shown
    }

    /// What is looked up is what is listed.
    fn check_look_ups(&self, profile: &Profile<'_>) {
        for (name, happened) in &self.names {
            assert_eq!(profile.event(name).map(Happened::of).as_ref(), Some(happened));
        }
        for (path, happened) in self.pages.iter().filter(|(path, _)| *path != "hashed") {
            assert_eq!(profile.page(path).map(Happened::of).as_ref(), Some(happened));
        }
        for (name, value) in &self.traits {
            assert_eq!(profile.trait_value(name).map(|value| value.to_json()).as_ref(), Some(value));
        }
        assert!(profile.event("never").is_none() && profile.page("/never").is_none());
        assert!(profile.trait_value("never").is_none());
    }
}
