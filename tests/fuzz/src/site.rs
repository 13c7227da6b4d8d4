//! A site in memory and its snapshot.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;

/// A small site with nearly every feature of a snapshot.
pub const FILES: [(&str, &str); 8] = [
    ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#),
    ("audiences.json", r#"{"german":{"when":{"locale":{"$regex":"^de"}}}}"#),
    (
        "routes/index.json",
        r#"{"path":"/","layout":{"root":{"props":{"title":"whole"}},"zones":{"hero":{"default":[],
            "variants":{"b":[{"id":"n","type":"T","props":{},"zones":{"inner":{"default":[],"variants":{"c":[]},
            "rules":[{"when":{"country":"NO"},"variant":"c"}]}}}]},
            "rules":[{"audience":"german","variant":"b"},
            {"experiment":{"key":"e","variants":["default","b"],"namespace":["n",0,0.5],"holdout":0.1}}]}}}}"#,
    ),
    (
        "routes/blog.json",
        r#"{"path":"/blog/:slug","layout":{"root":{"props":{}},"zones":{"main":[{"id":"q","type":"T","props":{},
            "query":{"id":"q","params":{"s":{"$route":"slug"}}}}]}}}"#,
    ),
    (
        "routes/item.json",
        r#"{"path":"/item/:s","each":{"collection":"c","s":"fields.s"},"layout":{"root":{"props":{}},"zones":{}}}"#,
    ),
    (
        "queries.json",
        r#"{"q":{"collection":"c","params":{"s":{"type":"string","optional":true},"n":{"type":"number","optional":true}},
            "where":{"s":{"$param":"s"},"n":{"$gte":{"$param":"n"}}},"orderBy":["-n"]}}"#,
    ),
    (
        "content/c.json",
        r#"[{"id":"1","type":"t","fields":{"s":"a","n":1}},{"id":"2","type":"t","fields":{"s":"b","n":2.5}}]"#,
    ),
    ("routes/old.json", r#"{"path":"/old/*","redirect":{"to":"/blog/*","status":308}}"#),
];

/// Compiles a site from `files`, as version `version`.
pub fn snapshot(files: &[(&str, &str)], version: u64) -> Vec<u8> {
    let files = Files::from_memory(files.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, mistakes) = read(&files, &|_, _| {});
    let compiled = compile(&source, mistakes, version, &|_, _| {});
    compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files))).bytes
}
