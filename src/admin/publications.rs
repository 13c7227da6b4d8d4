//! `GET /insights/publications`: the versions of a site that the server began to serve in a range, newest first, with the changes of each
//! one against the version that was served before it.
//!
//! The file `versions` of the data directory has the times. The snapshots are those that the server has in memory: the valid files of the
//! snapshots directory. The thread `insights` compares one pair of versions in a step and answers other questions between the steps.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value as Json, json};

use super::past_decision::{ServedSnapshots, missing_json};
use super::representation::Representation;
use crate::clock;
use crate::events::time;
use crate::insights::engine::{Output, TaskResult};
use crate::insights::{Cell, Question, QuestionError, SiteFacts, Subject, write_csv};
use crate::site::catalog::versions::Serving;
use crate::site::comparison::compare;
use crate::site::comparison::entries::{EntryChange, find_goal_changes, find_route_changes};
use crate::site::snapshot::open::Snapshot;
use crate::visitors::refold::Cut;

pub(super) const PATH: &str = "/insights/publications";

/// Publications that an answer has. More are too close together on a chart, and each one is compared once. `more` counts the older ones.
const PUBLICATIONS_LISTED_MAX: usize = 50;
/// Changes that each list of a publication has. Its numbers count all of them.
const CHANGES_LISTED_MAX: usize = 5;
/// Compared publications that are kept, some kilobytes each. Beyond it the first one is dropped and is compared again for the next answer.
const PUBLICATIONS_CACHED_MAX: usize = 256;

/// The lists of a publication, in the order of the columns of a CSV.
const LISTS: [&str; 5] = ["experiments", "zones", "audiences", "goals", "routes"];

/// The publication that the changes belong to: the hashes of both snapshots, and the time of the comparison.
type ChangesKey = ([u8; 32], [u8; 32], i64);

/// The changes of the publications that were compared last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct ChangesCache(Arc<Mutex<VecDeque<(ChangesKey, Json)>>>);

impl ChangesCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(ChangesKey, Json)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &ChangesKey) -> Option<Json> {
        self.lock().iter().find(|(other, _)| other == key).map(|(_, changes)| changes.clone())
    }

    fn put(&self, key: ChangesKey, changes: &Json) {
        let mut cached = self.lock();
        cached.push_back((key, changes.clone()));
        let surplus = cached.len().saturating_sub(PUBLICATIONS_CACHED_MAX);
        cached.drain(..surplus);
    }
}

/// A publication in the range.
struct Publication {
    serving: Serving,
    /// The version that was served before it. `None` if the server does not know it.
    before: Option<Serving>,
}

/// A publication with its changes.
struct ComparedPublication {
    publication: Publication,
    /// The changes, or the reasons why they are not known.
    changes: Result<Json, Vec<Cut>>,
}

/// The list of the publications of a site.
pub(super) struct PublicationList {
    site: String,
    time_zone: String,
    range: Range<i64>,
    snapshots: ServedSnapshots,
    cache: ChangesCache,
    representation: Representation,
    /// The publications that are not compared yet, newest first.
    rest: VecDeque<Publication>,
    compared: Vec<ComparedPublication>,
    /// The number of older publications in the range.
    more: usize,
}

impl PublicationList {
    /// Creates the list for the parameters of a request. It takes `from` and `to`.
    ///
    /// # Errors
    /// A parameter is given twice or has a wrong value.
    pub(super) fn new(
        pairs: &[(String, String)],
        site: SiteFacts,
        snapshots: ServedSnapshots,
        cache: ChangesCache,
        representation: Representation,
    ) -> Result<Self, QuestionError> {
        let times = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let times = times.filter(|(name, _)| ["from", "to"].contains(name)).chain([("of", "page")]);
        let range = Question::parse(Subject::Top, times, &site.zone, clock::now_ms())?.range;
        let servings = snapshots.servings();
        let publications = servings.iter().enumerate().rev();
        let publications = publications.filter(|(_, serving)| range.contains(&serving.from_ms));
        let publications = publications.map(|(index, serving)| Publication {
            serving: *serving,
            before: index.checked_sub(1).map(|older| servings[older]),
        });
        let mut rest: VecDeque<Publication> = publications.collect();
        let more = rest.len().saturating_sub(PUBLICATIONS_LISTED_MAX);
        rest.truncate(PUBLICATIONS_LISTED_MAX);
        Ok(Self {
            site: site.site,
            time_zone: site.zone.name,
            range,
            snapshots,
            cache,
            representation,
            rest,
            compared: Vec::new(),
            more,
        })
    }

    /// Compares the next publication. Returns the text after the last one.
    pub(super) fn step(&mut self) -> Option<TaskResult> {
        if let Some(publication) = self.rest.pop_front() {
            let changes = self.find_changes(&publication);
            self.compared.push(ComparedPublication { publication, changes });
        }
        self.rest.is_empty().then(|| Ok(Output::ValidatedText(self.write())))
    }

    fn find_changes(&self, publication: &Publication) -> Result<Json, Vec<Cut>> {
        let Publication { serving, before } = publication;
        let Some(before) = before else {
            let detail = "The server does not know which version it served before.".to_owned();
            return Err(vec![Cut::new("version", detail)]);
        };
        let key = (before.hash, serving.hash, serving.from_ms);
        if let Some(changes) = self.cache.get(&key) {
            return Ok(changes);
        }
        let found = [before, serving].map(|one| self.snapshots.find(one));
        let [Ok(older), Ok(newer)] = &found else {
            return Err(found.into_iter().filter_map(Result::err).collect());
        };
        let changes = changes_json(older, newer, serving.from_ms);
        self.cache.put(key, &changes);
        Ok(changes)
    }

