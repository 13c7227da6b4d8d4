//! Escaping of text for HTML.

/// Escapes text for an element or a quoted attribute.
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
    fn special_characters_of_html_are_escaped() {
        assert_eq!(super::escape("a<b> & \"c\" é"), "a&lt;b&gt; &amp; &quot;c&quot; é");
    }
}
