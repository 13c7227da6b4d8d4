//! Writes the answer about the zones of a page.

use serde_json::{Value as Json, json};

use super::count::{VariantCount, ZoneCount, ZoneCounts};
use super::question::ZonesQuestion;
use super::sql::zones_query;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::site::SiteFacts;

/// The columns of CSV and of tables.
const HEADER: [&str; 6] = ["zone", "variant", "views", "visitors", "event", "followed"];

/// Writes the answer.
pub(crate) fn write_zones(
    question: &ZonesQuestion,
    site: &SiteFacts,
    counts: &ZoneCounts,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.range, site, answered_log);
    document.insert("zones".to_owned(), counts.zones.iter().map(|zone| zone_json(zone, question)).collect());
    document.insert("more".to_owned(), json!(counts.more));
    let has_default = |zone: &ZoneCount| {
        zone.variants.iter().any(|variant| variant.key == "default" && variant.shown.is_some())
    };
    let zones: Vec<_> = counts.zones.iter().map(|zone| (&*zone.zone, has_default(zone))).collect();
    let sql = zones_query(question, &site.site, &zones);
    end_document(&mut document, &counts.other, counts.rows, answered_log, sql);
    let lines = counts
        .zones
        .iter()
        .flat_map(|zone| zone.variants.iter().flat_map(|variant| variant_lines(&zone.zone, variant)));
    let document = Json::Object(document);
    Answer {
        lines: lines.collect(),
        document,
        header: HEADER.to_vec(),
        notes: Vec::new(),
        seq: answered_log.seq,
    }
}

fn zone_json(zone: &ZoneCount, question: &ZonesQuestion) -> Json {
    let published = question.zones.iter().find(|published| published.zone == zone.zone);
    json!({
        "zone": zone.zone,
        // If the zone is not published, it is unknown if the zone is nested.
        "nested": published.map(|published| published.nested),
        "rules": published.map(|published| &published.rules[..]).unwrap_or_default(),
        "comparable": published.is_some_and(|published| published.comparable),
        "variants": zone.variants.iter().map(variant_json).collect::<Json>(),
        "more": zone.more,
    })
}

fn variant_json(variant: &VariantCount) -> Json {
    let Some(shown) = &variant.shown else {
        return json!({ "key": variant.key, "views": null, "visitors": null, "followed": null, "more": null });
    };
    let followed = shown.followed.iter();
    let followed = followed.map(|event| json!({ "event": event.name, "visitors": event.visitors }));
    json!({
        "key": variant.key, "views": shown.views, "visitors": shown.visitors, "followed": followed.collect::<Json>(),
        "more": shown.more,
    })
}

/// Returns a line for each event, or one line if there is no event.
fn variant_lines(zone_name: &str, variant: &VariantCount) -> Vec<Vec<Cell>> {
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    let number = |number: Option<u64>| number.map_or(Cell::Text(None), |number| Cell::Number(number as i64));
    let shown = variant.shown.as_ref();
    let line = |event: Cell, followed: Cell| {
        let views = number(shown.map(|shown| shown.views));
        let visitors = number(shown.map(|shown| shown.visitors));
        vec![text(zone_name), text(&variant.key), views, visitors, event, followed]
    };
    let followed = shown.map(|shown| &shown.followed[..]).unwrap_or_default();
    if followed.is_empty() {
        return vec![line(Cell::Text(None), Cell::Text(None))];
    }
    followed.iter().map(|event| line(text(&event.name), Cell::Number(event.visitors as i64))).collect()
}
