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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Device {
    #[default]
    Unknown = 0,
    Desktop = 1,
    Mobile = 2,
    Tablet = 3,
    Bot = 4,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Os {
    #[default]
    Unknown = 0,
    Android = 1,
    ChromeOs = 2,
    Ios = 3,
    Linux = 4,
    MacOs = 5,
    Windows = 6,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Browser {
    #[default]
    Unknown = 0,
    Chrome = 1,
    Edge = 2,
    Firefox = 3,
    InternetExplorer = 4,
    Opera = 5,
    Safari = 6,
    SamsungInternet = 7,
    Silk = 8,
    Vivaldi = 9,
    Yandex = 10,
}

impl Device {
    const ALL: [Self; 5] = [Self::Unknown, Self::Desktop, Self::Mobile, Self::Tablet, Self::Bot];

    /// Returns the value of `device.type` in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Desktop => "desktop",
            Self::Mobile => "mobile",
            Self::Tablet => "tablet",
            Self::Bot => "bot",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the name, unless the device is unknown.
    pub(crate) fn name(self) -> Option<&'static str> {
        (self != Self::Unknown).then_some(self.as_str())
    }
}

impl Os {
    const ALL: [Self; 7] =
        [Self::Unknown, Self::Android, Self::ChromeOs, Self::Ios, Self::Linux, Self::MacOs, Self::Windows];

    /// Returns the value of `device.os` in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Android => "Android",
            Self::ChromeOs => "ChromeOS",
            Self::Ios => "iOS",
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
            Self::Windows => "Windows",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the name, unless the system is unknown.
    pub(crate) fn name(self) -> Option<&'static str> {
        (self != Self::Unknown).then_some(self.as_str())
    }
}

impl Browser {
    const ALL: [Self; 11] = [
        Self::Unknown,
        Self::Chrome,
        Self::Edge,
        Self::Firefox,
        Self::InternetExplorer,
        Self::Opera,
        Self::Safari,
        Self::SamsungInternet,
        Self::Silk,
        Self::Vivaldi,
        Self::Yandex,
    ];

    /// Returns the value of `device.browser` in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Chrome => "Chrome",
            Self::Edge => "Edge",
            Self::Firefox => "Firefox",
            Self::InternetExplorer => "Internet Explorer",
            Self::Opera => "Opera",
            Self::Safari => "Safari",
            Self::SamsungInternet => "Samsung Internet",
            Self::Silk => "Silk",
            Self::Vivaldi => "Vivaldi",
            Self::Yandex => "Yandex",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the name, unless the browser is unknown.
    pub(crate) fn name(self) -> Option<&'static str> {
        (self != Self::Unknown).then_some(self.as_str())
    }
}
