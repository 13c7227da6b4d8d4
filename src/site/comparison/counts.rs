//! The numbers of a comparison as a server counted them.

use serde_json::Value as Json;

use super::known_visitors::VisitorRange;
use super::{Side, SiteComparison};

impl SiteComparison {
    /// Takes over the numbers of the JSON document of a server. Returns false if the server compared other versions, so that the
    /// document has other changes.
    pub(crate) fn take_numbers(&mut self, document: &Json) -> bool {
        let members = ["unchanged", "experiments", "holdout", "zones", "audiences"];
        let own = self.to_json();
        if members.iter().any(|member| without_numbers(&own[*member]) != without_numbers(&document[*member]))
        {
            return false;
        }
        self.visitor_count = document["profiles"].as_u64();
        for (index, change) in self.changes.iter_mut().enumerate() {
            let enrolled = &document["experiments"][index]["enrolled"];
            let set = |side: &mut Option<Side>, name: &str| {
                side.iter_mut().for_each(|side| side.enrolled_count = enrolled[name].as_u64());
            };
            set(&mut change.before, "before");
            set(&mut change.after, "after");
        }
        let range = |change: &Json| {
            let number = |name: &str| change[name].as_u64().unwrap_or_default();
            VisitorRange { at_least: number("atLeast"), at_most: number("atMost") }
        };
        for (index, change) in self.zones.iter_mut().enumerate() {
            change.visitors = range(&document["zones"][index]);
        }
        for (index, change) in self.audiences.iter_mut().enumerate() {
            change.visitors = range(&document["audiences"][index]);
        }
        true
    }
}

/// Returns changes without the numbers of IDs and visitors, and without the texts that contain them.
fn without_numbers(changes: &Json) -> Json {
    let mut changes = changes.clone();
    for change in changes.as_array_mut().into_iter().flatten() {
        if let Json::Object(members) = change {
            ["enrolled", "text", "atLeast", "atMost"].iter().for_each(|name| drop(members.remove(*name)));
        }
    }
    changes
}
