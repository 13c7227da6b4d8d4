//! `parallax backup`: beside a running server, with links to the previous backup, and when something goes wrong.

mod erased;
mod failing;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use parallax::testing::cli::demo::compile_demo;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::harness::{Client, Server, copy_program, eventually, temporary_directory, under_load};

/// Small, so that a log has several segments and checkpoints.
const FLAGS: [&str; 6] =
    ["--segment-bytes", "65536", "--checkpoint-bytes", "60000", "--admin-token", "secret"];
const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");

/// A data directory and a target directory.
struct Place {
    parent: TempDir,
    data: PathBuf,
    target: PathBuf,
}

impl Place {
    fn new() -> Self {
        let parent = temporary_directory();
        let [data, target] = ["data", "backups"].map(|name| parent.path().join(name));
        Self { parent, data, target }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    fn start(&self) -> Server {
        Server::start_with_data(&self.data, &[("demo.snapshot", &compile_demo().1)], &FLAGS)
    }

    /// Records events of these visitors on a server that is stopped then, so that its segments are sealed. The files look old.
    fn with_events(visitors: &[&str]) -> Self {
        let place = Self::new();
        let server = place.start();
        send_events(&server, visitors);
        stop(server);
        place.age();
        place
    }

    /// Makes the files of the data directory look as if they had not changed for an hour. A file that has just changed is
    /// never linked.
    fn age(&self) {
        let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
        for name in names(&self.data) {
            File::open(self.data.join(name)).expect("a file").set_modified(hour_ago).expect("its owner");
        }
    }

    /// Deletes the first segment, as retention does.
    fn expire_first_segment(&self) {
        let segments = segments(&self.data);
        let second: u64 = segments[1].split('.').next().expect("a name").parse().expect("a seq");
        let oldest = parallax::testing::log::format::oldest_to_bytes(second);
        fs::write(self.data.join("oldest"), oldest).expect("written");
        fs::remove_file(self.data.join(&segments[0])).expect("deleted");
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg("backup").args([&self.data, &self.target]).args(flags);
        command
    }

    fn run(&self, flags: &[&str]) -> Output {
        self.command(flags).output().expect("it runs")
    }

    /// Makes a backup and returns its path.
    #[track_caller]
    fn back_up(&self, flags: &[&str]) -> PathBuf {
        let before = self.backups();
        assert_exit(&self.run(flags), 0, ": complete, ");
        let new: Vec<String> = self.backups().difference(&before).cloned().collect();
        let new = new.into_iter().rfind(|name| name.len() == 16).expect("a complete backup");
        self.target.join(new)
    }

    /// Returns the names in the target directory, except that of the lock.
    fn backups(&self) -> BTreeSet<String> {
        names(&self.target).into_iter().filter(|name| name != ".lock").collect()
    }

    /// Locks the file `secret`, as an erasure (exclusive) or another backup does.
    fn lock_secret(&self, operation: FlockOperation) -> File {
        let secret = File::open(self.data.join("secret")).expect("the file exists");
        flock(&secret, operation).expect("nothing else has locked it");
        secret
    }

    /// Starts a backup while a lock on `secret` makes it wait, and waits until it has copied the closed segments.
    fn begin_waiting(&self) -> Child {
        let command = &mut self.command(&[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let closed = segments(&self.data).len() - 1;
        eventually("the closed segments are copied", || {
            let partial = self.backups().into_iter().find(|name| name.ends_with(".partial"))?;
            (segments(&self.target.join(partial)).len() == closed).then_some(())
        });
        child
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn segments(directory: &Path) -> Vec<String> {
    names(directory).into_iter().filter(|name| name.ends_with(".segment")).collect()
}

#[track_caller]
fn assert_exit(output: &Output, code: i32, text: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let all = [&output.stdout[..], &output.stderr].concat();
    assert!(String::from_utf8_lossy(&all).contains(text), "{text:?} is missing: {output:?}");
}

fn parallax(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parallax")).args(arguments).output().expect("it runs")
}

fn check(directory: &Path) -> Output {
    parallax(&["check".as_ref(), directory])
}

/// Returns whether a file in a directory or in a directory of it has the text.
fn contains(directory: &Path, text: &str) -> bool {
    let code = parallax(&["check".as_ref(), directory, "--contains".as_ref(), text.as_ref()]).status.code();
    code.expect("it exits") == 1
}

/// Records ten events of 8 KB for each visitor, in turn.
fn send_events(server: &Server, visitors: &[&str]) {
    let mut client = Client::to(server.edge);
    for n in 0..10 {
        for visitor in visitors {
            let pad = "p".repeat(8_000);
            let event = format!(r#"{{"anonId":"{visitor}","event":"e{n}","properties":{{"pad":"{pad}"}}}}"#);
            assert_eq!(client.post("/v1/track?site=fjell", &[], event.as_bytes()).status, 200);
        }
    }
}

fn stop(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("it exists").ino()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").mode() & 0o7777
}

#[test]
fn a_backup_beside_a_busy_server_is_private_whole_and_restorable() {
    let place = Place::new();
    let server = place.start();
    send_events(&server, &["ana", "bob"]);
    let file = place.path("parallax.prom");
    eventually("the key of the column files is there", || {
        place.data.join("columns-key").exists().then_some(())
    });
    let send = |client: &mut Client| {
        let event = br#"{"anonId":"cara","event":"beside"}"#;
        assert_eq!(client.post("/v1/track?site=fjell", &[], event).status, 200);
    };
    let (backup, sent) = under_load(server.edge, 1, send, || {
        let before = segments(&place.data);
        let backup = place.back_up(&["--textfile", file.to_str().expect("UTF-8")]);
        assert!(before.iter().all(|name| backup.join(name).exists()), "{before:?}");
        backup
    });
    assert!(sent > 0);
    assert_eq!((mode(&place.target), mode(&backup)), (0o700, 0o700));
    let files = names(&backup);
    for name in &files {
        assert_eq!(mode(&backup.join(name)), if name == "audit" { 0o700 } else { 0o600 }, "{name}");
        assert!(!name.starts_with('.') && !name.ends_with(".columns") && name != "scrub", "{name}");
        let original = fs::metadata(place.data.join(name));
        assert!(
            original.is_err() || original.is_ok_and(|file| file.ino() != inode(&backup.join(name))),
            "{name}"
        );
    }
    for key in ["secret", "columns-key"] {
        assert_eq!(
            fs::read(backup.join(key)).expect("copied"),
            fs::read(place.data.join(key)).expect("made")
        );
    }
    assert_exit(&check(&backup), 0, "sound");
    let text = fs::read_to_string(&file).expect("written");
    let metric = "parallax_backup_completed_timestamp_seconds";
    let value = text.lines().find_map(|line| line.strip_prefix(metric)).expect("a sample");
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
        - value.trim().parse::<u64>().expect("a number");
    assert!(age < 60 && text.contains(&format!("# TYPE {metric} gauge\n")), "{text}");
    assert_eq!(mode(&file) & 0o400, 0o400);

    let restored = place.path("restored");
    assert_exit(&parallax(&["restore".as_ref(), &backup, &restored]), 0, "restored");
    let second = Server::start_with_data(&restored, &[("demo.snapshot", &compile_demo().1)], &FLAGS);
    for visitor in ["ana", "bob"] {
        let target = format!("/visitors?site=fjell&anonId={visitor}");
        let profile = Client::to(second.admin).request("GET", &target, &[TOKEN]).json();
        assert_eq!(profile["profile"]["visitor"]["events"], 10, "{profile}");
    }
}

#[test]
fn an_unchanged_segment_is_a_link_to_the_previous_backup_and_keep_deletes_older_ones() {
    let place = Place::with_events(&["ana"]);
    let first = place.back_up(&[]);
    let server = place.start();
    send_events(&server, &["bob"]);
    stop(server);
    let second = place.back_up(&[]);
    assert!(segments(&second).len() > segments(&first).len());
    for name in segments(&first) {
        assert_eq!(inode(&first.join(&name)), inode(&second.join(&name)), "{name}");
        assert_ne!(inode(&first.join(&name)), inode(&place.data.join(&name)), "{name}");
    }
    // A server that truncates or rewrites its file changes no backup.
    let (last, before) = (
        segments(&place.data).pop().expect("a segment"),
        fs::read(second.join(segments(&second).pop().expect("a segment"))),
    );
    fs::write(place.data.join(&last), b"").expect("truncated");
    assert_eq!(fs::read(second.join(&last)).expect("kept"), before.expect("read"));
    fs::copy(second.join(&last), place.data.join(&last)).expect("put back");

    fs::create_dir(place.target.join("of-someone-else")).expect("created");
    let mut other = Place::with_events(&["cara"]);
    other.target = place.target.clone();
    let of_other_log = other.back_up(&[]);
    place.back_up(&[]);
    let fourth = place.back_up(&["--keep", "2"]);
    let left: BTreeSet<PathBuf> = place.backups().into_iter().map(|name| place.target.join(name)).collect();
    assert!(!left.contains(&first) && !left.contains(&second), "{left:?}");
    assert!(left.contains(&fourth) && left.contains(&of_other_log), "{left:?}");
    assert_eq!(
        left.len(),
        4,
        "two backups, one of another log, and a directory of another program: {left:?}"
    );
    assert_exit(&check(&fourth), 0, "sound");
    assert_exit(&place.run(&["--keep", "0"]), 2, "--keep");
}

#[test]
fn a_segment_that_retention_deletes_while_the_backup_is_made_is_not_in_it() {
    let place = Place::with_events(&["ana", "bob"]);
    let lock = place.lock_secret(FlockOperation::LockExclusive);
    let child = place.begin_waiting();
    place.expire_first_segment();
    drop(lock);
    assert_exit(&child.wait_with_output().expect("it ends"), 0, ": complete, ");
    let backup = place.target.join(place.backups().pop_last().expect("a backup"));
    assert_eq!(segments(&backup), segments(&place.data));
    assert_exit(&check(&backup), 0, "sound");
}

#[test]
fn a_member_of_the_data_group_makes_whole_backups_and_others_learn_the_remedy() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can run a command as another user");
        return;
    }
    let parent = temporary_directory();
    fs::set_permissions(parent.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let program = parent.path().join("parallax");
    copy_program(&program);
    let home = parent.path().join("home");
    fs::create_dir(&home).expect("created");
    std::os::unix::fs::chown(&home, Some(64_011), None).expect("root may do that");
    let data = parent.path().join("data");
    let as_member = |program: &Path, arguments: &[&Path]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=64011", "--regid=64007", "--clear-groups"]).arg(program).args(arguments);
        command.output().expect("it runs")
    };
    let back_up = |target: &Path| as_member(&program, &["backup".as_ref(), &data, target]);
    let snapshots = [("demo.snapshot", &*compile_demo().1)];
    let server =
        Server::start_with_data(&data, &snapshots, &[&FLAGS[..], &["--data-group", "64007"]].concat());
    send_events(&server, &["ana"]);
    eventually("the key of the column files is there", || data.join("columns-key").exists().then_some(()));
    assert_exit(&back_up(&home.join("backups")), 0, ": complete, ");
    // A plain copy by this member is a whole backup, too.
    let copy = home.join("copy");
    assert_exit(&as_member("cp".as_ref(), &["-r".as_ref(), &data, &copy]), 0, "");
    for key in ["secret", "columns-key"] {
        assert_eq!(fs::read(copy.join(key)).expect("copied"), fs::read(data.join(key)).expect("made"));
    }
    assert_exit(&as_member(&program, &["check".as_ref(), &copy]), 0, "sound");
    assert_exit(&as_member(&program, &["restore".as_ref(), &copy, &home.join("restored")]), 0, "restored");
    stop(server);

    // `secret` alone has lost its group.
    fs::set_permissions(data.join("secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let refused = back_up(&home.join("refused"));
    assert_exit(&refused, 1, &format!("cannot read {}/secret: Permission denied", data.display()));
    assert_exit(&refused, 1, "as a member of the group of `serve --data-group`");
    assert_eq!(names(&home.join("refused")), [".lock"]);
    // Without the flag the group may not even list the directory.
    drop(Server::start_with_data(&data, &snapshots, &FLAGS));
    assert_exit(
        &back_up(&home.join("refused")),
        1,
        &format!("cannot read {}: Permission denied", data.display()),
    );
}

#[test]
fn the_packaged_service_backs_up_the_data_directory_of_the_packaged_settings() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    let text = |name: &str| fs::read_to_string(packaging.join(name)).expect("the file exists");
    let unit = text("parallax-backup.service");
    let directive = |name: &str| {
        let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("the unit has {name}"))
    };
    let words: Vec<&str> = directive("ExecStart").split(' ').collect();
    assert_eq!(words[..2], ["/usr/local/bin/parallax", "backup"]);
    assert!(text("parallax.toml").contains(&format!("\ndata = \"{}\"\n", words[2])));
    assert!(text("parallax.service").contains(&format!("\nUser={}\n", directive("User"))));
    assert_eq!(directive("ReadWritePaths"), words[3]);
    let at = words.iter().position(|word| *word == "--textfile").expect("a textfile");
    assert!(words[at + 1].starts_with(&format!("/var/lib/{}/", directive("StateDirectory"))));
    let readme = text("README.md");
    assert!(readme.contains(words[3]) && readme.contains(words[at + 1]), "the README names both");
    let timer = text("parallax-backup.timer");
    assert!(timer.contains("\nPersistent=true\n") && timer.contains("\nWantedBy=timers.target\n"));

    let place = Place::with_events(&["ana"]);
    let textfile = place.path("parallax.prom");
    let flags = words[4..]
        .iter()
        .map(|word| if *word == words[at + 1] { textfile.to_str().expect("UTF-8") } else { word });
    place.back_up(&flags.collect::<Vec<_>>());
    assert!(textfile.exists());
}
