//! Warnings: valid source that is probably a mistake. They do not stop a compilation.
//!
//! [`rules`] finds rules that are never reached and node IDs that occur twice on a page. [`values`] finds tests
//! that compare a field with a value that it never has. [`redirects`] finds targets and goals
//! that are not published.

mod redirects;
mod rules;
mod values;

use self::redirects::PublishedPaths;
use self::rules::{PageLint, universal_audiences};
use crate::site::snapshot::format;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::Source;
use crate::site::source::types::{Audiences, Route};

/// Adds the warnings about a site that compiles to `routes`.
pub(super) fn check(source: &Source, routes: &[format::Route], warnings: &mut Diagnostics) {
    for (path, expected) in &source.skipped {
        let diagnostic = Diagnostic::at_value(path, "", *expected, format!("`{path}`"));
        warnings.add(diagnostic.with_title(format!("`{path}` is skipped")));
    }
    if routes.is_empty() {
        let expected = "at least one file `routes/NAME.json`";
        let diagnostic = Diagnostic::at_value("site.json", "", expected, "none");
        warnings.add(diagnostic.with_title("the site has no routes"));
    }
    let none = Audiences::new();
    let audiences = source.audiences.as_ref().unwrap_or(&none);
    for (key, audience) in audiences {
        values::check_condition("audiences.json", &format!("/{key}/when"), &audience.when, warnings);
    }
    let (published, universal) = (PublishedPaths::new(routes), universal_audiences(audiences));
    for (file, route) in &source.routes {
        match route {
            Route::Page(page) => {
                let (universal, published) = (&universal, &published);
                PageLint { file, universal, published, warnings }.check(&page.layout);
            }
            Route::Redirect(route) => published.check_target(file, &route.redirect.to, warnings),
        }
    }
}
