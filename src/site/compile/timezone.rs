//! UTC offsets of the site's time zone. The snapshot contains them, so that servers need no time zone
//! database and all servers agree. They come from the database of this release.

use jiff::Timestamp;
use jiff::tz::{TimeZone, db};

use crate::nearest::nearest;
use crate::site::snapshot::format::ClockOffset;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};

/// The covered period, in seconds since 1970: 2020-01-01 to 2100-01-01. A snapshot is served in the years
/// after its compilation. After the last change in this period, the last offset stays in use.
const FROM_S: i64 = 1_577_836_800;
const UNTIL_S: i64 = 4_102_444_800;

pub(super) fn clock_offsets(name: &str, mistakes: &mut Diagnostics) -> Vec<ClockOffset> {
    let Ok(zone) = TimeZone::get(name) else {
        let known: Vec<String> = db().available().map(|known| known.to_string()).collect();
        let nearest = nearest(name, known.iter().map(String::as_str));
        let expected = "the name of an IANA time zone";
        let diagnostic = Diagnostic::at_value("site.json", "/timeZone", expected, format!("{name:?}"));
        let diagnostic = diagnostic.with_title(format!("unknown time zone {name:?}"));
        mistakes.add(diagnostic.with_nearest(nearest));
        return Vec::new();
    };
    let from = Timestamp::from_second(FROM_S).expect("2020 is in range");
    let first = ClockOffset { from_s: FROM_S, offset_s: zone.to_offset(from).seconds() };
    let changes = zone
        .following(from)
        .map(|change| (change.timestamp().as_second(), change.offset().seconds()))
        .take_while(|(from_s, _)| *from_s < UNTIL_S)
        .map(|(from_s, offset_s)| ClockOffset { from_s, offset_s });
    std::iter::once(first).chain(changes).collect()
}
