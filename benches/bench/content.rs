//! A collection for the benchmark site. A response with twelve items is about as long as one of its pages.

use serde_json::{Value, json};

use crate::site::{WordSequence, site};

const TOPICS: u32 = 85;
const ITEMS: u32 = 12 * TOPICS;

/// Returns the benchmark site with 100 pages, 1,020 items of about 700 bytes, and two queries over them. One
/// query has precomputed results, the other scans every item.
pub fn site_with_content() -> Vec<(String, Value)> {
    let topics: Vec<String> = (0..TOPICS).map(|topic| format!("topic-{topic}")).collect();
    let queries = json!({
        "by-topic": { "collection": "articles", "params": { "topic": { "type": "string", "enum": topics } },
            "where": { "topic": { "$param": "topic" } }, "orderBy": ["-price"], "limit": 12 },
        // `$not $lt` is no range: an item without a number is not under anything either.
        "not-under": { "collection": "articles", "params": { "price": { "type": "number" } },
            "where": { "price": { "$not": { "$lt": { "$param": "price" } } } }, "orderBy": ["-price"], "limit": 12 },
    });
    let items: Vec<Value> = (0..ITEMS).map(item).collect();
    let mut files = site(100);
    files.push(("queries.json".to_owned(), queries));
    files.push(("content/articles.json".to_owned(), json!(items)));
    files
}

/// Returns an item. The number spreads the prices: 0, 7, 14, ..., each once.
fn item(number: u32) -> Value {
    let mut words = WordSequence(number + 1);
    let topic = format!("topic-{}", number % TOPICS);
    let fields = json!({ "title": words.text(6), "slug": format!("article-{number}"), "topic": topic,
        "price": number * 7 % ITEMS, "image": { "src": format!("/images/{number}.avif"), "width": 1280, "height": 720 },
        "tags": ["outdoor", topic], "published": true, "summary": words.text(75) });
    json!({ "id": format!("a{number}"), "type": "article", "fields": fields })
}
