//! Random histories of visitors. Profiles, exports, erasures and Insights agree with one naive model of identity.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parallax::testing::events::export::write_line;
use parallax::testing::insights::{
    ColumnBuilder, Columns, CountedLog, Limits, Query, Question, SiteFacts, Subject, VisitorKey, Zone,
    answer_over,
};
use parallax::testing::limits::USER_ANON_IDS_MAX;
use parallax::testing::log::{LogItem, LogReader, Request};
use parallax::testing::record::{IdKind, Record, RecordKind, VisitorId};
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::ownership::OwnershipRule;
use parallax::testing::visitors::verify::check_directory;
use serde_json::Value;

use self::model::{ANON_IDS, Id, Kept, Model, Sent, USER_IDS, Visitor};
use crate::checkpoints::erasing::{eraser, try_erase};
use crate::checkpoints::{DIRECTORY, RunningLog, World};
use crate::dice::Dice;
use crate::folded::with_fold_input;
use crate::harness::times;
use crate::log::simulated::{Fault, Plan};

const MINUTE_MS: i64 = 60_000;
/// 2026-01-05 00:00 in UTC.
const START_MS: i64 = 1_767_571_200_000;
const NOW_MS: i64 = START_MS + 10 * 24 * 60 * MINUTE_MS;

/// Returns an event that happens up to 40 minutes after the one before, so that some visits end.
fn random_event(dice: &mut Dice, before_ms: i64) -> Sent {
    use RecordKind::{Alias, Group, Identify, Page, Profile, Screen, Track};
    let kinds =
        [Page, Page, Page, Track, Track, Screen, Identify, Identify, Identify, Alias, Alias, Group, Profile];
    let kind = *dice.pick(&kinds);
    let (anon, user) = (Some(*dice.pick(&ANON_IDS)), Some(*dice.pick(&USER_IDS)));
    let names = dice.below(3);
    let is_alias = kind == Alias;
    Sent {
        kind,
        at_ms: before_ms + dice.below(40) as i64 * MINUTE_MS,
        is_bot: dice.below(8) == 0,
        keeps_bots: dice.below(2) == 0,
        anon: anon.filter(|_| names != 0 && !is_alias),
        user: user.filter(|_| names != 1 || is_alias),
        previous: is_alias
            .then(|| if dice.below(6) == 0 { *dice.pick(&USER_IDS) } else { *dice.pick(&ANON_IDS) }),
    }
}

