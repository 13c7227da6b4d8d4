//! The jobs of the admin thread: one at a time, and one result for each, also if the job panics.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use parallax::testing::admin::slow_requests::{
    AnswerError, JobOutput, JobResult, Output, SlowRequests, jobs_alone,
};
use parallax::testing::metrics::JobCounters;
use parallax::testing::problem;

use crate::harness::PATIENCE;

/// Returns the requests with jobs, the socket that a job wakes, and its counters.
fn jobs() -> (SlowRequests, UnixStream, JobCounters) {
    let (wakeup_tx, wakeup_rx) = UnixStream::pair().expect("a pair");
    wakeup_rx.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
    let counters = JobCounters::default();
    (jobs_alone(wakeup_tx, counters.clone()), wakeup_rx, counters)
}

fn success(text: &str) -> JobResult {
    Ok(JobOutput { content_type: "text/plain", text: text.to_owned(), next_since: None, damaged_places: 0 })
}

/// Waits for the wakeup and takes the result of the job.
fn wait_for_result(jobs: &mut SlowRequests, wakeup_rx: &mut UnixStream) -> JobResult {
    wakeup_rx.read_exact(&mut [0]).expect("the job wakes the owner");
    let slot = jobs.take_ready(0).expect("the job has ended");
    assert!(jobs.is_ready(slot));
    take_result(jobs, slot)
}

fn take_result(jobs: &mut SlowRequests, slot: usize) -> JobResult {
    let (_, results) = jobs.take(slot).expect("there is a result");
    match results.as_deref() {
        Ok([Output::Job(output)]) => Ok(output.clone()),
        Err(AnswerError::Job(error)) => Err(error.clone()),
        _ => panic!("{results:?} is not of a job"),
    }
}

/// Returns the log lines of this thread while `act` runs. Only one test looks at these lines: `tracing`
/// caches whether anybody listens to a call site, so another thread that logs there first could hide them.
fn log_lines(act: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("the mutex is not poisoned").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let writer = move || writer.clone();
    tracing::subscriber::with_default(tracing_subscriber::fmt().with_writer(writer).finish(), act);
    String::from_utf8(lines.0.lock().expect("the mutex is not poisoned").clone()).expect("UTF-8")
}

#[test]
fn a_panicking_job_fails_once_and_the_next_job_runs() {
    let (mut jobs, mut wakeup_rx, counters) = jobs();
    for round in 1..=3 {
        jobs.start_job(|| panic!("a bug")).expect("no job runs");
        let lines = log_lines(|| {
            let failure = wait_for_result(&mut jobs, &mut wakeup_rx).expect_err("the job panicked");
            assert_eq!((failure.kind, failure.kind.status), (problem::INTERNAL, 500));
        });
        assert_eq!((lines.matches("ERROR").count(), counters.snapshot()[0]), (1, round), "{lines}");
        jobs.start_job(|| success("well")).expect("no job runs");
        assert_eq!(wait_for_result(&mut jobs, &mut wakeup_rx).expect("the job succeeded").text, "well");
    }
    let slot = jobs.start_job(|| panic!("a bug")).expect("no job runs");
    jobs.abandon(slot);
    wakeup_rx.read_exact(&mut [0]).expect("the job wakes the owner");
    let lines = log_lines(|| assert_eq!(jobs.take_ready(0), None));
    assert_eq!((lines.matches("ERROR").count(), counters.snapshot()[0]), (1, 4), "{lines}");
    assert!(!jobs.is_ready(slot) && jobs.take(slot).is_none(), "an abandoned job has no result");
    jobs.start_job(|| success("well")).expect("no job runs");
    assert_eq!(wait_for_result(&mut jobs, &mut wakeup_rx).expect("the job succeeded").text, "well");
}

#[test]
fn a_second_job_is_refused_until_the_first_result_is_taken() {
    let (mut jobs, mut wakeup_rx, _) = jobs();
    let (go, wait) = sync_channel::<()>(0);
    let job = move || {
        wait.recv().expect("the test continues the job");
        success("first")
    };
    let slot = jobs.start_job(job).expect("no job runs");
    let refused =
        |jobs: &mut SlowRequests| jobs.start_job(|| success("second")).map_err(|problem| problem.kind);
    assert_eq!(refused(&mut jobs), Err(problem::OVERLOADED));
    go.send(()).expect("the job waits");
    wakeup_rx.read_exact(&mut [0]).expect("the job wakes the owner");
    assert_eq!(jobs.take_ready(0), Some(slot));
    assert_eq!(refused(&mut jobs), Err(problem::OVERLOADED), "the first result was not taken yet");
    assert_eq!(take_result(&mut jobs, slot).expect("the job succeeded").text, "first");
    assert!(refused(&mut jobs).is_ok());
}
