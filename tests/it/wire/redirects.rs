//! Redirects whose target has parameters, and the redirects that `compile` refuses.

use std::fmt::Write;

use parallax::testing::limits::REDIRECTS_IN_A_ROW_MAX;
use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::json;

use super::{SharedServer, page, redirect, resolve_target, site_file, start_server};

static SERVER: SharedServer = SharedServer::new(|| {
    start_server(&[
        redirect("/post/:slug", "/blog/:slug", 301),
        redirect("/docs/*", "https://docs.example:8443/v2/*?from=*#%3A80%3Atop", 302),
        redirect("/:lang/shop/:id/*", "/store/:id.html?lang=:lang&rest=*", 307),
        redirect("/contact", "mailto:team@acme.example", 303),
        redirect("/host", "https://cdn.example:80/a", 308),
        redirect("/colon", "/a:/b", 308),
        page("/blog/:slug", json!({})),
    ])
});

fn target(route: &str) -> String {
    let response = SERVER.get().get(&resolve_target(route, "&variants="));
    response.json()["to"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
}

#[test]
fn parameters_in_the_target_are_replaced_by_the_values_of_the_path() {
    for (route, to) in [
        ("/post/stoves", "/blog/stoves"),
        ("/docs/a/b/c", "https://docs.example:8443/v2/a/b/c?from=a/b/c#%3A80%3Atop"),
        ("/de/shop/7/x/y", "/store/7.html?lang=de&rest=x/y"),
        ("/contact", "mailto:team@acme.example"),
        ("/host", "https://cdn.example:80/a"),
        ("/colon", "/a:/b"),
    ] {
        assert_eq!(target(route), to, "{route}");
    }
}

#[test]
fn values_are_percent_encoded_segment_by_segment() {
    for (route, to) in [
        ("/post/%C3%A4%20b", "/blog/%C3%A4%20b"),
        ("/post/a%2Fb", "/blog/a%2Fb"),
        ("/post/%3Fx%23y%22", "/blog/%3Fx%23y%22"),
        ("/post/100%", "/blog/100%25"),
        (
            "/docs/a%2Fb/c&d=e",
            "https://docs.example:8443/v2/a%2Fb/c%26d%3De?from=a%2Fb/c%26d%3De#%3A80%3Atop",
        ),
    ] {
        assert_eq!(target(route), to, "{route}");
    }
    let tag = |route: &str| {
        let response = SERVER.get().get(&resolve_target(route, "&variants="));
        response.field("etag").expect("a tag").to_owned()
    };
    assert_ne!(tag("/post/a"), tag("/post/b"));
    assert_ne!(tag("/docs/a%2Fb"), tag("/docs/a/b"));
}

#[test]
fn the_list_of_routes_has_the_target_as_authored() {
    let list = SERVER.get().get("/v1/routes?site=acme&prefix=/post").json();
    assert_eq!(list["redirects"][0]["to"], "/blog/:slug");
}

/// Compiles a site of these redirects and a page `/page`. Returns its diagnostics, one per line.
fn report(redirects: &[(&str, &str)]) -> String {
    let site = site_file("acme", json!({}));
    let routes: Vec<(String, String)> = redirects
        .iter()
        .enumerate()
        .map(|(i, (path, to))| (format!("routes/{i:02}.json"), redirect(path, to, 308)))
        .collect();
    let page = page("/page", json!({}));
    let mut files = vec![("site.json", site.as_bytes()), ("routes/page.json", page.as_bytes())];
    files.extend(routes.iter().map(|(file, text)| (&**file, text.as_bytes())));
    let files = Files::from_memory(files);
    let (source, mistakes) = read(&files, &|_, _| {});
    let Err(mistakes) = compile(&source, mistakes, 1, &|_, _| {}) else { return String::new() };
    let mut text = String::new();
    for placed in mistakes.report(&files).diagnostics {
        let found = &placed.diagnostic;
        let nearest = found.nearest.as_deref().unwrap_or("-");
        writeln!(text, "{} {} {} {nearest}", found.file, found.pointer, found.actual).expect("text");
    }
    text
}

#[test]
fn a_parameter_that_the_path_does_not_have_is_refused() {
    for (path, to, actual) in [
        ("/post/:slug", "/blog/:slgu", "`:slgu` :slug"),
        ("/post/:slug", "/blog/:slug-old", "`:slug-old` -"),
        ("/post/:slug", "/blog/*", "`*` -"),
        ("/post", "/blog/a:b?x=1", "`:b` -"),
        ("/docs/*", "/search?q=:rest", "`:rest` -"),
    ] {
        assert_eq!(report(&[(path, to)]), format!("routes/00.json /redirect/to {actual}\n"), "{to}");
    }
    assert_eq!(report(&[("/post", "/blog/a%3Ab?x=%2A")]), "");
}

#[test]
fn a_similar_target_is_named_if_it_is_one_that_browsers_follow() {
    for (to, nearest) in [
        ("www.acme.example", "https://www.acme.example"),
        ("//www.acme.example/a", "https://www.acme.example/a"),
        ("//offers", "/offers"),
        ("offers", "/offers"),
        ("https:\\\\acme.example\\a", "https://acme.example/a"),
        (" /a b\n", "/a%20b"),
        ("/\\acme.example", "-"),
        (" javascript:a", "-"),
        ("https://", "-"),
    ] {
        assert_eq!(report(&[("/a", to)]), format!("routes/00.json /redirect/to {to:?} {nearest}\n"));
    }
}

/// Returns the numbers of the redirects that are refused as part of a circle.
fn circle(redirects: &[(&str, &str)]) -> Vec<usize> {
    let number = |line: &str| line["routes/".len().."routes/00".len()].parse().expect("a number");
    let report = report(redirects);
    report.lines().filter(|line| line.contains(" /redirect/to ")).map(number).collect()
}

#[test]
fn a_circle_of_redirects_is_refused() {
    for redirects in [
        &[("/a", "/a")][..],
        &[("/a", "/a/?x=1#y")],
        &[("/a", "/b"), ("/b", "/c"), ("/c", "/a")],
        &[("/", "/b"), ("/b", "/")],
        &[("/old/:x", "/new/:x"), ("/new/*", "/old/*")],
        &[("/docs/*", "/docs/v2/*")],
        &[("/a", "/b/1"), ("/b/:n", "/a")],
        &[("/ä", "/%C3%A4")],
        &[("/*", "/*/*/*")],
    ] {
        assert_eq!(circle(redirects), (0..redirects.len()).collect::<Vec<_>>(), "{redirects:?}");
    }
    for redirects in [
        &[("/a", "/page")][..],
        &[("/a", "/b"), ("/b", "/page")],
        &[("/a", "/nowhere")],
        &[("/a", "https://acme.example/a")],
        &[("/docs/:a/*", "/docs/*")],
        &[("/*", "/page")],
        &[("/:a/:b", "/:b")],
    ] {
        assert_eq!(report(redirects), "", "{redirects:?}");
    }
}

#[test]
fn a_redirect_with_an_invalid_path_is_reported_without_a_panic() {
    for to in ["/:x", "/:x/*", "/*"] {
        let report = report(&[("/*/:x", to), ("/a", "/b")]);
        assert!(report.contains("routes/00.json /path "), "{to}: {report}");
    }
}

#[test]
fn at_most_20_redirects_follow_each_other() {
    for count in [REDIRECTS_IN_A_ROW_MAX - 1, REDIRECTS_IN_A_ROW_MAX, REDIRECTS_IN_A_ROW_MAX + 1] {
        let names: Vec<String> = (0..count).map(|n| format!("/r{n}")).chain(["/page".to_owned()]).collect();
        let chain: Vec<(&str, &str)> = names.windows(2).map(|two| (&*two[0], &*two[1])).collect();
        let refused = if count > REDIRECTS_IN_A_ROW_MAX { vec![0] } else { vec![] };
        assert_eq!(circle(&chain), refused, "{count}");
    }
}
