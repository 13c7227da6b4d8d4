//! The exposure of a track event named `Experiment Viewed`, as other SDKs send it in place of `experiments`.

use super::document::Value;
use super::event::Event;
use super::variants::is_key;
use crate::record::EXPOSURE_EVENT;

/// The properties of the key and of the variant. The first that is not `null` is read.
const KEY_PROPERTIES: [&str; 2] = ["experiment_id", "experimentId"];
const VARIANT_PROPERTIES: [&str; 3] = ["variation_id", "variationId", "variation_name"];

/// Writes the exposure of an event into `out` as `key:variant`. Returns whether the event has one: key and
/// variant must have the form of keys in a site.
pub(super) fn write(event: &Event<'_>, out: &mut String) -> bool {
    out.clear();
    if event.event != Some(EXPOSURE_EVENT) {
        return false;
    }
    let read = |names: &[&str]| read_key(event.properties?, names);
    let Some((key, variant)) = read(&KEY_PROPERTIES).zip(read(&VARIANT_PROPERTIES)) else { return false };
    out.extend([key, ":", variant]);
    true
}

fn read_key<'d>(properties: Value<'d>, names: &[&str]) -> Option<&'d str> {
    let found = names.iter().filter_map(|name| properties.get(name)).find(|value| !value.is_null())?;
    found.as_text().filter(|text| is_key(text))
}
