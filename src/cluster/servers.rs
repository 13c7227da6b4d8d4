//! The checks of the NATS servers: their version, the longest message, and the sync of each message.

use std::io::Read;
use std::time::Duration;

use async_nats::ServerInfo;
use serde_json::Value;

/// The first version of nats-server that the cluster supports.
const VERSION_MIN: (u32, u32) = (2, 11);
/// The longest message that the servers must accept, in bytes: a record of 1.09 MB goes alone.
const PAYLOAD_BYTES_MIN: usize = 2_000_000;
/// Time limit of the request to a monitoring address.
const MONITOR_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer of a monitoring address.
const MONITOR_BYTES_MAX: u64 = 4 << 20;

/// Checks the server of a connection.
///
/// # Errors
/// The setting to change, with its value.
pub(crate) fn check_version(server_info: &ServerInfo) -> Result<(), String> {
    let name = &server_info.server_name;
    let mut numbers = server_info.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < VERSION_MIN {
        return Err(format!(
            "the NATS server {name} has version {}, and --cluster needs 2.11 or later; replace it",
            server_info.version
        ));
    }
    if server_info.max_payload < PAYLOAD_BYTES_MIN {
        return Err(format!(
            "the NATS server {name} has max_payload {}, and --cluster needs 2MB or more; set `max_payload: 2MB` in its \
             configuration",
            server_info.max_payload
        ));
    }
    Ok(())
}

/// The result of asking a monitoring address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyncSetting {
    /// The server syncs each message.
    Always,
    /// The server does not.
    Delayed,
    /// The address does not answer, or not as expected.
    Unknown,
}

/// Asks a monitoring address whether the server syncs each message.
pub(crate) fn sync_setting(monitor_address: &str) -> SyncSetting {
    let agent = ureq::Agent::config_builder().timeout_global(Some(MONITOR_TIMEOUT)).build();
    let agent = ureq::Agent::new_with_config(agent);
    let Ok(response) = agent.get(format!("{}/jsz", monitor_address.trim_end_matches('/'))).call() else {
        return SyncSetting::Unknown;
    };
    let mut text = String::new();
    let read = response.into_body().into_reader().take(MONITOR_BYTES_MAX).read_to_string(&mut text);
    let answer: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    let Some(config) =
        answer.as_ref().and_then(|answer| answer.get("config")).filter(|config| config.is_object())
    else {
        return SyncSetting::Unknown;
    };
    match config.get("sync_always").and_then(Value::as_bool) {
        Some(true) => SyncSetting::Always,
        _ => SyncSetting::Delayed,
    }
}

/// Checks all monitoring addresses. Returns whether each server has confirmed the setting.
///
/// # Errors
/// A server does not sync each message.
pub(crate) fn check_sync(monitor_addresses: &[String]) -> Result<bool, String> {
    let mut is_confirmed = !monitor_addresses.is_empty();
    for monitor in monitor_addresses {
        match sync_setting(monitor) {
            SyncSetting::Always => {}
            SyncSetting::Unknown => is_confirmed = false,
            SyncSetting::Delayed => {
                return Err(format!(
                    "the NATS server at {monitor} does not sync each message to disk, so a power cut can lose the stream; set \
                     `sync_interval: always` in the section `jetstream` of its configuration"
                ));
            }
        }
    }
    Ok(is_confirmed)
}
