//! Text into HTML.

/// So that it is shown as it is, in an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_means_something_in_html_is_escaped() {
        assert_eq!(super::escape("a<b> & \"c\" é"), "a&lt;b&gt; &amp; &quot;c&quot; é");
    }
}
