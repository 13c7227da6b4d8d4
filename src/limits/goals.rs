//! Limits of the goals of a site.

/// Number of goals of one site. An answer about all of them is still readable. `compile` rejects more.
pub const GOALS_MAX: usize = 64;
/// Number of different values of experiments of one site: an event, a property and a currency. A column file notes for each
/// event the goals and values that it has, one bit each, and half of the bits are for goals. `compile` rejects more.
pub const EXPERIMENT_VALUES_MAX: usize = 64;
/// Number of tests of properties of one goal. `compile` rejects more.
pub const GOAL_TESTS_MAX: usize = 16;
/// Number of values of one `$in` or `$nin` of a goal. `compile` rejects more.
pub(crate) const GOAL_TEST_VALUES_MAX: usize = 256;
/// Length of the display name of a goal, in characters. `compile` rejects a longer one.
pub(crate) const GOAL_NAME_CHARS_MAX: usize = 128;
/// Length of a currency, in characters. A code of ISO 4217 has 3. A longer text is no currency.
pub(crate) const CURRENCY_CHARS_MAX: usize = 16;
/// Longest window of the attribution, in milliseconds: a year. A question about a goal reads the events of this time before its range.
/// `compile` rejects a longer one.
pub const ATTRIBUTION_MS_MAX: i64 = 366 * 24 * 60 * 60 * 1_000;
/// Number of goals of one question. The overview of the console asks for as many. More get 400.
pub const GOALS_ASKED_MAX: usize = 16;
