//! The ratchet of names in `src/`: parameters have no name that hides their content, and no struct is called only
//! after its number of members.

use super::exceptions::is_rewritten;
use super::params::params;
use super::text::{line, words};
use super::{File, files, ratchet};

/// Present number of parameters with a name of `VAGUE_NAMES`. This constant may only fall.
const VAGUELY_NAMED_PARAMS: usize = 7;

/// Present number of structs with a name of `VAGUE_STRUCTS`. This constant may only fall.
const VAGUELY_NAMED_STRUCTS: usize = 1;

/// Names that no parameter has: participles without a noun, prepositions, pronouns, and private words for a thing that
/// has a common name.
const VAGUE_NAMES: &[&str] = &[
    "asked",
    "begin",
    "collected",
    "deciding",
    "described",
    "draft",
    "drawn",
    "flaw",
    "found",
    "further",
    "given",
    "held",
    "kept",
    "known",
    "left",
    "listed",
    "looked_at",
    "mistake",
    "mistakes",
    "named",
    "near",
    "noted",
    "of",
    "one",
    "opened",
    "ours",
    "owed",
    "own",
    "parsed",
    "place",
    "places",
    "rank",
    "restored",
    "shown",
    "standing",
    "started",
    "taken",
    "tell",
    "theirs",
    "took",
    "touched",
    "tried",
    "trouble",
    "trusted",
    "unknown",
    "updated",
    "wanted",
    "what",
    "without",
    "written",
];

/// Names of structs that say only that there are several members.
const VAGUE_STRUCTS: &[&str] = &["Pair", "Both", "Parts"];

fn vaguely_named_params(file: &File) -> Vec<String> {
    let vague = params(&file.code).into_iter().filter(|param| VAGUE_NAMES.contains(&param.pattern));
    vague
        .map(|param| format!("{}:{}: {}: `{}`", file.path, param.line, param.function, param.pattern))
        .collect()
}

fn vaguely_named_structs(file: &File) -> Vec<String> {
    let named = words(&file.code, "struct").filter_map(|at| {
        let name = file.code[at + "struct".len()..].trim_start();
        let vague = VAGUE_STRUCTS.iter().find(|vague| words(name, vague).next() == Some(0))?;
        Some(format!("{}:{}: `{vague}`", file.path, line(&file.code, at)))
    });
    named.collect()
}

#[test]
fn parameters_and_structs_are_named_after_their_content() {
    let files: Vec<File> = files(&["src"]).into_iter().filter(|file| !is_rewritten(&file.path)).collect();
    let params: Vec<String> = files.iter().flat_map(vaguely_named_params).collect();
    let structs: Vec<String> = files.iter().flat_map(vaguely_named_structs).collect();
    let violations = [
        ratchet(
            "VAGUELY_NAMED_PARAMS",
            "vaguely named parameters",
            &params,
            VAGUELY_NAMED_PARAMS,
            "Name the parameter after its type, or after its role with a noun",
        ),
        ratchet(
            "VAGUELY_NAMED_STRUCTS",
            "vaguely named structs",
            &structs,
            VAGUELY_NAMED_STRUCTS,
            "Name the struct after its content",
        ),
    ];
    let violations: Vec<String> = violations.into_iter().flatten().collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn a_vague_name_is_found() {
    let count = |text: &str| vaguely_named_params(&File::new("src/x.rs", text)).len();
    for name in VAGUE_NAMES {
        assert_eq!(count(&format!("fn f(&self, mut {name}: &mut A, a: u8) {{}}")), 1, "{name}");
        assert_eq!(
            count(&format!("fn {name}(a_{name}: A) {{ let {name} = 1; g(|{name}| h) }}")),
            0,
            "{name}"
        );
    }
    let structs = |text: &str| vaguely_named_structs(&File::new("src/x.rs", text)).len();
    for name in VAGUE_STRUCTS {
        assert_eq!(structs(&format!("pub struct {name}<'a> {{}}")), 1);
        assert_eq!(structs(&format!("struct Shared{name}; enum {name} {{}} // struct {name}")), 0);
    }
}
