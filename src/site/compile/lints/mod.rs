//! Warnings: valid source that is probably a mistake. They do not stop a compilation.
//!
//! [`rules`] finds rules that are never reached, variants that no rule selects, and node IDs that occur twice on a
//! page. [`values`] finds tests that compare a field with a value that it never has. [`conditions`] finds other
//! tests that are probably wrong, and [`past`] finds windows in the past. [`redirects`] finds targets,
//! goals and pages of conditions that are not published. [`items`] finds items that differ from the others or from their path.

mod conditions;
mod items;
pub(super) mod past;
mod redirects;
mod rules;
mod values;

use self::conditions::conditions_of;
use self::redirects::{GoalPage, PublishedPaths};
use self::rules::{PageLint, universal_audiences};
use crate::limits::ENROLMENTS_MAX;
use crate::site::compile::fields::SiteFields;
use crate::site::snapshot::format;
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::read::Source;
use crate::site::source::types::{Audiences, Goals, Route};

/// Adds the warnings about a site that compiles to `site`.
pub(super) fn check(source: &Source, site: &format::Site, warnings: &mut Diagnostics) {
    let routes = &site.routes;
    if site.experiments.len() > ENROLMENTS_MAX {
        let title = "the site has so many experiments that a visitor of all of them loses arms";
        let expected = format!("at most {ENROLMENTS_MAX} experiments at the same time");
        warnings.add_titled("site.json", "", title, expected, site.experiments.len());
    }
    for (path, expected) in &source.skipped {
        warnings.add_titled(path, "", format!("`{path}` is skipped"), *expected, format!("`{path}`"));
    }
    if routes.is_empty() {
        let expected = "at least one file `routes/NAME.json`";
        warnings.add_titled("site.json", "", "the site has no routes", expected, "none");
    }
    let none = Audiences::new();
    let audiences = source.audiences.as_ref().unwrap_or(&none);
    source.content.values().for_each(|collection| items::check(collection, warnings));
    let published = PublishedPaths::new(routes);
    let universal = universal_audiences(audiences);
    let no_goals = Goals::new();
    let goals = source.site.as_ref().map_or(&no_goals, |site| &site.goals);
    check_pages_of_goals(goals, &published, warnings);
    let site_fields = SiteFields::new(source);
    for condition in conditions_of(source) {
        values::check(site_fields, &condition, warnings);
        conditions::check(site_fields, &condition, &published, warnings);
    }
    for (file, route) in &source.routes {
        match route {
            Route::Page(page) => {
                if let Some(each) = &page.each
                    && let Some(collection) = source.content.get(&each.collection)
                {
                    items::check_spelling(each, collection, warnings);
                }
                PageLint { file, universal: &universal, published: &published, goals, warnings }
                    .check(&page.layout);
            }
            Route::Redirect(route) => published.check_target(file, &route.redirect.to, warnings),
        }
    }
}

/// Adds a warning for each goal on a page that is not published.
fn check_pages_of_goals(goals: &Goals, published: &PublishedPaths<'_>, warnings: &mut Diagnostics) {
    for (key, goal) in goals {
        if let Some(page) = &goal.page {
            let pointer = format!("/goals/{key}/page");
            let page = GoalPage { authored_text: page, path: page };
            published.check_goal_page("site.json", &pointer, page, warnings);
        }
    }
}
