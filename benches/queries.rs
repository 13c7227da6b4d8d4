//! Worst-case time of content queries over 100,000 items, from request bytes to response bytes.
//!
//! `cargo bench --bench queries`. Each benchmark asserts its response first.

#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/served.rs"]
mod served;

use std::sync::LazyLock;

use compiled::compiled;
use divan::Bencher;
use serde_json::{Value, json};
use served::{Case, TestHandler};

const ITEMS: u32 = 100_000;

static SNAPSHOT: LazyLock<Vec<u8>> = LazyLock::new(|| compiled(&site(), 1));

fn main() {
    divan::main();
}

#[divan::bench(args = cases().map(|case| case.name))]
fn answer(bencher: Bencher, name: &str) {
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of this name");
    measure(bencher, &case, &mut TestHandler::new(&SNAPSHOT, None));
}

/// The last page of a list, requested with the cursor of the page before.
#[divan::bench]
fn deep_cursor(bencher: Bencher) {
    let mut served = TestHandler::new(&SNAPSHOT, None);
    let mut cursor = String::new();
    for _ in 1..ITEMS / 100 {
        let page = page_after(&cursor);
        page.assert(served.answer(&page.request));
        let answer = String::from_utf8_lossy(&served.out);
        cursor = answer.rsplit('"').nth(1).expect("a cursor").to_owned();
    }
    let last = Case { contains: "\"total\":100000,\"nextCursor\":null}", ..page_after(&cursor) };
    measure(bencher, &last, &mut served);
}

fn page_after(cursor: &str) -> Case {
    let target = format!("/v1/query?site=bench&query=all&limit=100&cursor={cursor}");
    Case::new("deep_cursor", &target, "", "\"total\":100000,\"nextCursor\":")
}

fn measure(bencher: Bencher, case: &Case, served: &mut TestHandler) {
    case.assert(served.answer(&case.request));
    bencher.bench_local(|| served.answer(divan::black_box(&case.request)).len());
}

fn cases() -> [Case; 6] {
    let case =
        |name, asks: &str, contains| Case::new(name, &format!("/v1/query?site=bench&{asks}"), "", contains);
    let refused = case("refused", "query=range&params.from=89999", "10001");
    [
        // Ten thousand evaluations, over a list of the index and over a range.
        case("scanned_list", "query=group&params.group=3&params.number=99000", "\"total\":100,"),
        case("scanned_range", "query=range&params.from=90000", "\"total\":10000,"),
        Case { status: "422 Unprocessable Content", ..refused },
        case("range", "query=range&params.from=500&params.to=511", "\"total\":12,"),
        case("indexed_text", "query=text&params.text=t54321", "\"total\":1,"),
        case("first_page", "query=all", "\"total\":100000,"),
    ]
}

fn site() -> Vec<(String, Value)> {
    let number = json!({ "type": "number", "optional": true });
    let (group, text) = (json!({ "type": "number", "enum": [0, 1, 2, 3] }), json!({ "type": "string" }));
    let param = |name: &str| json!({ "$param": name });
    let queries = json!({
        "all": { "collection": "c", "orderBy": ["-n"] },
        "range": { "collection": "c", "params": { "from": number, "to": number }, "limit": 12,
            "where": { "n": { "$gte": param("from"), "$lte": param("to") } }, "orderBy": ["t"] },
        "group": { "collection": "c", "params": { "group": group, "number": number }, "limit": 12,
            "where": { "g": param("group"), "n": { "$not": { "$lt": param("number") } } } },
        "text": { "collection": "c", "params": { "text": text }, "where": { "t": param("text") } },
    });
    let items: Vec<Value> = (0..ITEMS).map(item).collect();
    let about = json!({ "site": "bench", "trackingId": "track_bench", "name": "Bench" });
    [("site.json", about), ("queries.json", queries), ("content/c.json", json!(items))]
        .map(|(path, json)| (path.to_owned(), json))
        .to_vec()
}

/// Returns an item. Each number occurs once, far from the item's index. The items form ten groups.
fn item(at: u32) -> Value {
    let number = u64::from(at) * 7_919 % u64::from(ITEMS);
    json!({ "id": at.to_string(), "type": "t", "fields": { "n": number, "t": format!("t{at}"), "g": number % 10 } })
}
