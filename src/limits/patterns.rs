//! Limits of regular expressions.

/// Length of the source of a regular expression. A longer one is a mistake or an attack, and is rejected.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Size of the automaton from which the table of a regular expression is built, in states and transitions. It bounds the
/// build time. It counts no bytes, so that it is the same on 32 and on 64 bits. An expression that needs more is rejected.
pub const PATTERN_NFA_STATES_MAX: usize = 10_000;

/// Memory for the automaton of a regular expression while it is built: enough for the states above on 64 bits.
pub(crate) const PATTERN_NFA_BUILD_BYTES_MAX: usize = 1 << 20;

/// Memory for the sets of states from which the table of a regular expression is built. It bounds the build time. An expression
/// that needs more is rejected.
pub(crate) const PATTERN_SETS_BYTES_MAX: usize = 8 << 20;

/// Size of the table of a regular expression. Ordinary expressions take a few KiB, `\p{L}+` takes 300. An expression that
/// needs more is rejected.
pub const PATTERN_DFA_BYTES_MAX: usize = 512 << 10;

/// Number of regular expressions of one site. Equal ones count once. Together with the limit above it bounds
/// the memory for a site's patterns. A site with more is rejected.
pub const PATTERNS_MAX: usize = 256;
