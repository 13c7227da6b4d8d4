//! `parallax dev`: the next version is served after each save, and the last one stays after a mistake.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use tempfile::TempDir;

use crate::harness::{Client, Response, eventually, temporary_directory};

/// A running `parallax dev` on a directory of its own. It is killed when its value is dropped.
struct DevServer {
    process: Child,
    address: SocketAddr,
    output: File,
    directory: TempDir,
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl DevServer {
    /// Writes the files of a site and starts a server with them.
    fn start(files: &[(&str, &str)]) -> Self {
        let directory = temporary_directory();
        fs::create_dir_all(directory.path().join("site/routes")).expect("created");
        fs::create_dir(directory.path().join("tmp")).expect("created");
        for (path, text) in files {
            fs::write(directory.path().join("site").join(path), text).expect("written");
        }
        let output = tempfile::tempfile().expect("a file");
        let handle = || output.try_clone().expect("a descriptor");
        let process = Command::new(env!("CARGO_BIN_EXE_parallax"))
            .args(["dev", "site", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"])
            .current_dir(directory.path())
            .env("TMPDIR", directory.path().join("tmp"))
            .stdout(handle())
            .stderr(handle())
            .spawn()
            .expect("the server starts");
        let address = eventually("the server serves", || {
            let text = read(&output);
            let line = text.lines().find(|line| line.contains("serving") && line.contains("http://"))?;
            line.split("http://").nth(1)?.split([' ', '"', '\u{1b}']).next()?.parse().ok()
        });
        Self { process, address, output, directory }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join("site").join(path)
    }

    fn output(&self) -> String {
        read(&self.output)
    }

    fn wait_for_output(&self, text: &str) {
        eventually(&format!("the output has {text:?}"), || self.output().contains(text).then_some(()));
    }

    fn get(&self, route: &str) -> Response {
        Client::to(self.address).request("GET", &format!("/v1/resolve?site=acme&route={route}"), &[])
    }

    fn wait_for_title(&self, route: &str, title: &str) {
        eventually(&format!("{route} has the title {title:?}"), || {
            let response = self.get(route);
            (response.status == 200 && response.json()["layout"]["root"]["props"]["title"] == title)
                .then_some(())
        });
    }
}

fn read(output: &File) -> String {
    let mut bytes = vec![0; output.metadata().expect("it is open").len() as usize];
    output.read_exact_at(&mut bytes, 0).expect("the file only grows");
    String::from_utf8_lossy(&bytes).into_owned()
}

const SITE: (&str, &str) = ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#);

fn page(path: &str, title: &str) -> String {
    format!(r#"{{"path":"{path}","layout":{{"root":{{"props":{{"title":"{title}"}}}},"zones":{{}}}}}}"#)
}

#[test]
fn a_time_can_be_previewed() {
    let page = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{"z":{"default":[],"variants":{"b":[]},
        "rules":[{"when":{"now.date":"2040-12-24"},"variant":"b"}]}}}}"#;
    let server = DevServer::start(&[SITE, ("routes/index.json", page)]);
    for (now, selected) in [("2040-12-24T00:00:00Z", "b"), ("2040-12-25T00:00:00Z", "default")] {
        let response = server.get(&format!("/&now={now}"));
        assert_eq!(response.json()["selected"]["z"], selected);
        assert_eq!(response.field("cache-control"), Some("no-store"));
    }
}

#[test]
fn a_saved_file_is_served_and_its_url_is_printed() {
    let server = DevServer::start(&[
        SITE,
        ("routes/index.json", &page("/", "one")),
        ("routes/a.json", &page("/caf\u{e9}", "a")),
    ]);
    server.wait_for_title("/", "one");
    let url = |route: &str| format!("http://{}/v1/resolve?site=acme&route={route}\n", server.address);
    server.wait_for_output(&url("/caf%C3%A9"));
    assert_eq!(server.output().matches(&url("/")).count(), 1);
    fs::write(server.path("routes/index.json"), page("/", "two")).expect("written");
    server.wait_for_title("/", "two");
    eventually("the URL is printed again", || {
        (server.output().matches(&url("/")).count() == 2).then_some(())
    });
    assert_eq!(server.output().matches(&url("/caf%C3%A9")).count(), 1, "{}", server.output());
}

#[test]
fn a_save_prints_the_experiments_and_the_zones_that_it_changes() {
    let page = |weights: &str| {
        let experiment = format!(r#"{{"key":"e","variants":["default","b"],"weights":{weights}}}"#);
        format!(
            r#"{{"path":"/","layout":{{"root":{{"props":{{}}}},"zones":{{"z":{{"default":[],"variants":{{"b":[]}},
            "rules":[{{"experiment":{experiment}}}]}}}}}}}}"#
        )
    };
    let server = DevServer::start(&[SITE, ("routes/index.json", &page("[0.5,0.5]"))]);
    fs::write(server.path("routes/index.json"), page("[0.4,0.6]")).expect("written");
    let change = "experiment e: new phase (`weights` [0.5, 0.5] -> [0.4, 0.6]); enrolled visitors start again\nzone z of /: changed\n";
    server.wait_for_output(change);
    // The first version, and a save that changes no experiment, print none.
    fs::write(server.path("routes/a.json"), self::page("/a", "a")).expect("written");
    server.wait_for_output("route=/a\n");
    assert_eq!(server.output().matches("experiment e").count(), 1, "{}", server.output());
}

