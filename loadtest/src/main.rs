//! Loads Parallax and what one would use instead of it, side by side, and says what each request costs.

mod floor;
mod outcome;
mod report;
mod request;

fn main() {}
