//! Visits of a public blog: the page views of `apache-access-log/requests.tsv`, one of the public cases, in
//! their order.
//!
//! Of each line this uses the visitor's pseudonym, the path, the user agent and the referrer. Pictures,
//! styles, feeds and error responses are no page views. The paths become pages of the benchmark site,
//! numbered by first occurrence.

use std::collections::HashMap;
use std::path::Path;

use super::requests::{view, visit};
use crate::request::Template;
use crate::turns::RunError;

/// The page views of the log as requests, and the numbers of different pages and visitors.
#[derive(Debug)]
pub struct Visits {
    pub templates: Vec<Template>,
    pub pages: usize,
    pub visitors: usize,
}

/// Columns of the file, separated by tabs.
const COLUMNS: &str = "visitor\ttime\trequest_line\tstatus\tbytes\treferer\tuser_agent";

/// Reads the visits from the directory of the public cases.
pub fn read_visits(cases: Option<&Path>) -> Result<Visits, RunError> {
    let cases = cases.ok_or(
        "the plan `mixed` needs the directory of the public cases, with apache-access-log/requests.tsv; \
         set PARALLAX_CASES or --cases",
    )?;
    let path = cases.join("apache-access-log/requests.tsv");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).ok_or_else(|| format!("{}: unexpected columns; must be {COLUMNS:?}", path.display()).into())
}

/// Returns `None` if the columns are different.
fn parse(text: &str) -> Option<Visits> {
    let mut lines = text.lines();
    if lines.next()? != COLUMNS {
        return None;
    }
    let (mut pages, mut visitors) = (HashMap::new(), HashMap::new());
    let mut templates = Vec::new();
    for line in lines {
        let Some((visitor, path, referrer, agent)) = page_view(line) else { continue };
        let (page, visitor) = (number(&mut pages, path), number(&mut visitors, visitor));
        let (route, visitor) = (format!("/page-{page}"), format!("blog-visitor-{visitor}"));
        templates.push(visit(&route, &visitor, agent));
        templates.push(view(&route, &visitor, agent, referrer));
    }
    Some(Visits { templates, pages: pages.len(), visitors: visitors.len() })
}

fn number<'t>(numbers: &mut HashMap<&'t str, usize>, name: &'t str) -> usize {
    let next = numbers.len();
    *numbers.entry(name).or_insert(next)
}

/// Returns visitor, path, referrer and user agent of a line that is a page view.
fn page_view(line: &str) -> Option<(&str, &str, &str, &str)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[visitor, _, request, status, _, referrer, agent] = &fields[..] else { return None };
    let target = request.strip_prefix("GET ")?.split(' ').next()?;
    let path = target.split(['?', '#']).next()?;
    let is_plain = agent.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (matches!(status, "200" | "304") && is_page(path) && is_plain).then_some((visitor, path, referrer, agent))
}

/// Returns whether a path is that of a page, by the extension of its last segment.
fn is_page(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    let ending = last.rsplit_once('.').map(|(_, ending)| ending);
    path.starts_with('/') && ending.is_none_or(|ending| matches!(ending, "html" | "xhtml" | "php"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(visitor: &str, request: &str, status: u16) -> String {
        format!(
            "{visitor}\t17/May/2015:10:05:03 +0000\t{request} HTTP/1.1\t{status}\t203023\t-\tMozilla/5.0 (X11)\n"
        )
    }

    #[test]
    fn page_views_become_a_resolve_and_an_event_each() {
        let lines = [
            line("v7", "GET /blog/?x=1", 200),
            line("v7", "GET /style.css", 200),
            line("v7", "POST /blog/", 200),
            line("v8", "GET /gone", 404),
            line("v9", "GET /a.html", 304),
            line("v9", "GET /blog/", 200),
        ];
        let visits = parse(&format!("{COLUMNS}\n{}", lines.concat())).expect("its columns");
        assert_eq!((visits.pages, visits.visitors), (2, 2));
        let starts: Vec<String> = visits
            .templates
            .iter()
            .map(|template| {
                String::from_utf8_lossy(&template.bytes).lines().next().unwrap_or_default().to_owned()
            })
            .collect();
        let resolve = |page: usize, visitor: usize| {
            format!(
                "GET /v1/resolve?trackingId=track_bench&route=/page-{page}&anonId=blog-visitor-{visitor} HTTP/1.1"
            )
        };
        let event = "POST /v1/page HTTP/1.1".to_owned();
        assert_eq!(
            starts,
            [resolve(0, 0), event.clone(), resolve(1, 1), event.clone(), resolve(0, 1), event]
        );
        assert!(visits.templates.iter().skip(1).step_by(2).all(|template| template.counters.len() == 1));
    }

    #[test]
    fn a_file_with_other_columns_is_refused() {
        assert!(parse("visitor\ttime\n").is_none());
        let message = read_visits(None).expect_err("a failure").to_string();
        assert!(message.contains("PARALLAX_CASES"), "{message}");
    }
}
