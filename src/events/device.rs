//! The device and the operating system that libraries of apps state in the context of an event.
//!
//! An app has no User-Agent of a browser. RudderStack's and Segment's libraries send `context.device` (`type`, `name`,
//! `model`) and `context.os` (`name`).

use super::context::MergedValue;
use crate::record::{Device, Os, UserAgentInfo};

/// Parts of the names of tablets.
const TABLETS: [&str; 2] = ["Pad", "Tab"];

/// Names of operating systems in lower case, as libraries write them.
const SYSTEMS: [(&str, Os); 9] = [
    ("android", Os::Android),
    ("ios", Os::Ios),
    ("iphone os", Os::Ios),
    ("ipados", Os::Ios),
    ("mac os x", Os::MacOs),
    ("macos", Os::MacOs),
    ("windows", Os::Windows),
    ("linux", Os::Linux),
    ("chrome os", Os::ChromeOs),
];

/// Completes the information of a User-Agent with the stated device and system. A crawler stays a crawler.
pub(super) fn complete(agent: UserAgentInfo, context: MergedValue<'_>) -> UserAgentInfo {
    if agent.is_crawler {
        return agent;
    }
    let stated = |member| context.get(member);
    let device = if agent.device == Device::Unknown { device(stated("device")) } else { agent.device };
    let os = if agent.os == Os::Unknown { system(stated("os")) } else { agent.os };
    UserAgentInfo { device, os, ..agent }
}

/// Returns the stated device. The libraries of apps give the system as the type, so the name tells a tablet.
fn device(device_context: MergedValue<'_>) -> Device {
    let is_type =
        |known: &str| device_context.get_str("type").is_some_and(|text| text.eq_ignore_ascii_case(known));
    let is_tablet = |member| {
        let name = device_context.get_str(member).unwrap_or_default();
        TABLETS.iter().any(|part| name.contains(part))
    };
    if is_type("desktop") {
        Device::Desktop
    } else if is_type("tablet") {
        Device::Tablet
    } else if is_type("ios") || is_type("android") || is_type("mobile") || is_type("phone") {
        if is_tablet("name") || is_tablet("model") { Device::Tablet } else { Device::Mobile }
    } else {
        Device::Unknown
    }
}

fn system(os_context: MergedValue<'_>) -> Os {
    let Some(name) = os_context.get_str("name") else { return Os::Unknown };
    let known = SYSTEMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map_or(Os::Unknown, |(_, os)| *os)
}
