//! Backups and erasures: they exclude each other, and `--forget-erased` deletes older copies.

use std::fs;
use std::thread;

use rustix::fs::FlockOperation;

use super::{Place, TOKEN, assert_exit, check, contains, names, parallax, segments, send_events, stop};
use crate::harness::{Client, Server, times};

fn erase(server: &Server, anon_id: &str) -> u16 {
    let target = format!("/visitors?site=fjell&anonId={anon_id}");
    Client::to(server.admin).request("DELETE", &target, &[TOKEN]).status
}

#[test]
fn an_erasure_waits_for_a_backup_and_a_backup_for_an_erasure() {
    let place = Place::new();
    let server = place.start();
    send_events(&server, &["ana"]);
    let lock = place.lock_secret(FlockOperation::LockShared);
    thread::scope(|scope| {
        let erased = scope.spawn(|| erase(&server, "ana"));
        // Two backups do not exclude each other.
        place.back_up(&[]);
        assert!(!erased.is_finished(), "the erasure waits");
        assert!(contains(&place.data, "\"pad\""), "nothing is erased yet");
        drop(lock);
        assert_eq!(erased.join().expect("it ends"), 200);
    });
    assert!(!contains(&place.data, "\"pad\""));
    let lock = place.lock_secret(FlockOperation::LockExclusive);
    let child = place.begin_waiting();
    assert!(place.backups().iter().any(|name| name.ends_with(".partial")));
    drop(lock);
    assert_exit(&child.wait_with_output().expect("it ends"), 0, ": complete, ");
}

#[test]
fn a_segment_that_an_erasure_rewrites_while_the_backup_is_made_is_copied_again() {
    let place = Place::with_events(&["ana-erased", "bob"]);
    // The same directory after the erasure.
    let mut after = Place::new();
    after.data = after.path("after");
    let copied = std::process::Command::new("cp").arg("-a").args([&place.data, &after.data]).status();
    assert!(copied.expect("cp is there").success());
    let server = after.start();
    assert_eq!(erase(&server, "ana-erased"), 200);
    stop(server);
    let lock = place.lock_secret(FlockOperation::LockExclusive);
    let child = place.begin_waiting();
    let is_replaced = |name: &&String| *name != "secret" && *name != "audit";
    for name in names(&place.data).iter().filter(is_replaced) {
        fs::remove_file(place.data.join(name)).expect("deleted");
    }
    for name in names(&after.data).iter().filter(is_replaced) {
        fs::copy(after.data.join(name), place.data.join(name)).expect("copied");
    }
    drop(lock);
    assert_exit(&child.wait_with_output().expect("it ends"), 0, ": complete, ");
    assert!(!contains(&place.target.join(place.backups().pop_last().expect("a backup")), "ana-erased"));
}

#[test]
fn backups_beside_erasures_are_sound_and_the_one_after_them_has_no_erased_visitor() {
    let place = Place::new();
    let server = place.start();
    let visitors: Vec<String> = (0..times(6, 40)).map(|n| format!("erased-{n}")).collect();
    let all: Vec<&str> = visitors.iter().map(String::as_str).chain(["kept"]).collect();
    send_events(&server, &all);
    thread::scope(|scope| {
        let erasing = scope.spawn(|| visitors.iter().all(|visitor| erase(&server, visitor) == 200));
        let mut rounds = 0;
        while !erasing.is_finished() || rounds < 2 {
            assert_exit(&check(&place.back_up(&["--keep", "2"])), 0, "sound");
            rounds += 1;
        }
        assert!(erasing.join().expect("it ends"), "each erasure waits for the backup");
    });
    let last = place.back_up(&["--keep", "1"]);
    assert_eq!(place.backups().len(), 1);
    assert!(contains(&last, "kept"));
    assert!(!contains(&last, "erased-"));
}

#[test]
fn forget_erased_deletes_the_copies_of_rewritten_segments_in_earlier_backups() {
    let place = Place::with_events(&["bob"]);
    let before_ana = place.back_up(&[]);
    let server = place.start();
    send_events(&server, &["ana-erased"]);
    stop(server);
    let first = place.back_up(&[]);
    let server = place.start();
    assert_eq!(erase(&server, "ana-erased"), 200);
    stop(server);
    let second = place.back_up(&[]);
    assert!(contains(&first, "ana-erased") && !contains(&second, "ana-erased"));
    let third = place.back_up(&["--forget-erased"]);
    assert!(!contains(&third, "ana-erased"));
    assert!(before_ana.exists() && second.exists(), "{:?}", place.backups());
    assert_exit(&check(&before_ana), 0, "sound");
    assert!(!first.exists());
    let incomplete = first.with_extension("incomplete");
    assert!(!contains(&incomplete, "ana-erased"));
    assert!(contains(&incomplete, "bob"), "the other segments are there");
    assert!(names(&incomplete).iter().all(|name| !name.ends_with(".checkpoint")));
    // An incomplete backup counts for nothing, and goes with the backups of its time.
    let last = place.back_up(&["--forget-erased", "--keep", "1"]);
    assert_eq!(place.backups().into_iter().map(|name| place.target.join(name)).collect::<Vec<_>>(), [last]);
}

#[test]
fn forget_erased_deletes_the_checkpoints_of_a_backup_without_the_records_of_an_erased_visitor() {
    let place = Place::with_events(&["ana-erased"]);
    let server = place.start();
    send_events(&server, &["bob", "cara"]);
    stop(server);
    while contains_record(&place, "ana-erased") {
        place.expire_first_segment();
    }
    let first = place.back_up(&[]);
    let server = place.start();
    assert_eq!(erase(&server, "ana-erased"), 200);
    stop(server);
    assert!(names(&first).iter().any(|name| name.ends_with(".checkpoint")), "it has her profile");
    let segments_of_first = segments(&first);
    place.back_up(&["--forget-erased"]);
    assert!(!first.exists());
    let incomplete = first.with_extension("incomplete");
    assert!(names(&incomplete).iter().all(|name| !name.ends_with(".checkpoint")));
    assert_eq!(segments(&incomplete), segments_of_first, "they never had a record of her");
}

/// Returns whether the log has a record of this visitor.
fn contains_record(place: &Place, anon_id: &str) -> bool {
    let export = parallax(&["export".as_ref(), &place.data]);
    String::from_utf8_lossy(&export.stdout).contains(&format!("\"anonId\":\"{anon_id}\""))
}
