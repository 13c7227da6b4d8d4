//! The benchmark site, of the size in the performance goals.
//!
//! Each page has 8 KB of layout with three personalized zones. The site has ten audiences, and the rules of a
//! page use four of them: one by a regular expression, one by a trait of the visitor, one by device and one
//! by country. Two zones share an experiment.

use serde_json::{Value, json};

/// Returns the benchmark site with `routes` pages of the same kind.
pub fn site(routes: usize) -> Vec<(String, Value)> {
    let mut audiences = json!({
        "german": { "when": { "locale": { "$regex": "^de(-|$)" } } },
        "mobile": { "when": { "device.type": "mobile" } },
        "nordic": { "when": { "country": { "$in": ["NO", "SE", "DK", "FI", "IS"] } } },
        "reader": { "when": { "pages./page-1": { "$count": { "$gte": 3, "within": "7d" } } } },
    });
    for i in 4..10 {
        audiences[format!("plan-{i}")] = json!({ "when": { "traits.plan": format!("p{i}") } });
    }
    let mut files = vec![
        ("site.json".to_owned(), json!({ "site": "bench", "trackingId": "track_bench", "name": "Bench" })),
        ("audiences.json".to_owned(), audiences),
    ];
    files.extend((0..routes).map(|i| (format!("routes/{i}.json"), page(i))));
    files
}

/// A generator of text that compresses about as well as prose: words from a list, in a fixed pseudo-random
/// order.
pub struct WordSequence(pub u32);

impl WordSequence {
    pub fn text(&mut self, words: usize) -> String {
        const LIST: &str = "tent storm light shop pole canvas morning valley boots stove kettle rain weight \
            sleeping autumn repaired workshop before without carries another stands thousand metres walked";
        let list: Vec<&str> = LIST.split_whitespace().collect();
        let mut word = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            list[(self.0 >> 16) as usize % list.len()]
        };
        (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
    }
}

/// Returns a page of 8 KB with seven variants.
pub fn page(number: usize) -> Value {
    let mut words = WordSequence(number as u32 + 1);
    let mut node = |id: &str, count: usize| json!([{ "id": id, "type": "Text", "props": { "title": id, "text": words.text(count) } }]);
    let arms = json!({ "key": "bench-arms", "variants": ["default", "b"] });
    json!({
        "path": format!("/page-{number}"),
        "layout": { "root": { "props": { "title": format!("Page {number}") } }, "zones": {
            "hero": { "default": node("h0", 95), "variants": { "de": node("h1", 95), "mobile": node("h2", 95) },
                "rules": [{ "audience": "plan-4", "variant": "mobile" }, { "audience": "german", "variant": "de" }, { "audience": "mobile", "variant": "mobile" }] },
            "main": node("m", 830),
            "aside": { "default": node("a0", 95), "variants": { "b": node("a1", 95) },
                "rules": [{ "audience": "nordic", "variant": "b" }, { "experiment": arms.clone() }] },
            "foot": { "default": node("f0", 95), "variants": { "b": node("f1", 95) }, "rules": [{ "experiment": arms }] },
        } },
    })
}
