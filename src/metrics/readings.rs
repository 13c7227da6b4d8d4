//! The macro of the methods that read counters.

/// Declares the methods that read the counters and gauges of these names.
macro_rules! readings {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> u64 {
            self.$name.load(std::sync::atomic::Ordering::Relaxed)
        }
    )*};
}
pub(crate) use readings;
