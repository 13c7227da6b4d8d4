//! The device, the operating system and the browser of a visitor, as a record stores them.
//!
//! `resolve` parses them from a User-Agent. The numbers are part of the format of segments.

/// The information that a User-Agent gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserAgentInfo {
    /// True exactly if `device` is [`Device::Bot`].
    pub is_crawler: bool,
    pub device: Device,
    /// `Unknown` for a crawler, because the system that it claims is an imitation.
    pub os: Os,
    /// `Unknown` for a crawler, like `os`.
    pub browser: Browser,
}

impl UserAgentInfo {
    /// The information about any crawler.
    pub(crate) const CRAWLER: Self =
        Self { is_crawler: true, device: Device::Bot, os: Os::Unknown, browser: Browser::Unknown };
}

/// Defines an enum that records store as a number, with the number and the text of each variant but `Unknown`, which is 0.
macro_rules! stored_enums {
    ($($name:ident { $($variant:ident = $number:literal, $text:literal;)* })*) => {$(
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            #[default]
            Unknown = 0,
            $($variant = $number,)*
        }

        impl $name {
            /// Returns the value in conditions.
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::Unknown => "unknown",
                    $(Self::$variant => $text,)*
                }
            }

            pub(crate) fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    0 => Some(Self::Unknown),
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Parses the text of a value that is not unknown.
            pub(crate) fn from_name(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the text, unless the value is unknown.
            pub(crate) fn name(self) -> Option<&'static str> {
                (self != Self::Unknown).then_some(self.as_str())
            }
        }
    )*};
}

stored_enums! {
    Device {
        Desktop = 1, "desktop";
        Mobile = 2, "mobile";
        Tablet = 3, "tablet";
        Bot = 4, "bot";
    }
    Os {
        Android = 1, "Android";
        ChromeOs = 2, "ChromeOS";
        Ios = 3, "iOS";
        Linux = 4, "Linux";
        MacOs = 5, "macOS";
        Windows = 6, "Windows";
    }
    Browser {
        Chrome = 1, "Chrome";
        Edge = 2, "Edge";
        Firefox = 3, "Firefox";
        InternetExplorer = 4, "Internet Explorer";
        Opera = 5, "Opera";
        Safari = 6, "Safari";
        SamsungInternet = 7, "Samsung Internet";
        Silk = 8, "Silk";
        Vivaldi = 9, "Vivaldi";
        Yandex = 10, "Yandex";
    }
}
