//! Questions that name a segment of the site.

use serde_json::{Value, json};

use super::served::{ask, without_time};
use crate::harness::{Client, Server, snapshot};

fn publication() -> Vec<u8> {
    let segments = json!({
        "buyers": { "name": "Buyers", "filters": { "event": ["Order Placed"] } },
        "home": { "name": "Home", "filters": { "page": ["/"] } },
        "north": { "name": "The north", "filters": { "country": ["NO", "SE"], "source": ["news"] } },
        "news": { "name": "News", "filters": { "source": ["news"] } },
    });
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "segments": segments });
    let experiment = json!({ "experiment": { "key": "cta", "variants": ["default", "b"] } });
    let zone = json!({ "default": [], "variants": { "b": [] }, "rules": [experiment] });
    let home = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &home.to_string())], 1)
}

/// Starts a server with views and orders of several countries and sources.
fn server() -> Server {
    let server = Server::start(&[("acme.snapshot", &publication())], &[]);
    let event = |number: usize| {
        let country = ["NO", "SE", "DE"][number % 3];
        let source = ["news", "ads"][number / 3 % 2];
        let path = ["/", "/a"][number % 2];
        let context = json!({
            "country": country, "campaign": { "source": source },
        });
        let id = format!("v{number}");
        match number % 5 {
            0 => json!({ "type": "track", "event": "Order Placed", "anonId": id, "context": context }),
            _ => json!({ "type": "page", "anonId": id, "context": context, "experiments": "cta:b",
                "properties": { "path": path } }),
        }
    };
    let events: Vec<Value> = (0..60).map(event).collect();
    let body = json!({ "trackingId": "track_acme", "batch": events }).to_string();
    let response =
        Client::to(server.edge).post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    server
}

#[test]
fn a_segment_selects_what_its_filters_select_in_every_question() {
    let server = server();
    let questions = [
        "overview?site=acme",
        "top?site=acme&of=page",
        "live?site=acme",
        "engagement?site=acme",
        "retention?site=acme",
        "paths?site=acme&page=/",
        "funnel?site=acme&step=page:/&step=page:/a",
        "experiment?site=acme&key=cta",
    ];
    for question in questions {
        let of_segment = without_time(ask(&server, &format!("{question}&segment=north")));
        let of_filters = without_time(ask(&server, &format!("{question}&country=NO&country=SE&source=news")));
        assert_eq!(of_segment, of_filters, "{question}");
        assert_ne!(of_segment, without_time(ask(&server, question)), "{question}");
    }
    // Two segments, and a filter beside them, must all accept.
    let both = ask(&server, "overview?site=acme&segment=news&segment=home&country=NO");
    let filters = ask(&server, "overview?site=acme&source=news&page=/&country=NO");
    assert_eq!(both["totals"], filters["totals"]);
}

#[test]
fn a_segment_that_a_question_cannot_have_is_refused() {
    let server = server();
    for (question, detail) in [
        (
            "overview?site=acme&segment=south",
            "the key of a segment in site.json, such as buyers, home, news, north",
        ),
        (
            "overview?site=acme&segment=north&country=DE",
            "no further filter 'country' beside that of the segment",
        ),
        (
            "overview?site=acme&segment=north&segment=news",
            "no further filter 'source' beside that of the segment",
        ),
        (
            "experiment?site=acme&key=cta&segment=buyers",
            "a segment without the filter 'event', which this question does not have",
        ),
        (
            "paths?site=acme&page=/&segment=home",
            "a segment without the filter 'page', which this question does not have",
        ),
        (
            "zones?site=acme&page=/&segment=home",
            "a segment without the filter 'page', which this question does not have",
        ),
        (
            "experiments?site=acme&segment=news",
            "a segment without the filter 'source', which this question does not have",
        ),
    ] {
        let response = server.admin_get(&format!("/insights/{question}"));
        let problem = response.json();
        assert_eq!((response.status, &problem["param"]), (400, &json!("segment")), "{question}: {problem}");
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains(detail)),
            "{question}: {problem}"
        );
    }
}
