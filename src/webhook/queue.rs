//! The messages that the receiver has not acknowledged, and the time of the next attempt of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

/// Pause after the first failed attempt. A receiver that restarts misses little.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts. A receiver that returns after days learns of the present version
/// within this time.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// A site that is served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSite {
    /// The site ID.
    pub site: String,
    pub tracking_id: String,
    pub version: u64,
    /// The version that was served before this one, also by an earlier process.
    pub version_before: Option<u64>,
}

/// A message about one version of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The site ID.
    pub site: String,
    pub tracking_id: String,
    pub version: u64,
    /// The last version that the receiver acknowledged, else the one that was served before.
    pub since: Option<u64>,
    /// 1 for the first attempt to send it.
    pub attempt: u32,
}

impl Message {
    /// Returns the body of the request.
    pub fn to_json(&self) -> String {
        let Self { site, tracking_id, version, since, .. } = self;
        let since = since.map(|since| since.to_string());
        json!({ "site": site, "trackingId": tracking_id, "version": version.to_string(), "since": since })
            .to_string()
    }
}

/// The state of one site.
#[derive(Debug)]
struct Delivery {
    served: ServedSite,
    /// The version that the receiver has acknowledged last.
    acknowledged: Option<u64>,
    /// Number of failed attempts to send the served version.
    failures: u32,
    /// Time of the next attempt; `None` if the receiver has the served version.
    next_attempt: Option<Instant>,
}

/// The deliveries of all served sites. Time is a parameter.
#[derive(Debug, Default)]
pub struct DeliveryQueue(BTreeMap<String, Delivery>);

impl DeliveryQueue {
    /// Compares the served sites with those of the last call. A new version is due at once and replaces a
    /// pending one. A site that is no longer served is dropped.
    pub fn update(&mut self, sites: &[ServedSite], now: Instant) {
        self.0.retain(|id, _| sites.iter().any(|served| served.site == *id));
        for served in sites {
            let known = self.0.get(&served.site);
            if known.is_some_and(|known| known.served.version == served.version) {
                continue;
            }
            let acknowledged = known.and_then(|known| known.acknowledged);
            let delivery =
                Delivery { served: served.clone(), acknowledged, failures: 0, next_attempt: Some(now) };
            self.0.insert(served.site.clone(), delivery);
        }
    }

    /// Returns the message that has been due for longest.
    pub fn due(&self, now: Instant) -> Option<Message> {
        let pending = self.0.values().filter_map(|delivery| Some((delivery.next_attempt?, delivery)));
        let (_, delivery) = pending.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        let Delivery { served, acknowledged, failures, .. } = delivery;
        Some(Message {
            site: served.site.clone(),
            tracking_id: served.tracking_id.clone(),
            version: served.version,
            since: acknowledged.or(served.version_before),
            attempt: failures + 1,
        })
    }

    /// Returns the time of the next attempt; `None` if no message is pending.
    pub fn next_attempt(&self) -> Option<Instant> {
        self.0.values().filter_map(|delivery| delivery.next_attempt).min()
    }

    /// Returns the number of sites whose served version the receiver has not acknowledged.
    pub fn pending(&self) -> usize {
        self.0.values().filter(|delivery| delivery.next_attempt.is_some()).count()
    }

    /// Ends the delivery of a message.
    pub fn acknowledge(&mut self, message: &Message) {
        if let Some(delivery) = self.0.get_mut(&message.site) {
            delivery.acknowledged = Some(message.version);
            delivery.next_attempt = None;
        }
    }

    /// Schedules the next attempt after a failed one. Returns the pause until then: 1 s, doubled up to 60 s.
    pub fn retry_later(&mut self, message: &Message, now: Instant) -> Duration {
        let doublings = message.attempt.saturating_sub(1).min(RETRY_PAUSE_MAX.as_secs().ilog2() + 1);
        let pause = (RETRY_PAUSE_MIN * (1 << doublings)).min(RETRY_PAUSE_MAX);
        if let Some(delivery) = self.0.get_mut(&message.site) {
            delivery.failures = message.attempt;
            delivery.next_attempt = Some(now + pause);
        }
        pause
    }
}
