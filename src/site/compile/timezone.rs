//! UTC offsets of the site's time zone. The snapshot contains them, so that servers need no time zone
//! database and all servers agree. They come from the database of this release.

use jiff::Timestamp;
use jiff::tz::{TimeZone, db};

use crate::limits::{CLOCK_FROM_S, CLOCK_UNTIL_S};
use crate::site::snapshot::format::ClockOffset;
use crate::site::source::diagnostics::Diagnostics;

/// Returns the date in a time zone at a time in milliseconds since 1970, or `None` if there is no such time zone.
pub(super) fn date_at(time_zone_name: &str, now_ms: i64) -> Option<String> {
    let now = Timestamp::from_millisecond(now_ms).ok()?;
    Some(now.to_zoned(TimeZone::get(time_zone_name).ok()?).date().to_string())
}

/// Returns the offsets of the covered period. A snapshot is served in the years after its compilation. After the last
/// change in this period, the last offset stays in use.
pub(super) fn clock_offsets(time_zone_name: &str, diagnostics: &mut Diagnostics) -> Vec<ClockOffset> {
    let Ok(zone) = TimeZone::get(time_zone_name) else {
        let known: Vec<String> = db().available().map(|known| known.to_string()).collect();
        let known = known.iter().map(String::as_str);
        let expected = "the name of an IANA time zone";
        diagnostics.add_unknown("site.json", "/timeZone", "time zone", time_zone_name, expected, known);
        return Vec::new();
    };
    let from = Timestamp::from_second(CLOCK_FROM_S).expect("2020 is in range");
    let first = ClockOffset { from_s: CLOCK_FROM_S, offset_s: zone.to_offset(from).seconds() };
    let changes = zone
        .following(from)
        .map(|change| (change.timestamp().as_second(), change.offset().seconds()))
        .take_while(|(from_s, _)| *from_s < CLOCK_UNTIL_S)
        .map(|(from_s, offset_s)| ClockOffset { from_s, offset_s });
    std::iter::once(first).chain(changes).collect()
}
