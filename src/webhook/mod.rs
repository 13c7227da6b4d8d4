//! The webhook of `--on-publish`: tells a receiver, such as the website, which version of each site is served.
//!
//! One thread sends the messages. A publication wakes it, and then it compares the served versions with those
//! that the receiver has acknowledged. So the watcher and the workers never wait for the receiver, a version
//! that another one replaces is not sent any more, and the pending messages are at most one for each site.
//! After a restart every served version is sent again: the receiver ignores the versions that it knows.

mod client;
pub mod queue;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use self::client::Client;
use self::queue::{DeliveryQueue, Message, ServedSite};
use crate::clock;
use crate::config::Config;
use crate::metrics::WebhookCounters;
use crate::site::catalog::catalog::{Catalog, CurrentCatalog, PublishedSite};
use crate::threads;

/// The receiver of the messages, and the limits of one delivery.
#[derive(Debug)]
struct WebhookSettings {
    /// The URL of the receiver, with the scheme `http` or `https`.
    url: String,
    /// The Bearer token of the messages.
    token: Option<String>,
    /// Time limit for one delivery, from the connection to the head of the response.
    timeout: Duration,
}

/// The thread of the webhook.
struct Webhook {
    client: Client,
    current: CurrentCatalog,
    queue: DeliveryQueue,
    counters: WebhookCounters,
    /// Gets a message after each publication.
    publications: Receiver<()>,
}

impl WebhookSettings {
    /// Returns the settings of the webhook, or `None` if it is off.
    fn of(config: &Config) -> Option<Self> {
        let token = config.on_publish_token.clone().filter(|token| !token.is_empty());
        match &config.on_publish {
            Some(url) => Some(Self { url: url.clone(), token, timeout: config.on_publish_timeout }),
            None => {
                if token.is_some() {
                    tracing::warn!("--on-publish-token has no effect without --on-publish; set both");
                }
                None
            }
        }
    }
}

/// Starts the thread of the webhook if it is on. The thread runs until the process ends.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start(config: &Config, catalog: &CurrentCatalog, counters: WebhookCounters) -> io::Result<()> {
    let Some(settings) = WebhookSettings::of(config) else { return Ok(()) };
    // One message is enough, because the thread compares all sites at each.
    let (sender, publications) = sync_channel(1);
    catalog.on_change(Arc::new(move || {
        // Sending fails if a message waits already, or if the thread panicked, which was logged then.
        let _ = sender.try_send(());
    }));
    let client = Client::new(&settings);
    let queue = DeliveryQueue::default();
    let webhook = Webhook { client, current: catalog.clone(), queue, counters, publications };
    threads::spawn("webhook", move || webhook.run())?;
    Ok(())
}

impl Webhook {
    fn run(mut self) {
        loop {
            self.queue.update(&served_sites(&self.current.load()), clock::instant());
            self.counters.set_pending(self.queue.pending());
            match self.queue.due(clock::instant()) {
                Some(message) => self.deliver(&message),
                None => self.wait(),
            }
        }
    }

    /// Waits for a publication, or for the time of the next attempt.
    fn wait(&self) {
        // The sender is in the catalog, which this thread holds, so the channel never closes.
        let _ = match self.queue.next_attempt() {
            Some(at) => {
                self.publications.recv_timeout(at.saturating_duration_since(clock::instant())).is_ok()
            }
            None => self.publications.recv().is_ok(),
        };
    }

    fn deliver(&mut self, message: &Message) {
        let Message { site, version, attempt, .. } = message;
        match self.client.post(&message.to_json()) {
            Ok(()) => {
                self.counters.record_delivery();
                self.queue.acknowledge(message);
                tracing::info!(site, version, attempts = attempt, "announced publication");
            }
            Err(error) => {
                self.counters.record_failure();
                let retry_in = self.queue.retry_later(message, clock::instant());
                // One line for each version: a receiver may be down for days.
                if *attempt == 1 {
                    tracing::warn!(
                        site,
                        version,
                        receiver = self.client.receiver(),
                        error,
                        retry_in_ms = retry_in.as_millis() as u64,
                        "cannot announce the publication; it is sent again until the receiver accepts it"
                    );
                }
            }
        }
    }
}

fn served_sites(catalog: &Catalog) -> Vec<ServedSite> {
    let served = |site: &PublishedSite| ServedSite {
        site: site.site().site.to_string(),
        tracking_id: site.site().tracking_id.to_string(),
        version: site.version(),
        version_before: site.versions.version_before_newest(),
    };
    catalog.sites().iter().map(served).collect()
}
