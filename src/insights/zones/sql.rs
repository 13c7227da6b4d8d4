//! Writes the SQL of an answer about zones.

use std::fmt::Write;

use super::question::ZonesQuestion;
use crate::insights::questions::sql_parts::{begin_events, instant, text};

/// Returns the query. `zones` has the name of each zone in the answer. The flag is true if the answer counts the
/// variant `default` of the zone.
pub(super) fn zones_query(question: &ZonesQuestion, site: &str, zones: &[(&str, bool)]) -> String {
    let mut sql = begin_events(site, question.bots);
    let from = instant(question.range.start);
    let to = instant(question.range.end);
    let listed = zones.iter().map(|(zone, has_default)| format!("({}, {has_default})", text(zone)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let zones = if listed.is_empty() {
        "(select '' as zone, false as has_default limit 0)".to_owned()
    } else {
        format!("(values {listed})")
    };
    let page = text(&question.page);
    let _ = write!(
        sql,
        ",
in_range as (select * from events where ts >= {from} and ts < {to} and visitor is not null),
zones(zone, has_default) as (select * from {zones}),
shown as (
  select * from (select visitor, ts, zone, has_default,
      coalesce(nullif(regexp_extract(variants, '(^|,)' || zone || ':([A-Za-z0-9_-]+)', 2), ''), 'default') as variant
    from in_range, zones where type = 'page' and path = {page} and variants is not null)
  where has_default or variant <> 'default'),
variants as (select zone, variant, count(*) as views, count(distinct visitor) as visitors from shown group by 1, 2),
first_shown as (select zone, variant, visitor, min(ts) as shown_at from shown group by 1, 2, 3),
followed as (
  select f.zone, f.variant, e.event, count(distinct e.visitor) as followed
  from first_shown f join in_range e on e.visitor = f.visitor and e.ts >= f.shown_at
  where e.type in ('track', 'screen') and e.event is not null group by 1, 2, 3)
select zone, variant, views, visitors, event, followed from variants left join followed using (zone, variant)
order by zone, variant, followed desc, event"
    );
    sql
}
