//! Limits of the properties that column files keep, and of the traits that searches use.

/// Number of properties of one site that column files keep for breakdowns. Each one takes a column of at most 1 MiB of
/// texts in the columns of a segment. `compile` rejects more.
pub const PROPERTIES_MAX: usize = 10;
/// Length of the name of such a property, in characters. `compile` rejects a longer one.
pub const PROPERTY_NAME_CHARS_MAX: usize = 128;
/// Length of the value of a property in a breakdown. It is longer than most names and IDs. A longer value is `(other)`.
pub const PROPERTY_VALUE_BYTES_MAX: usize = 256;
/// Number of traits of one site that lists of visitors show and searches use. A row with all of them is still readable.
/// `compile` rejects more.
pub const SEARCHABLE_TRAITS_MAX: usize = 8;
/// Number of private traits of one site. Each answer about a visitor is searched for them. `compile` rejects more.
pub const PRIVATE_TRAITS_MAX: usize = 64;
