//! Conditions over visitors that are valid, but probably wrong: languages without a region, parameters
//! that are misspelt, pages that are not published, and the path of the page on which the rule is.

use serde_json::Value as Json;

use super::redirects::PublishedPaths;
use crate::nearest::nearest;
use crate::site::compile::comparisons::{Comparison, Comparisons, FieldTest};
use crate::site::compile::fields::SiteFields;
use crate::site::compile::operands::{is_ordering, number_of};
use crate::site::compile::paths::is_pattern;
use crate::site::profile_fields::ProfileField;
use crate::site::profile_values::{FieldValues, ValueList, is_date};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::Source;
use crate::site::source::types::{Route, Rule};

/// The parameters of campaigns that advertisers use.
const CAMPAIGN_PARAMS: [&str; 9] = [
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
    "utm_id",
    "utm_source_platform",
    "utm_creative_format",
    "utm_marketing_tactic",
];

/// A condition over visitors and its place.
pub(super) struct SiteCondition<'s> {
    pub(super) file: &'s str,
    pub(super) pointer: String,
    pub(super) when: &'s Json,
    /// The path of the page, if the condition belongs to a rule of a page with one path.
    fixed_path: Option<&'s str>,
}

/// Lists the conditions of all audiences and rules.
pub(super) fn conditions_of(source: &Source) -> Vec<SiteCondition<'_>> {
    let audiences = source.audiences.iter().flatten().map(|(key, audience)| SiteCondition {
        file: "audiences.json",
        pointer: format!("/{key}/when"),
        when: &audience.when,
        fixed_path: None,
    });
    let mut found: Vec<_> = audiences.collect();
    for (file, route) in &source.routes {
        if let Route::Page(page) = route {
            let fixed_path = Some(&*page.path).filter(|path| !is_pattern(path));
            page.layout.for_each_rule(&mut |pointer, rule| {
                if let Rule::When { when, .. } | Rule::Experiment { when: Some(when), .. } = rule {
                    found.push(SiteCondition { file, pointer: format!("{pointer}/when"), when, fixed_path });
                }
            });
        }
    }
    found
}

/// Adds the warnings about a condition. `site_fields` are those that it can name.
pub(super) fn check(
    site_fields: SiteFields<'_>,
    condition: &SiteCondition<'_>,
    published_paths: &PublishedPaths<'_>,
    warnings: &mut Diagnostics,
) {
    let found = Comparisons::collect(site_fields, condition.when, &condition.pointer);
    let written = condition.when.to_string();
    for comparison in &found.all {
        let diagnostic = check_locale(condition.file, comparison, &written)
            .or_else(|| check_bound(condition.file, comparison));
        diagnostic.into_iter().for_each(|diagnostic| warnings.add(diagnostic));
    }
    for field in &found.fields {
        if let Some(path) = field.page_path() {
            published_paths.check_page(condition.file, &field.pointer, path, warnings);
        }
        check_param(condition.file, field).into_iter().for_each(|diagnostic| warnings.add(diagnostic));
    }
    let of_path = found.fields.iter().find(|field| field.field == ProfileField::UrlPath);
    if let Some(field) = of_path
        && let Some(path) = condition.fixed_path
    {
        let expected = "a test that differs between the requests for this page, or a route with a parameter";
        let actual = format!("`url.path` on the page {path:?}");
        let diagnostic = Diagnostic::at_key(condition.file, field.pointer.clone(), expected, actual);
        let title =
            format!("`url.path` is always {path:?} on this page, so the test is always or never true");
        warnings.add(diagnostic.with_title(title));
    }
}

/// Checks a comparison of the language. Most browsers send a language with a region. `condition_text` is the whole condition.
fn check_locale(file: &str, comparison: &Comparison<'_>, condition_text: &str) -> Option<Diagnostic> {
    let text = comparison.literal.as_str().filter(|_| comparison.field == ProfileField::Locale)?;
    let is_language = matches!(text.len(), 2 | 3) && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let (title, expected, nearest) = match text.split_once('_') {
        Some((language, region)) => (
            format!("`locale` is compared with {text:?}, but browsers send languages with `-`"),
            "a language with its region, such as \"de-DE\"".to_owned(),
            Some(format!("{language}-{region}")),
        ),
        // Another test of the condition covers the regions.
        None if !is_language || condition_text.contains(&format!("{text}-")) => return None,
        None => (
            format!("`locale` is compared with {text:?}, which does not match a language with a region"),
            format!("the path `language`, as in {{\"language\": {:?}}}", text.to_ascii_lowercase()),
            None,
        ),
    };
    let diagnostic = Diagnostic::at_value(file, comparison.pointer.clone(), expected, format!("{text:?}"));
    Some(diagnostic.with_title(title).with_nearest(nearest))
}

/// Checks a bound of a date, an hour or a weekday: a date without its day excludes or includes a whole period, and a
/// number outside of the range never has an effect.
fn check_bound(file: &str, comparison: &Comparison<'_>) -> Option<Diagnostic> {
    let Comparison { path, operator, literal, .. } = *comparison;
    if comparison.is_count || !is_ordering(operator) {
        return None;
    }
    let list = FieldValues::of(comparison.field).list;
    let (title, is_wrong) = match list {
        ValueList::Date => {
            let is_partial = matches!(operator, "$gt" | "$lte") && !literal.as_str().is_none_or(is_date);
            (format!("{literal} is before each date that begins with it"), is_partial)
        }
        ValueList::Integers(min, max) => {
            let number = number_of(literal)?;
            // The end of the range is often written as the first number after it.
            let is_end = operator == "$lt" && number == f64::from(max) + 1.0
                || operator == "$gt" && number == f64::from(min) - 1.0;
            (format!("`{path}` is never {literal}"), !is_end && !list.has_number(number))
        }
        _ => return None,
    };
    let diagnostic =
        Diagnostic::at_value(file, comparison.pointer.clone(), list.description(), literal.to_string());
    is_wrong.then(|| diagnostic.with_title(title))
}

/// Checks the name of a campaign parameter of the URL.
fn check_param(file: &str, test: &FieldTest<'_>) -> Option<Diagnostic> {
    let name = test.name.as_str();
    let letters = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    if test.field != ProfileField::UrlQuery
        || !letters(name).starts_with("utm")
        || CAMPAIGN_PARAMS.contains(&name)
    {
        return None;
    }
    let same = CAMPAIGN_PARAMS.iter().find(|known| letters(known) == letters(name));
    let known = same.map(|known| (*known).to_owned()).or_else(|| nearest(name, CAMPAIGN_PARAMS))?;
    let expected = format!("a parameter of campaigns, such as `{known}`");
    let diagnostic = Diagnostic::at_key(file, test.pointer.clone(), expected, format!("`{name}`"));
    let diagnostic = diagnostic.with_title(format!("unusual campaign parameter `{name}`"));
    Some(diagnostic.with_nearest(Some(format!("url.query.{known}"))))
}
