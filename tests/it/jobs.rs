//! Work beside the operator's thread: one job at a time, each told when it is done, one that panics too.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use parallax::admin::jobs::{Answer, Jobs, Told};
use parallax::metrics::JobCounts;
use parallax::problem;

use crate::harness::PATIENCE;

/// The jobs of a thread, the bell that it hears, and what is counted.
fn jobs() -> (Jobs, UnixStream, JobCounts) {
    let (ring, bell) = UnixStream::pair().expect("a pair");
    bell.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
    let counts = JobCounts::default();
    (Jobs::new(ring, counts.clone()), bell, counts)
}

fn done(text: &str) -> Told {
    Ok(Answer { kind: "text/plain", text: text.to_owned(), next_since: None, damaged: 0 })
}

/// Waits for the bell, and takes what the job came to.
fn told(jobs: &mut Jobs, bell: &mut UnixStream) -> Told {
    bell.read_exact(&mut [0]).expect("the bell rings");
    assert!(jobs.take_completion().is_some() && jobs.is_complete());
    jobs.finish().expect("what it came to")
}

/// What is logged on this thread while `act` runs. One test alone comes to the lines that are looked for: a place that logs for the
/// first time on another thread at this moment may be taken for one that nobody listens to.
fn logged(act: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("unpoisoned").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let writer = move || writer.clone();
    tracing::subscriber::with_default(tracing_subscriber::fmt().with_writer(writer).finish(), act);
    String::from_utf8(lines.0.lock().expect("unpoisoned").clone()).expect("UTF-8")
}

#[test]
fn a_job_that_panics_fails_whoever_waits_is_told_once_and_the_next_one_is_done() {
    let (mut jobs, mut bell, counts) = jobs();
    for round in 1..=3 {
        jobs.start(|| panic!("a fault of ours")).expect("it is free");
        let said = logged(|| {
            let failure = told(&mut jobs, &mut bell).expect_err("it panicked");
            assert_eq!((failure.kind, failure.kind.status), (problem::INTERNAL, 500));
        });
        assert_eq!((said.matches("ERROR").count(), counts.told()[0]), (1, round), "{said}");
        jobs.start(|| done("well")).expect("it is free again");
        assert_eq!(told(&mut jobs, &mut bell).expect("it was done").text, "well");
    }
    jobs.start(|| panic!("a fault of ours")).expect("it is free");
    jobs.forget();
    bell.read_exact(&mut [0]).expect("the bell rings");
    let said = logged(|| assert!(jobs.take_completion().is_some()));
    assert_eq!((said.matches("ERROR").count(), counts.told()[0]), (1, 4), "{said}");
    assert!(!jobs.is_complete() && jobs.finish().is_none(), "nobody waited for it");
    jobs.start(|| done("well")).expect("it is free again");
    assert_eq!(told(&mut jobs, &mut bell).expect("it was done").text, "well");
}

#[test]
fn a_second_job_is_refused_until_the_first_one_is_told() {
    let (mut jobs, mut bell, _) = jobs();
    let (go, wait) = sync_channel::<()>(0);
    jobs.start(move || {
        wait.recv().expect("told to go on");
        done("first")
    })
    .expect("it is free");
    let refused = |jobs: &mut Jobs| jobs.start(|| done("second")).map_err(|problem| problem.kind);
    assert_eq!(refused(&mut jobs), Err(problem::OVERLOADED));
    go.send(()).expect("it waits");
    bell.read_exact(&mut [0]).expect("the bell rings");
    jobs.take_completion();
    assert_eq!(refused(&mut jobs), Err(problem::OVERLOADED), "nobody has taken what the first came to");
    assert_eq!(jobs.finish().expect("it is complete").expect("it was done").text, "first");
    assert!(refused(&mut jobs).is_ok());
}
