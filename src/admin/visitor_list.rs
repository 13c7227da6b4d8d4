//! Writes the answers of `GET /insights/visitors`: the list of visitors, with those of their traits that the site publishes as
//! searchable. Finds visitors by such a trait.

use serde_json::{Map, Value as Json, json};

use super::hidden_traits::hidden_traits;
use super::query::{RequestError, parse_pairs, single_site};
use super::representation::Representation;
use crate::access::Caller;
use crate::api::{Handler, Outcome};
use crate::http::request::Request;
use crate::insights::{
    Answer, AskedQuery, Cell, FoundVisitor, FoundVisitors, KnownSite, Query, TraitSearch, VisitorFinder,
    VisitorsQuestion, Zone, write_csv_lines,
};
use crate::problem::{self, Problem};
use crate::record::IdKind;
use crate::resolve::private_traits::HiddenTraits;
use crate::visitors::lookup::{PinnedProfiles, ProfileReader};
use crate::visitors::profile::profile::Profile;

pub(super) const PATH: &str = "/insights/visitors";
/// Begins the title of the column of a trait.
const TRAIT_TITLE: &str = "traits.";

/// Returns the question of a request that searches for visitors by a trait.
///
/// # Errors
/// The site does not publish the trait as searchable, or the request has a parameter that a search does not take.
pub(super) fn search_query<'a>(
    search: TraitSearch,
    hidden_traits: &HiddenTraits,
    pairs: &[(String, String)],
    site: KnownSite<'_>,
    zone: &Zone,
    now_ms: i64,
) -> Result<AskedQuery, RequestError<'a>> {
    let searchable = site.published.map_or(&[][..], |published| &published.traits.searchable);
    if hidden_traits.has(&search.name) || !searchable.iter().any(|name| *name == *search.name) {
        let sentence = "The trait of the header X-Visitor is not searchable. Add its name to 'searchable' in site.json, and publish the site.";
        return Err(Problem::new(problem::INVALID_PARAM, sentence).into());
    }
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    let question = VisitorsQuestion::parse_search(search, &pairs, zone, now_ms);
    question.map(|question| AskedQuery::alone(Query::Visitors(question))).map_err(RequestError::Question)
}

/// A finder of visitors in the table of profiles.
pub(crate) struct ProfileFinder {
    profiles: ProfileReader,
}

impl ProfileFinder {
    /// Creates the finder of a thread.
    pub(crate) fn new(profiles: ProfileReader) -> Self {
        Self { profiles }
    }
}

impl VisitorFinder for ProfileFinder {
    /// Reads the table in slices. Evicted visitors are not in it.
    fn find(
        &mut self,
        site: &str,
        search: &TraitSearch,
        is_over: &dyn Fn() -> bool,
    ) -> Option<FoundVisitors> {
        let mut found = FoundVisitors::default();
        let mut next_shard = Some(0);
        while let Some(first_shard) = next_shard.filter(|_| !found.has_more) {
            if is_over() {
                return None;
            }
            next_shard = self.profiles.read_slice(first_shard, &mut |pinned, shard_index| {
                pinned.visit_shard(shard_index, &mut |profile| {
                    if profile.site() == site && has_text(profile, search) {
                        found.add(ids_of(profile));
                    }
                })
            });
        }
        Some(found)
    }
}

/// Returns whether a profile has the trait of a search with its text. A number has the text of its JSON.
fn has_text(profile: &Profile<'_>, search: &TraitSearch) -> bool {
    match profile.trait_value(&search.name).map(|value| value.to_json()) {
        Some(Json::String(text)) => search.matches(&text),
        Some(Json::Number(number)) => search.matches(&number.to_string()),
        _ => false,
    }
}

fn ids_of(profile: &Profile<'_>) -> FoundVisitor {
    FoundVisitor {
        anon_ids: profile.anon_ids().map(str::to_owned).collect(),
        user_id: profile.user_id().map(str::to_owned),
    }
}

/// Writes the response with a list of visitors. No cache may store it.
pub(super) fn write(
    handler: &mut Handler,
    request: &Request<'_>,
    answer: &Answer,
    caller: &Caller,
    profiles: &mut ProfileReader,
    out: &mut Vec<u8>,
) -> Outcome {
    let pairs = match parse_pairs(request.query) {
        Ok(pairs) => pairs,
        Err(problem) => return handler.reject(request, &problem, out),
    };
    let site = single_site(&pairs).unwrap_or_default();
    let catalog = handler.catalog();
    let names = catalog.by_site_id(site).map(|published| &published.site().traits.searchable);
    let hidden_traits = hidden_traits(caller, site, catalog);
    let names = names.into_iter().flat_map(|names| names.iter().map(ToString::to_string));
    let names: Vec<String> = names.filter(|name| !hidden_traits.has(name)).collect();
    let profiles = profiles.pin();
    let rows = answer.document["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let traits: Vec<Map<String, Json>> =
        rows.iter().map(|row| traits_of(&profiles, site, row, &names)).collect();
    drop(profiles);
    let representation = Representation::of(request);
    let text = match representation {
        Representation::Json => to_json(answer, traits, &names),
        Representation::Csv => to_csv(answer, &traits, &names),
    };
    handler.write_varying(request, representation.media_type(), &text, out);
    Outcome::default()
}

/// Returns the searchable traits of the visitor of a row. A trait that the profile does not have is null.
fn traits_of(profiles: &PinnedProfiles<'_>, site: &str, row: &Json, names: &[String]) -> Map<String, Json> {
    let find = |kind, member: &str| row[member].as_str().and_then(|id| profiles.find(site, kind, id));
    let profile = find(IdKind::Anon, "anonId").or_else(|| find(IdKind::User, "userId"));
    let value = |name: &String| profile.as_ref().and_then(|profile| profile.trait_value(name));
    names.iter().map(|name| (name.clone(), value(name).map_or(Json::Null, |value| value.to_json()))).collect()
}

fn to_json(answer: &Answer, traits: Vec<Map<String, Json>>, names: &[String]) -> String {
    let mut document = answer.document.clone();
    document["searchable"] = json!(names);
    let rows = document["rows"].as_array_mut();
    for (row, traits) in rows.into_iter().flatten().zip(traits) {
        row["traits"] = Json::Object(traits);
    }
    document.to_string()
}

fn to_csv(answer: &Answer, traits: &[Map<String, Json>], names: &[String]) -> String {
    let titles = answer.header.iter().map(|title| (*title).to_owned());
    let titles = titles.chain(names.iter().map(|name| format!("{TRAIT_TITLE}{name}")));
    let header: Vec<Cell> = titles.map(|title| Cell::Text(Some(title))).collect();
    let cell = |value: &Json| match value {
        Json::Null => Cell::Text(None),
        Json::String(text) => Cell::Text(Some(text.clone())),
        other => Cell::Text(Some(other.to_string())),
    };
    let line = |(line, traits): (&Vec<Cell>, &Map<String, Json>)| {
        line.iter().cloned().chain(traits.values().map(cell)).collect()
    };
    let lines: Vec<Vec<Cell>> =
        [header].into_iter().chain(answer.lines.iter().zip(traits).map(line)).collect();
    write_csv_lines(&lines)
}
