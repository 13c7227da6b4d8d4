//! The exceptions to the rules, each with its reason. An entry that is not needed any more fails its test.

use super::text::words;
use super::{files, lengths};

/// The item that an exception is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'n> {
    /// `unsafe` anywhere in the file.
    Unsafe,
    /// A file with more lines than others.
    File,
    /// A function with more lines than others.
    Function(&'n str),
}

/// A file in which something is allowed that is forbidden elsewhere.
pub(super) struct Exception {
    pub(super) path: &'static str,
    pub(super) item: Item<'static>,
    pub(super) reason: &'static str,
}

pub(super) const EXCEPTIONS: &[Exception] = &[
    Exception {
        path: "loadtest/src/buffers.rs",
        item: Item::Unsafe,
        reason: "mmap and munmap of buffers that io_uring registers",
    },
    Exception { path: "loadtest/src/floor.rs", item: Item::Unsafe, reason: "system calls" },
    Exception { path: "loadtest/src/load/ring.rs", item: Item::Unsafe, reason: "io_uring" },
    Exception { path: "src/allocator.rs", item: Item::Unsafe, reason: "the trait GlobalAlloc is unsafe" },
    Exception { path: "src/server/memory.rs", item: Item::Unsafe, reason: "a C function without a wrapper" },
    Exception {
        path: "src/server/mod.rs",
        item: Item::Function("start"),
        reason: "the numbered steps of a start, in their order",
    },
    Exception {
        path: "src/server/event_log/node.rs",
        item: Item::Function("start"),
        reason: "the numbered steps of the start of a node, in their order",
    },
    Exception {
        path: "src/site/snapshot/open.rs",
        item: Item::Unsafe,
        reason: "reads the verified archive of a snapshot in place",
    },
    Exception {
        path: "src/site/snapshot/sealed.rs",
        item: Item::Unsafe,
        reason: "maps the sealed file of a snapshot",
    },
    Exception {
        path: "src/visitors/store/memory.rs",
        item: Item::Unsafe,
        reason: "reserves address space for the table and turns its pages into words",
    },
    Exception {
        path: "src/visitors/store/table.rs",
        item: Item::Unsafe,
        reason: "readers look at blocks while the writer replaces them",
    },
];

/// Returns whether the item of a file is an exception.
pub(super) fn is_exception(path: &str, item: &Item<'_>) -> bool {
    EXCEPTIONS.iter().any(|exception| exception.path == path && exception.item == *item)
}

/// Files of `src/cluster/` that one log on every node deletes or rewrites. Until then, the ratchets of tuples and of
/// names do not count them.
const REWRITTEN: &[&str] = &[
    "audit",
    "erase",
    "erase_limits",
    "erase_request",
    "erased_file",
    "erasing",
    "follow",
    "found",
    "join",
    "node",
    "node/checkpoints",
    "node/erasures",
    "node/follow",
    "nodes",
    "old_records",
    "order",
    "own_log",
    "payloads",
    "positions",
    "producer",
    "restore",
    "saved",
    "state",
];

/// Returns whether a file will be deleted or rewritten.
pub(super) fn is_rewritten(path: &str) -> bool {
    let name = path.strip_prefix("src/cluster/").and_then(|path| path.strip_suffix(".rs"));
    name.is_some_and(|name| REWRITTEN.contains(&name))
}

#[test]
fn each_exception_is_needed_and_has_a_reason() {
    let files = files(&["src", "tests", "loadtest/src", "loadtest/compare/src"]);
    for Exception { path, item, reason } in EXCEPTIONS {
        assert!(!reason.is_empty(), "{path} {item:?}: give the reason");
        let file = files.iter().find(|file| file.path == *path);
        let is_needed = file.is_some_and(|file| match item {
            Item::Unsafe => words(&file.code, "unsafe").next().is_some(),
            Item::File => lengths::is_long_file(file),
            Item::Function(name) => lengths::has_long_function(file, name),
        });
        assert!(is_needed, "{path} {item:?}: the exception is not needed; delete it");
    }
    for name in REWRITTEN {
        let path = format!("src/cluster/{name}.rs");
        assert!(files.iter().any(|file| file.path == path), "{path} does not exist; delete its entry");
        assert!(is_rewritten(&path));
    }
    assert!(!is_rewritten("src/cluster/stream.rs") && !is_rewritten("src/order.rs"));
}