#[test]
fn a_mistake_is_printed_and_the_last_version_stays() {
    let server = DevServer::start(&[SITE, ("routes/index.json", &page("/", "one"))]);
    server.wait_for_title("/", "one");
    fs::write(server.path("routes/index.json"), page("/", "two").replace("layout", "layuot"))
        .expect("written");
    server.wait_for_output("still serving version");
    let output = server.output();
    for text in ["error: unknown member `layuot`", "--> routes/index.json:1:", "help: did you mean `layout`?"]
    {
        assert!(output.contains(text), "{output}");
    }
    server.wait_for_title("/", "one");
    fs::write(server.path("routes/index.json"), page("/", "three")).expect("written");
    server.wait_for_title("/", "three");
}

#[test]
fn a_site_that_does_not_compile_at_the_start_is_served_after_it_is_fixed() {
    let server = DevServer::start(&[SITE, ("routes/index.json", "{")]);
    server.wait_for_output("compilation failed with 1 error");
    assert_eq!(server.get("/").status, 404);
    fs::write(server.path("routes/index.json"), page("/", "fixed")).expect("written");
    server.wait_for_title("/", "fixed");
}

#[test]
fn files_that_are_renamed_into_place_and_new_directories_are_noticed() {
    let server = DevServer::start(&[SITE, ("routes/index.json", &page("/", "one"))]);
    server.wait_for_title("/", "one");
    fs::write(server.path("routes/index.json.tmp"), page("/", "two")).expect("written");
    fs::rename(server.path("routes/index.json.tmp"), server.path("routes/index.json")).expect("renamed");
    server.wait_for_title("/", "two");
    fs::create_dir_all(server.path("routes/help/more")).expect("created");
    fs::write(server.path("routes/help/more/a.json"), page("/help/a", "help")).expect("written");
    server.wait_for_title("/help/a", "help");
    fs::write(server.path("routes/help/more/a.json"), page("/help/a", "changed")).expect("written");
    server.wait_for_title("/help/a", "changed");
    fs::remove_dir_all(server.path("routes/help")).expect("removed");
    eventually("the page is gone", || (server.get("/help/a").status == 404).then_some(()));
}

#[test]
fn a_signal_ends_the_server_and_deletes_its_temporary_directory() {
    let mut server = DevServer::start(&[SITE, ("routes/index.json", &page("/", "one"))]);
    let temporary = server.directory.path().join("tmp");
    assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 1);
    let killed = Command::new("kill").args(["-INT", &server.process.id().to_string()]).status();
    assert!(killed.expect("kill is there").success());
    let status = eventually("the server ends", || server.process.try_wait().expect("a status"));
    assert_eq!(status.code(), Some(0), "{}", server.output());
    assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 0);
    // Neither data nor snapshots are in the working directory.
    assert_eq!(fs::read_dir(server.directory.path()).expect("a directory").count(), 2);
}
