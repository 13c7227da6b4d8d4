//! A short code of letters and digits: a country or a language.

/// A code of at most `N` ASCII letters and digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code<const N: usize>([u8; N]);

impl<const N: usize> Code<N> {
    /// Returns the code with these letters and digits. `None` if there are more than `N`, others, or none.
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut code = [0; N];
        code.get_mut(..text.len())?.copy_from_slice(text);
        (!text.is_empty() && text.iter().all(u8::is_ascii_alphanumeric)).then_some(Self(code))
    }

    pub(crate) fn bytes(code: Option<Self>) -> [u8; N] {
        code.map_or([0; N], |code| code.0)
    }

    /// Returns the letters and digits.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}