/// Passes the record of an event to `take`. The campaign of a page is its number.
fn with_record<T>(number: usize, sent: &Sent, take: impl FnOnce(&Record<'_>) -> T) -> T {
    let payload = match (sent.kind, sent.previous) {
        (RecordKind::Page, _) => format!(r#"{{"context":{{"campaign":{{"name":"c{number}"}}}}}}"#),
        (_, Some(previous)) => format!(r#"{{"previousId":"{previous}"}}"#),
        _ => "{}".to_owned(),
    };
    let record = Record {
        bot: sent.is_bot,
        is_folded_bot: sent.is_bot && sent.keeps_bots,
        received_ms: sent.at_ms,
        timestamp_ms: sent.at_ms,
        key: number as u128 + 1,
        site: Some("acme"),
        anon_id: sent.anon,
        user_id: sent.user,
        event: (sent.kind == RecordKind::Track).then_some("Order Placed"),
        path: (sent.kind == RecordKind::Page).then_some("/"),
        payload: &payload,
        ..Record::new(sent.kind)
    };
    with_fold_input(sent.kind, &payload, |fold_input| take(&Record { fold_input, ..record }))
}

/// A running server, and the model of its events.
struct History {
    world: World,
    running: RunningLog,
    model: Model,
    context: String,
}

impl History {
    /// Kills the process and starts another one.
    fn restart(self) -> Self {
        let Self { world, running, model, context } = self;
        drop(running);
        Self { running: world.open(), world, model, context }
    }

    /// Returns the history, for the message of a failed assertion.
    fn story(&self) -> String {
        format!("{}\n{}", self.context, self.model.story())
    }

    fn send(&mut self, sent: Sent) {
        let mut request = Request::new(0);
        with_record(self.model.len(), &sent, |record| request.push(record))
            .expect("the record is within bounds");
        self.running.client.send(request).expect("the queue accepts it");
        self.running.writer.run_once();
        self.running.client.next_completion().expect("one step completes the request");
        self.model.send(sent);
    }

    fn erase(&mut self, id: Visitor) {
        let (kind, text) = kind_and_text(id);
        let erased =
            try_erase(&self.world, &mut self.running, (kind, text), vec![(kind, text.to_owned())], 1);
        let erased = erased.expect("the disk works");
        let visitor = self.model.present(id);
        let (records, redacted) = self.model.erase(visitor);
        let found = (erased.records, erased.redacted, erased.seq);
        assert_eq!(found, (records, redacted, self.model.len() as u64), "{id:?}: {}", self.story());
    }

    /// Passes each record of the log to `take`.
    fn each_record(&self, mut take: impl FnMut(u64, &Record<'_>)) {
        let disk = Arc::new(self.world.disk.clone());
        let mut reader = LogReader::open(disk, Path::new(DIRECTORY), 0).expect("the log opens");
        while let Some(item) = reader.read_next().expect("reading succeeds") {
            let LogItem::Records(records) = item else { panic!("{item:?}") };
            records.iter().for_each(|(seq, record)| take(seq, &record));
        }
    }

    /// Makes the end of the log visible to readers: the log writer marks it as durable after 100 ms.
    fn settle(&mut self) {
        self.world.clock.pass(200);
        self.running.writer.run_once();
    }

    fn check(&mut self, dice: &mut Dice) {
        self.settle();
        self.check_records();
        self.check_profiles();
        self.check_owners();
        self.check_export();
        self.check_insights(dice);
    }

    /// Compares the records of the log with the rest of each event.
    fn check_records(&self) {
        let kept = self.model.kept();
        self.each_record(|seq, record| {
            let mut fold_input = Vec::new();
            let previous = record.previous_id(&mut fold_input);
            let found = [record.anon_id, record.user_id, previous];
            let Some(kept) = kept[seq as usize - 1] else {
                let is_gone = matches!(record.kind, RecordKind::Void | RecordKind::Tombstone);
                assert!(is_gone && found == [None; 3], "seq {seq}: {record:?}: {}", self.story());
                return;
            };
            let Kept { kind, anon, user, previous, is_redacted, .. } = kept;
            assert_eq!(found, [anon, user, previous], "seq {seq}: {}", self.story());
            assert_eq!((record.kind, record.is_redacted), (kind, is_redacted), "seq {seq}: {}", self.story());
        });
    }

    /// Compares the ties of each ID, and the page views of each visitor.
    fn check_profiles(&self) {
        let (owners, model) = (self.model.owners(), &self.model);
        let is_view = |at: &usize| {
            let sent = model.sent(*at);
            sent.is_some_and(|sent| sent.kind == RecordKind::Page && sent.changes_profile())
        };
        let views = |visitor: Visitor| {
            (0..model.len()).filter(|at| owners[*at] == Some(visitor) && is_view(at)).count() as u64
        };
        let profiles = self.running.profiles.lock().expect("the lock is not poisoned");
        let mut lookup = profiles.as_ref().expect("it is not taken yet").readers().reader();
        let pinned = lookup.pin();
        for id in all_ids() {
            let (kind, text) = kind_and_text(id);
            let visitor = model.present(id);
            let profile = pinned.find("acme", kind, text);
            let context = || format!("{id:?}: {}", self.story());
            let found = profile.as_ref().map_or(0, |profile| profile.page_views());
            assert_eq!(found, views(visitor), "{}", context());
            let user = profile.as_ref().and_then(|profile| profile.user_id());
            match (id, profile.as_ref()) {
                (Visitor::Anonymous(anon), _) => {
                    assert_eq!(user, model.user_of(anon, model.len()), "{}", context())
                }
                (Visitor::User(user), Some(profile)) => {
                    let tied = anon_ids().filter(|anon| model.user_of(anon, model.len()) == Some(user));
                    let found: BTreeSet<&str> = profile.anon_ids().collect();
                    assert_eq!(found, tied.collect(), "{}", context());
                }
                (Visitor::User(_), None) => {}
            }
        }
    }

    /// Compares the records that an export of each ID has.
    fn check_owners(&self) {
        let source = eraser(&self.world, &self.running).source;
        let ownership = source.open().expect("the checkpoint is valid");
        for id in all_ids() {
            let (kind, text) = kind_and_text(id);
            let visitor = ownership
                .visitor(VisitorId { site: "acme", id_kind: kind, id: text })
                .expect("the checkpoint is valid");
            let mut rule = OwnershipRule::new(&ownership, vec![visitor]);
            let mut found = Vec::new();
            self.each_record(|seq, record| {
                found.extend(rule.exports(seq, record).expect("the checkpoint is valid").then_some(seq));
            });
            assert_eq!(found, self.model.exported(self.model.present(id)), "{id:?}: {}", self.story());
        }
    }

    /// Compares the column `tied`, and the credits that the shown SQL computes from the export.
    fn check_export(&self) {
        let mut lines = BTreeMap::<u64, Value>::new();
        self.each_record(|seq, record| {
            if !matches!(record.kind, RecordKind::Void | RecordKind::Tombstone) {
                let mut line = Vec::new();
                write_line(&mut line, seq, record);
                lines.insert(seq, serde_json::from_slice(&line).expect("JSON"));
            }
        });
        let (tied, visitors) = (self.model.tied(), self.model.visitors());
        for (seq, line) in &lines {
            let at = *seq as usize - 1;
            assert_eq!(line["tied"].as_str(), tied[at], "seq {seq}: {}", self.story());
            if let Some(visitor) = visitors[at].filter(|_| line["anonId"].is_null()) {
                let credited = credit_by_export(&lines, *seq);
                let expected = kind_and_text(visitor);
                let found = credited
                    .map_or((IdKind::User, line["userId"].as_str()), |anon| (IdKind::Anon, Some(anon)));
                assert_eq!(found, (expected.0, Some(expected.1)), "seq {seq}: {}", self.story());
            }
        }
    }

    /// Compares the visits and the events of each campaign.
    fn check_insights(&self, dice: &mut Dice) {
        let key = VisitorKey([7; 16]);
        let (mut files, mut builder, mut last_seq) = (Vec::new(), ColumnBuilder::new(1, key), 0);
        self.each_record(|seq, record| {
            if dice.below(10) == 0 && seq > 1 {
                files.push(Columns::from_bytes(builder.to_bytes(seq - 1)).expect("an intact file"));
                builder = ColumnBuilder::new(seq, key);
            }
            builder.add(record);
            last_seq = seq;
        });
        files.push(Columns::from_bytes(builder.to_bytes(last_seq)).expect("an intact file"));
        let site = SiteFacts {
            site: "acme".to_owned(),
            zone: Zone { name: "Europe/Oslo".to_owned(), offsets: vec![(0, 3600)] },
            own_hosts: Vec::new(),
            ignored_referrers: Vec::new(),
            ignores_providers: true,
            version: Some(1),
            ..SiteFacts::unpublished("acme")
        };
        let pairs = [("of", "campaign"), ("limit", "1000"), ("from", "2026-01-01"), ("to", "2026-02-01")];
        let question = Question::parse(Subject::Top, pairs.into_iter(), &site.zone, NOW_MS);
        let query = Query::Views(question.expect("valid parameters"));
        let files: Vec<&Columns> = files.iter().collect();
        let limits = Limits { memory_bytes: *dice.pick(&[2_000, 1 << 30]), is_over: &|| false };
        let answer = answer_over(&files, CountedLog::alone(9), &query, &site, NOW_MS, &limits)
            .expect("an answer")
            .document;
        let rows = answer["rows"].as_array().expect("rows").iter();
        let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
        let found = rows.map(|row| {
            let numbers = [number(row, "visits"), number(row, "views"), number(row, "events")];
            (row["value"].as_str().map(str::to_owned), numbers)
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), self.campaigns(), "{}", self.story());
    }

    /// Returns visits, views and events by the campaign of the first page of their visit.
    fn campaigns(&self) -> BTreeMap<Option<String>, [u64; 3]> {
        let (kept, mut rows) = (self.model.kept(), BTreeMap::<Visitor, Vec<usize>>::new());
        for (at, visitor) in self.model.visitors().into_iter().enumerate() {
            visitor.into_iter().for_each(|visitor| rows.entry(visitor).or_default().push(at));
        }
        let sent = |at: usize| self.model.sent(at).expect("an event");
        let mut campaigns = BTreeMap::<Option<String>, [u64; 3]>::new();
        for rows in rows.into_values() {
            let (mut visits, mut last_ms) = (vec![Vec::new()], None);
            for at in rows {
                if kept[at].is_some_and(|kept| kept.anon.is_some()) {
                    let at_ms = sent(at).at_ms;
                    if last_ms.is_none_or(|last_ms| at_ms - last_ms > 30 * MINUTE_MS) {
                        visits.push(Vec::new());
                    }
                    last_ms = Some(at_ms);
                }
                visits.last_mut().expect("at least the events without a visit").push(at);
            }
            for (number, visit) in visits.into_iter().enumerate() {
                let is_page = |at: &&usize| sent(**at).kind == RecordKind::Page;
                let campaign = visit.iter().find(is_page).filter(|_| number > 0).map(|at| format!("c{at}"));
                let views = visit.iter().filter(is_page).count();
                let visits = usize::from(number > 0);
                if !visit.is_empty() {
                    let counts = campaigns.entry(campaign).or_default();
                    let added = [visits, views, visit.len() - views];
                    counts.iter_mut().zip(added).for_each(|(count, added)| *count += added as u64);
                }
            }
        }
        campaigns
    }
}

/// Returns the anonymous ID to which the shown SQL credits the event of a line without one.
fn credit_by_export(lines: &BTreeMap<u64, Value>, seq: u64) -> Option<&str> {
    let mut users = BTreeMap::<&str, (u64, Option<&str>)>::new();
    let mut named = BTreeMap::<&str, Option<&str>>::new();
    for (at, line) in lines.range(..seq) {
        let Some(tied) = line["tied"].as_str() else { continue };
        let user = line["userId"].as_str();
        let before = named.insert(tied, user).flatten();
        if line["type"] != "alias" || before.is_none() {
            users.insert(tied, (*at, user));
        }
    }
    let user = lines[&seq]["userId"].as_str();
    let of_user = users.into_iter().filter(|(_, (_, tied))| tied.is_some() && *tied == user);
    of_user.max_by_key(|(_, (at, _))| *at).map(|(anon, _)| anon)
}

fn kind_and_text(id: Visitor) -> (IdKind, Id) {
    match id {
        Visitor::User(id) => (IdKind::User, id),
        Visitor::Anonymous(id) => (IdKind::Anon, id),
    }
}

fn anon_ids() -> impl Iterator<Item = Id> {
    ANON_IDS.into_iter().chain(USER_IDS)
}

fn all_ids() -> impl Iterator<Item = Visitor> {
    anon_ids().map(Visitor::Anonymous).chain(USER_IDS.map(Visitor::User))
}

fn compare(seeds: usize, erases: bool) {
    for seed in 0..seeds as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(seed);
        world.options.segment_bytes = *dice.pick(&[1, 3_000]);
        world.log_bytes = *dice.pick(&[1, 3_000, 100_000]);
        let running = world.open();
        let context = format!("seed {seed}");
        let mut history = History { world, running, model: Model::default(), context };
        let mut at_ms = START_MS;
        for _ in 0..10 + dice.below(35) {
            match dice.below(16) {
                0 => {
                    history = history.restart();
                }
                1 | 2 if erases => {
                    let id = *dice.pick(&all_ids().collect::<Vec<_>>());
                    history.erase(id);
                    history.check(&mut dice);
                }
                _ => {
                    let sent = random_event(&mut dice, at_ms);
                    at_ms = sent.at_ms;
                    history.send(sent);
                }
            }
        }
        history.check(&mut dice);
        history.running.settle();
        let disk: Arc<dyn Disk> = Arc::new(history.world.disk.clone());
        let report = check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works");
        assert_eq!(report.failures, 0, "{}: {:?}", history.story(), report.lines);
    }
}

#[test]
fn profiles_exports_and_insights_agree_about_every_tie_and_owner() {
    compare(times(60, 3_000), false);
}

#[test]
fn profiles_exports_and_insights_agree_after_every_erasure() {
    compare(times(60, 3_000), true);
}

/// Returns an event of an anonymous ID and a user. That of an alias is its `previousId`.
fn event(number: i64, kind: RecordKind, (anon, user): (Id, Id)) -> Sent {
    let is_alias = kind == RecordKind::Alias;
    Sent {
        kind,
        at_ms: START_MS + number * MINUTE_MS,
        is_bot: false,
        keeps_bots: false,
        anon: (!is_alias).then_some(anon),
        user: Some(user),
        previous: is_alias.then_some(anon),
    }
}

/// The documented exception: the filter of lost IDs cannot forget one.
#[test]
fn an_id_that_its_profile_lost_is_free_for_an_identify_but_for_no_alias_after_the_erasure() {
    let (world, context) = (World::new(1), "lost".to_owned());
    let running = world.open();
    let mut history = History { world, running, model: Model::default(), context };
    let devices: Vec<Id> = (0..=USER_ANON_IDS_MAX).map(|number| &*format!("d{number}").leak()).collect();
    for device in &devices {
        history.send(event(0, RecordKind::Identify, (device, "u0")));
    }
    let erased = try_erase(&history.world, &mut history.running, (IdKind::User, "u0"), Vec::new(), 1);
    assert_eq!(erased.expect("the disk works").records, devices.len() as u64);
    let user_of = |history: &History, id: Id| {
        let profiles = history.running.profiles.lock().expect("the lock is not poisoned");
        let mut lookup = profiles.as_ref().expect("it is not taken yet").readers().reader();
        let pinned = lookup.pin();
        pinned.find("acme", IdKind::Anon, id).and_then(|profile| profile.user_id().map(str::to_owned))
    };
    for device in &devices[..2] {
        history.send(event(1, RecordKind::Alias, (device, "u1")));
    }
    assert_eq!([devices[0], devices[1]].map(|id| user_of(&history, id)), [None, Some("u1".to_owned())]);
    history.send(event(2, RecordKind::Identify, (devices[0], "u1")));
    assert_eq!(user_of(&history, devices[0]), Some("u1".to_owned()));
}

#[test]
fn an_erasure_that_fails_at_any_call_keeps_the_end_of_a_tie_when_it_is_repeated() {
    let mut failed = 0;
    for call in 1..=times(60, 600) as u64 {
        let mut world = World::new(call);
        world.options.segment_bytes = 1;
        let running = world.open();
        let context = format!("call {call}");
        let mut history = History { world, running, model: Model::default(), context };
        history.send(event(0, RecordKind::Identify, ("a0", "u0")));
        history.send(event(1, RecordKind::Identify, ("a0", "u1")));
        history.send(event(2, RecordKind::Page, ("a0", "u1")));
        history.world.disk.plan(Plan::Nth(call, Fault::Eio));
        let erase = |history: &mut History| {
            try_erase(&history.world, &mut history.running, (IdKind::User, "u1"), Vec::new(), 100)
        };
        failed += usize::from(erase(&mut history).is_err());
        history.world.disk.plan(Plan::Never);
        history = history.restart();
        erase(&mut history).expect("the disk works");
        history.settle();
        let mut found = Vec::new();
        let text = |id: Option<&str>| id.unwrap_or("-").to_owned();
        history
            .each_record(|_, record| found.push((record.kind, text(record.anon_id), text(record.user_id))));
        let expected = [
            (RecordKind::Identify, "a0".to_owned(), "u0".to_owned()),
            (RecordKind::Identify, "a0".to_owned(), "-".to_owned()),
            (RecordKind::Void, "-".to_owned(), "-".to_owned()),
        ];
        assert_eq!(found[..3], expected, "call {call}");
        let disk: Arc<dyn Disk> = Arc::new(history.world.disk.clone());
        let report = check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works");
        assert_eq!(report.failures, 0, "call {call}: {:?}", report.lines);
    }
    assert!(failed > 5, "few calls end an erasure: {failed}");
}
