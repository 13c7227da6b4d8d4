//! The domains of providers, from which no visitor comes.

use std::collections::BTreeSet;

use parallax::testing::providers::{SLOTS, contains, domains};
use proptest::prelude::*;
use proptest::sample::select;

/// Returns whether `host` is a domain of the list or below one, compared with each of them.
fn is_listed(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    domains().any(|domain| host == domain || host.ends_with(&format!(".{domain}")))
}

#[test]
fn each_domain_of_the_list_is_a_lower_case_host_and_covers_its_subdomains() {
    let all: BTreeSet<&str> = domains().collect();
    assert_eq!(all.len(), domains().count(), "each once");
    assert!(all.len() * 2 < SLOTS, "{} domains", all.len());
    for domain in domains() {
        let is_name = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        assert!(domain.split('.').all(is_name) && domain.contains('.'), "{domain}");
        let above = domain.match_indices('.').map(|(at, _)| &domain[at + 1..]);
        assert!(above.clone().all(|domain| !all.contains(domain)), "{domain} is below another one");
        assert!(contains(domain) && contains(&format!("a.b.{domain}")), "{domain}");
        assert!(contains(&domain.to_uppercase()), "{domain}");
        assert!(!contains(&format!("not{domain}")) && !contains(&format!("{domain}.example")), "{domain}");
        assert!(!contains(&domain[1..]) || is_listed(&domain[1..]), "{domain}");
    }
}

#[test]
fn the_list_has_payment_and_sign_in_pages_and_no_host_that_brings_visitors() {
    for host in [
        "www.paypal.com",
        "checkout.stripe.com",
        "acme.okta.com",
        "accounts.google.com",
        "login.microsoftonline.com",
        "checkout.klarna.com",
    ] {
        assert!(contains(host), "{host}");
    }
    for host in [
        "www.google.com",
        "com",
        "",
        ".",
        "paypal",
        "paypal.com.example",
        "mypaypal.com",
        "www.klarna.com",
        "facebook.com",
        "github.com",
        "www.amazon.com",
        "search.example",
    ] {
        assert!(!contains(host), "{host}");
    }
}

proptest! {
    #[test]
    fn the_hash_table_finds_the_same_domains_as_a_search_through_the_list(
        labels in prop::collection::vec("[a-cA-C.-]{0,3}", 0..4),
        domain in select(domains().collect::<Vec<_>>()),
        cut in 0..6_usize,
        end in select(vec!["", ".", "m", ".com", "é"]),
    ) {
        let host = format!("{}{}{end}", labels.join("."), domain.get(cut..).unwrap_or(""));
        prop_assert_eq!(contains(&host), is_listed(&host), "{:?}", host);
    }
}