    fn write(&self) -> String {
        match self.representation {
            Representation::Csv => {
                let header = [&["version", "servedFrom", "against"][..], &LISTS, &["missing"]].concat();
                write_csv(
                    &header,
                    &self.compared.iter().map(ComparedPublication::to_line).collect::<Vec<_>>(),
                )
            }
            Representation::Json => {
                let known_since = self.snapshots.servings().first();
                let publications: Vec<Json> =
                    self.compared.iter().map(ComparedPublication::to_json).collect();
                json!({
                    "site": self.site, "from": time::to_text(self.range.start), "to": time::to_text(self.range.end),
                    "timeZone": self.time_zone, "knownSince": known_since.map(|first| time::to_text(first.from_ms)),
                    "publications": publications, "more": self.more,
                })
                .to_string()
            }
        }
    }
}

impl ComparedPublication {
    fn to_json(&self) -> Json {
        let Self { publication: Publication { serving, before }, changes } = self;
        json!({
            "version": serving.version.to_string(), "servedFrom": time::to_text(serving.from_ms),
            "against": before.map(|before| json!({ "version": before.version.to_string() })),
            "changes": changes.as_ref().ok(),
            "missing": missing_json(changes.as_ref().err().map_or(&[], Vec::as_slice)),
        })
    }

    fn to_line(&self) -> Vec<Cell> {
        let Self { publication: Publication { serving, before }, changes } = self;
        let text = |text: String| Cell::Text(Some(text));
        let total = |list: &str| {
            let total = changes.as_ref().ok().and_then(|changes| changes[list]["total"].as_i64());
            total.map_or(Cell::Text(None), Cell::Number)
        };
        let against = Cell::Text(before.map(|before| before.version.to_string()));
        let line = [text(serving.version.to_string()), text(time::to_text(serving.from_ms)), against];
        let details = changes.as_ref().err().into_iter().flatten().map(|cut| cut.detail.as_str());
        let details = details.collect::<Vec<_>>().join(" ");
        let missing = Cell::Text(Some(details).filter(|details| !details.is_empty()));
        line.into_iter().chain(LISTS.map(total)).chain([missing]).collect()
    }
}

/// Returns the changes from one version to the next at the time of the publication.
fn changes_json(older: &Snapshot, newer: &Snapshot, at_ms: i64) -> Json {
    let [older, newer] = [older, newer].map(Snapshot::site);
    let comparison = compare(Some(older), newer, at_ms).to_json();
    let elements = |list: &str| comparison[list].as_array().map_or(&[][..], Vec::as_slice);
    let experiments = elements("experiments").iter().map(|one| ListedChange {
        name: one["key"].clone(),
        kinds: one["changes"].as_array().cloned().unwrap_or_default(),
        detail: Some(("text", one["text"].clone())),
    });
    let zones = elements("zones").iter().map(|one| {
        let paths = one["paths"].as_array().into_iter().flatten().take(CHANGES_LISTED_MAX);
        let kinds = vec![one["change"].clone()];
        let detail = Some(("paths", paths.cloned().collect()));
        ListedChange { name: one["name"].clone(), kinds, detail }
    });
    let audiences = elements("audiences").iter().map(|one| ListedChange {
        name: one["name"].clone(),
        kinds: vec![one["change"].clone()],
        detail: None,
    });
    let holdout = &comparison["holdout"];
    json!({
        "experiments": list_json(experiments), "zones": list_json(zones), "audiences": list_json(audiences),
        "goals": list_json(find_goal_changes(older, newer).iter().map(ListedChange::of_entry)),
        "routes": list_json(find_route_changes(older, newer).iter().map(ListedChange::of_entry)),
        "holdout": holdout.is_object().then(|| json!({ "change": holdout["change"], "text": holdout["text"] })),
    })
}

/// A change of a list of a publication.
struct ListedChange {
    name: Json,
    /// The names of the kinds of change.
    kinds: Vec<Json>,
    /// A further member.
    detail: Option<(&'static str, Json)>,
}

impl ListedChange {
    fn of_entry(change: &EntryChange) -> Self {
        Self { name: json!(change.key), kinds: vec![json!(change.kind.name())], detail: None }
    }

    fn to_json(&self) -> Json {
        let mut document = json!({ "name": self.name, "changes": self.kinds });
        if let Some((member, value)) = &self.detail {
            document[*member] = value.clone();
        }
        document
    }
}

/// Returns the number of changes, the number by kind, and the first changes.
fn list_json(changes: impl Iterator<Item = ListedChange>) -> Json {
    let mut total = 0_u64;
    let mut by_kind = Map::new();
    let mut first = Vec::new();
    for change in changes {
        total += 1;
        for kind in change.kinds.iter().filter_map(Json::as_str) {
            let count = by_kind.get(kind).and_then(Json::as_u64).unwrap_or_default();
            by_kind.insert(kind.to_owned(), json!(count + 1));
        }
        if first.len() < CHANGES_LISTED_MAX {
            first.push(change.to_json());
        }
    }
    json!({ "total": total, "byChange": by_kind, "first": first })
}
