//! The part of the ties that the fold needs, in place of all entries of ownership. An erasure needs those.

#[path = "../visitors/ties/lost.rs"]
pub mod lost;
