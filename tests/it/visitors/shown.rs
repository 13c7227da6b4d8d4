//! A comparable copy of everything that a profile contains.

use std::collections::BTreeMap;

use parallax::testing::visitors::profile::history::History;
use parallax::testing::visitors::profile::profile::Profile;
use parallax::testing::visitors::profile::touch::Touch;
use serde_json::Value;

/// A history: the count, the first and the last time, and the newest times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HistoryView {
    pub count: u64,
    pub first_ms: i64,
    pub last_ms: i64,
    pub times: Vec<i64>,
}

impl HistoryView {
    fn of(history: History<'_>) -> Self {
        let times = history.times().collect();
        Self { count: history.count, first_ms: history.first_ms, last_ms: history.last_ms, times }
    }

    /// Builds the history of these times.
    pub(super) fn from_all(all: &[i64]) -> Self {
        let mut times = all.to_vec();
        times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
        let (last_ms, first_ms) = (times[0], times[times.len() - 1]);
        times.truncate(16);
        Self { count: all.len() as u64, first_ms, last_ms, times }
    }
}

/// A touch: source, medium, campaign, term, content, referrer, landing page, and the time in milliseconds.
pub(super) type TouchView = ([Option<String>; 7], i64);

pub(super) fn touch_view(touch: Touch<'_>) -> TouchView {
    let Touch { source, medium, campaign, term, content, referrer, landing, at_ms } = touch;
    let texts = [source, medium, campaign, term, content, referrer, landing];
    (texts.map(|text| text.map(str::to_owned)), at_ms)
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProfileView {
    pub user_id: Option<String>,
    pub anon_ids: Vec<String>,
    pub visits: u64,
    pub page_views: u64,
    pub events: u64,
    pub seen_ms: Option<(i64, i64)>,
    pub names: BTreeMap<String, HistoryView>,
    pub pages: BTreeMap<String, HistoryView>,
    pub first_touch: Option<TouchView>,
    pub last_touch: Option<TouchView>,
    pub traits: BTreeMap<String, Value>,
    /// The time and the country of the context.
    pub context: Option<(i64, [u8; 2])>,
}

impl ProfileView {
    pub(super) fn of(profile: &Profile<'_>) -> Self {
        let by_name = |(name, history): (&str, History<'_>)| (name.to_owned(), HistoryView::of(history));
        let by_path = |(path, history): (Option<&str>, History<'_>)| {
            (path.unwrap_or("hashed").to_owned(), HistoryView::of(history))
        };
        let view = Self {
            user_id: profile.user_id().map(str::to_owned),
            anon_ids: profile.anon_ids().map(str::to_owned).collect(),
            visits: profile.visits(),
            page_views: profile.page_views(),
            events: profile.events(),
            seen_ms: profile.first_seen_ms().zip(profile.last_seen_ms()),
            names: profile.event_histories().map(by_name).collect(),
            pages: profile.page_histories().map(by_path).collect(),
            first_touch: profile.first_touch().map(touch_view),
            last_touch: profile.last_touch().map(touch_view),
            traits: profile.traits().map(|(name, value)| (name.to_owned(), value.to_json())).collect(),
            context: profile.last_context().and_then(|last| Some((last.at_ms, last.values.country()?))),
        };
        view.assert_lookups_agree(profile);
        view
    }

    /// Asserts that lookups by name return the listed members.
    fn assert_lookups_agree(&self, profile: &Profile<'_>) {
        for (name, history) in &self.names {
            assert_eq!(profile.event_history(name).map(HistoryView::of).as_ref(), Some(history));
        }
        for (path, history) in self.pages.iter().filter(|(path, _)| *path != "hashed") {
            assert_eq!(profile.page_history(path).map(HistoryView::of).as_ref(), Some(history));
        }
        for (name, value) in &self.traits {
            assert_eq!(profile.trait_value(name).map(|value| value.to_json()).as_ref(), Some(value));
        }
        assert!(profile.event_history("never").is_none() && profile.page_history("/never").is_none());
        assert!(profile.trait_value("never").is_none());
    }
}
