//! The report as one HTML page, and as an SVG picture of each comparison.

mod escape;
mod page;
mod picture;
mod scale;

use loadtest::report::Report;

/// Returns the names and texts of the files.
pub fn files(report: &Report) -> Vec<(String, String)> {
    let mut files = vec![("report.html".to_owned(), page::page(report))];
    files.extend(report.comparisons.iter().map(|comparison| {
        (format!("{}.svg", comparison.plan.replace(' ', "-")), picture::bars_alone(comparison))
    }));
    files
}

#[cfg(test)]
mod tests {
    use loadtest::report::sample::sample;

    use super::files;

    #[test]
    fn there_are_a_page_and_a_standalone_picture_of_each_comparison() {
        let files = files(&sample());
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["report.html", "resolve-forced.svg"]);
        let picture = &files[1].1;
        assert!(
            picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && picture.contains("<style>")
        );
    }
}
