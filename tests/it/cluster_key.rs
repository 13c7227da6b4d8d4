//! `parallax cluster key`: the file of the seed, and the public key.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::command_line::Workspace;

#[test]
fn the_seed_is_private_and_the_output_is_the_public_key() {
    let workspace = Workspace::new();
    let made = ["first.nk", "second.nk"].map(|name| {
        let ran = workspace.run(&["cluster", "key", "-o", name]);
        ran.assert_exit(0, &[]);
        let mode = fs::metadata(workspace.path(name)).expect("the file exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        (ran.out, fs::read_to_string(workspace.path(name)).expect("text"))
    });
    let is_base32 = |text: &str| text.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
    for (public, seed) in &made {
        let (public, seed) =
            (public.strip_suffix('\n').expect("a line"), seed.strip_suffix('\n').expect("a line"));
        assert!(public.starts_with('U') && public.len() == 56 && is_base32(public), "{public}");
        assert!(seed.starts_with("SU") && seed.len() == 58 && is_base32(seed));
    }
    assert_ne!(made[0], made[1]);
}

#[test]
fn a_key_replaces_no_file() {
    let workspace = Workspace::new();
    workspace.write("old.nk", "the old seed");
    symlink(workspace.path("target.nk"), workspace.path("link.nk")).expect("linked");
    for name in ["old.nk", "link.nk"] {
        let ran = workspace.run(&["cluster", "key", "--output", name]);
        ran.assert_exit(1, &[name, "the file exists", "choose another name"]);
        assert_eq!(ran.out, "");
    }
    assert_eq!(fs::read_to_string(workspace.path("old.nk")).expect("text"), "the old seed");
    assert!(!workspace.path("target.nk").exists());
    workspace
        .run(&["cluster", "key", "-o", "missing/node.nk"])
        .assert_exit(3, &["cannot write missing/node.nk"]);
    workspace.run(&["cluster", "key"]).assert_exit(2, &["--output"]);
}
