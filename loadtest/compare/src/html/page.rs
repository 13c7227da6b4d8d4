//! A report as one self-contained HTML page, without scripts and network requests.

use std::fmt::Write;

use loadtest::report::gather::Spread;
use loadtest::report::table::{
    COMPARED_FIGURES, Figure, figure_ratios, format_figure, format_ratio, group_digits, void_warnings,
};
use loadtest::report::{Comparison, Report, Side, Window};

use super::escape::escape;
use super::picture::{STYLE, bars, curves};

/// Renders the page. Writing to a `String` cannot fail.
pub fn page(report: &Report) -> String {
    let (command, date) = (escape(&report.command), escape(&report.date));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{command}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>{command}</h1>\n<p>{date}. {}.</p>\n</header>\n",
        escape(&report.machine.description())
    );
    for comparison in &report.comparisons {
        html += &section(comparison);
    }
    html + "</body>\n</html>\n"
}

fn section(comparison: &Comparison) -> String {
    let (plan, about) = (escape(&comparison.plan), escape(&comparison.about));
    let mut html = format!("<section>\n<h2>{plan}</h2>\n<p>{about}</p>\n");
    html += &list("void", &void_warnings(comparison));
    html += "<h3>Server CPU time per request, user and system</h3>\n";
    html += &bars(comparison);
    html += "<h3>Latency</h3>\n";
    html += &legend(comparison);
    html += &curves(comparison);
    html += &rows(comparison);
    html += &ratio_table(comparison);
    html += &list("notes", &comparison.notes);
    html + "</section>\n"
}

fn legend(comparison: &Comparison) -> String {
    let names = comparison.sides.iter().enumerate();
    let names = names.map(|(number, side)| {
        let void = if side.void_windows() > 0 { " (void)" } else { "" };
        format!("<span><i class=\"s{number}\"></i>{}{void}</span>", escape(&side.server))
    });
    format!("<p class=\"legend\">{}</p>\n", names.collect::<String>())
}

const HEADINGS: [&str; 9] = [
    "server",
    "CPU us per request",
    "requests per second",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "generator us",
    "checked of all",
];

fn rows(comparison: &Comparison) -> String {
    let headings: String = HEADINGS.iter().map(|heading| format!("<th>{heading}</th>")).collect();
    let rows: String = comparison.sides.iter().map(row).collect();
    format!("<div class=\"wide\"><table>\n<tr>{headings}</tr>\n{rows}</table></div>\n")
}

/// Renders a side as a row of medians, each with minimum and maximum below.
fn row(side: &Side) -> String {
    let cell = |figure: Figure| {
        let Spread { median, min, max } = Spread::of(side.windows.iter().map(figure));
        format!(
            "<td>{}<small>{} - {}</small></td>",
            format_figure(median),
            format_figure(min),
            format_figure(max)
        )
    };
    let sum = |count: fn(&Window) -> u64| side.windows.iter().map(count).sum::<u64>();
    let mut html = format!("<tr><td>{}<small>{}</small></td>", escape(&side.server), escape(&side.version));
    html += &cell(|window| window.server_us_per_request);
    html += &cell(|window| window.per_second);
    if side.void_windows() > 0 {
        html += &"<td>void</td>".repeat(4);
    } else {
        html += &cell(|window| window.p50_us);
        html += &cell(|window| window.p99_us);
        html += &cell(|window| window.p999_us);
        let _ = write!(html, "<td>{}</td>", format_figure(side.latency_us.max));
    }
    html += &cell(|window| window.generator_us_per_request);
    let (checked, completed) = (sum(|window| window.checked), sum(|window| window.completed));
    let _ =
        writeln!(html, "<td>{}<small>{}</small></td></tr>", group_digits(checked), group_digits(completed));
    html
}

/// Renders the ratios of the first side to each of the others.
fn ratio_table(comparison: &Comparison) -> String {
    let Some((first, others)) = comparison.sides.split_first().filter(|(_, others)| !others.is_empty())
    else {
        return String::new();
    };
    let headings: String = COMPARED_FIGURES.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let row = |other: &Side| {
        let cells: String = figure_ratios(first, other).map(|ratio| cell(ratio.as_ref())).collect();
        format!("<tr><td>against {}</td>{cells}</tr>\n", escape(&other.server))
    };
    let rows: String = others.iter().map(row).collect();
    let first = escape(&first.server);
    format!("<div class=\"wide\"><table>\n<tr><th>{first}</th>{headings}</tr>\n{rows}</table></div>\n")
}

/// Renders a ratio with its range. `None` is void.
fn cell(ratio: Option<&Spread>) -> String {
    ratio.map_or_else(
        || "<td>void</td>".to_owned(),
        |Spread { median, min, max }| {
            format!(
                "<td>{} x<small>{} - {}</small></td>",
                format_ratio(*median),
                format_ratio(*min),
                format_ratio(*max)
            )
        },
    )
}

fn list(class: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use loadtest::report::sample::sample;

    use super::*;

    #[test]
    fn the_page_is_self_contained() {
        let html = page(&sample());
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_page_contains_all_texts_escaped() {
        let mut report = sample();
        report.comparisons[0].notes.push("a <b> & c".to_owned());
        report.comparisons[0].sides[1].windows[0].is_void = true;
        let html = page(&report);
        for text in [
            "a &lt;b&gt; &amp; c",
            "Linux 6.18",
            "<h2>resolve-forced</h2>",
            "VOID: in 1 of 3",
            "floor (void)",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
    }
}
