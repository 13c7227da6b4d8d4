//! The stream of a cluster in JetStream: its configuration, and the four calls that the rest of the cluster uses.
//!
//! A message of the stream is read from the leader, never by a direct get: a replica that lags would answer
//! that the message is missing, as if the stream had lost its end. The retries of the client are not used: a
//! failed publication is an event of the forwarder.
//!
//! The era and the position of its message are in the metadata of the stream, because the message itself expires.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::Client;
use async_nats::datetime::parse_rfc3339;
use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::context::{
    Context, ContextBuilder, PublishAckFuture, PublishError, PublishErrorKind, RequestErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RawMessageErrorKind, RetentionPolicy, StorageType,
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::era::Era;
use super::follow::Head;
use super::link::{MessageBytes, PublishedEra, StreamEnd};
use super::message::{Sender, StreamMessage};
use super::skew::ClockReading;
use crate::clock;
use crate::nats::leader;

/// Time for which the stream keeps a message: a node that was down for a weekend catches up, and an erased
/// visitor is gone from the stream after it.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(72 * 3_600);
/// Time limit of a request and of the acknowledgement of a publication. A change of the leader takes 4 to 9
/// s; the forwarder sends again meanwhile.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Name of the era in the metadata of the stream.
const ERA_KEY: &str = "parallax_era";

/// The stream of a cluster, on one connection.
pub(crate) struct ClusterStream {
    context: Context,
    name: String,
    /// The subjects of all senders begin with it.
    prefix: String,
    sender: Sender,
}

/// The present state of a stream.
pub(crate) struct StreamInfo {
    pub(crate) head: Head,
    pub(crate) era: Option<PublishedEra>,
    pub(crate) replicas: usize,
    /// The time of the last message, in milliseconds since 1970.
    last_ms: i64,
    pub(crate) clock: ClockReading,
}

impl StreamInfo {
    /// Returns the end of the stream.
    pub(crate) fn end(&self) -> StreamEnd {
        StreamEnd { last: self.head.last, last_ms: self.last_ms, skew_ms: self.clock.skew_ms() }
    }
}

/// The reason for which the state of a stream is not known.
#[derive(Debug, thiserror::Error)]
enum InfoError {
    #[error("{0}")]
    Missing(String),
    /// The stream has no leader at the moment, or this user gets no answer.
    #[error("{0}")]
    Unanswered(String),
    #[error("{0}")]
    Refused(String),
}

impl From<InfoError> for String {
    fn from(error: InfoError) -> Self {
        error.to_string()
    }
}

/// The state of a stream from its leader, with the time of the leader's clock. The client's type has no time.
#[derive(Deserialize)]
struct TimedInfo {
    #[serde(flatten)]
    info: Info,
    ts: String,
}

/// The era in the metadata of a stream.
#[derive(Serialize, Deserialize)]
struct EraMetadata {
    position: u64,
    era: Era,
}

impl ClusterStream {
    /// Uses the stream of the cluster `cluster_name`, and sends messages as `sender`.
    pub(crate) fn new(client: Client, cluster_name: &str, sender: Sender) -> Self {
        let context =
            ContextBuilder::new().timeout(REQUEST_TIMEOUT).ack_timeout(REQUEST_TIMEOUT).build(client);
        Self { context, name: format!("PLX_{cluster_name}"), prefix: format!("plx.{cluster_name}."), sender }
    }

    /// Returns the sender of a message, by its subject. A subject that the stream should not have gives no right of the operator.
    fn sender_of(&self, subject: &str) -> Sender {
        let end = subject.strip_prefix(&self.prefix).unwrap_or(subject);
        match end == Sender::Control.subject_end() {
            true => Sender::Control,
            false => Sender::Node(end.strip_prefix("log.").unwrap_or(end).to_owned()),
        }
    }

    fn subject(&self) -> String {
        format!("{}{}", self.prefix, self.sender.subject_end())
    }

    /// Returns the answer of the stream's leader.
    ///
    /// # Errors
    /// The stream does not exist or cannot be read.
    async fn timed_info(&self) -> Result<TimedInfo, InfoError> {
        match self.context.request(format!("STREAM.INFO.{}", self.name), &()).await {
            Ok(Response::Ok(timed)) => Ok(timed),
            Ok(Response::Err { error }) => Err(match error.error_code() {
                ErrorCode::STREAM_NOT_FOUND => InfoError::Missing(self.failed_read(&error)),
                ErrorCode::CLUSTER_NOT_AVAILABLE => InfoError::Unanswered(self.failed_read(&error)),
                _ => InfoError::Refused(self.failed_read(&error)),
            }),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::TimedOut | RequestErrorKind::NoResponders => {
                    InfoError::Unanswered(self.failed_read(&error))
                }
                _ => InfoError::Refused(self.failed_read(&error)),
            }),
        }
    }

    fn failed_read(&self, error: &dyn std::fmt::Display) -> String {
        format!("cannot read the stream {}: {error}", self.name)
    }

    /// Returns the extent of the stream and its era.
    ///
    /// # Errors
    /// The stream does not exist or cannot be read.
    pub(crate) async fn info(&self) -> Result<StreamInfo, String> {
        Ok(self.attempt_info().await?)
    }

    /// Returns the extent of the stream and its era, or `None` if the stream does not exist. Servers that have just
    /// started have no leader yet, or their leader does not see all of them, so this tries again.
    ///
    /// # Errors
    /// The servers do not answer, or refuse it.
    pub(crate) async fn info_if_present(&self) -> Result<Option<StreamInfo>, String> {
        let is_unanswered = |error: &InfoError| matches!(error, InfoError::Unanswered(_));
        match leader::until_stored(leader::pause, is_unanswered, async || self.attempt_info().await).await {
            Err(InfoError::Missing(_)) => Ok(None),
            result => Ok(Some(result?)),
        }
    }

    async fn attempt_info(&self) -> Result<StreamInfo, InfoError> {
        let sent_ms = clock::now_ms();
        let TimedInfo { info, ts } = self.timed_info().await?;
        let server_ms = parse_rfc3339(&ts).map_err(|error| InfoError::Refused(self.failed_read(&error)))?;
        let server_ms = milliseconds(server_ms.unix_timestamp_nanos());
        let clock = ClockReading { sent_ms, server_ms, received_ms: clock::now_ms() };
        let head = Head {
            created_ms: milliseconds(info.created.unix_timestamp_nanos()),
            first: info.state.first_sequence.max(1),
            last: info.state.last_sequence,
        };
        let era = info.config.metadata.get(ERA_KEY).and_then(|text| serde_json::from_str(text).ok());
        let era = era.map(|EraMetadata { position, era }| PublishedEra { era, position });
        let last_ms = milliseconds(info.state.last_timestamp.unix_timestamp_nanos());
        Ok(StreamInfo { head, era, replicas: info.config.num_replicas, last_ms, clock })
    }

    /// Returns the message at a position. `None` if the stream does not have it.
    ///
    /// # Errors
    /// The leader does not answer.
    pub(crate) async fn at(&self, position: u64) -> Result<Option<StreamMessage<MessageBytes>>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot read the message {position}: {error}");
        let stream = self.context.get_stream_no_info(&self.name).await.map_err(|error| failed(&error))?;
        match stream.get_raw_message(position).await {
            Ok(message) => Ok(Some(self.raw(message))),
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Returns the messages from a position on.
    ///
    /// # Errors
    /// The consumer cannot be created.
    pub(crate) async fn read(&self, first_position: u64) -> Result<Ordered, String> {
        self.consume(DeliverPolicy::ByStartSequence { start_sequence: first_position }).await
    }

    /// Passes the messages since a time, in milliseconds since 1970, to `visit`, up to the position `last_position`.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(crate) async fn visit_since(
        &self,
        since_ms: i64,
        last_position: u64,
        visit: &mut dyn FnMut(StreamMessage<MessageBytes>),
    ) -> Result<(), String> {
        let start_time = async_nats::datetime::from_nanos(i128::from(since_ms) * 1_000_000);
        let start_time = start_time.map_err(|error| error.to_string())?;
        let messages = self.consume(DeliverPolicy::ByStartTime { start_time }).await?;
        let mut visit_to_last = |message: StreamMessage<MessageBytes>| {
            let is_last = message.position >= last_position;
            visit(message);
            !is_last
        };
        self.visit_while(messages, &mut visit_to_last).await
    }

    /// Passes the messages from a position on to `visit`, until it returns false.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(crate) async fn visit_from(
        &self,
        first_position: u64,
        visit: &mut dyn FnMut(StreamMessage<MessageBytes>) -> bool,
    ) -> Result<(), String> {
        let messages = self.read(first_position).await?;
        self.visit_while(messages, visit).await
    }

    async fn visit_while(
        &self,
        mut messages: Ordered,
        visit: &mut dyn FnMut(StreamMessage<MessageBytes>) -> bool,
    ) -> Result<(), String> {
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| self.failed_read(&error))?;
            if !self.received(&message).is_some_and(&mut *visit) {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn consume(&self, deliver_policy: DeliverPolicy) -> Result<Ordered, String> {
        let failed = |error: &dyn std::fmt::Display| self.failed_read(error);
        let stream = self.context.get_stream_no_info(&self.name).await.map_err(|error| failed(&error))?;
        let config = OrderedConfig { deliver_policy, ..OrderedConfig::default() };
        let consumer = stream.create_consumer(config).await.map_err(|error| failed(&error))?;
        consumer.messages().await.map_err(|error| failed(&error))
    }

    /// Returns the last message of each node, with its name.
    ///
    /// # Errors
    /// The servers do not answer.
    pub(crate) async fn last_of_each_node(
        &self,
    ) -> Result<Vec<(String, StreamMessage<MessageBytes>)>, String> {
        let failed = |error: &dyn std::fmt::Display| self.failed_read(error);
        let stream = self.context.get_stream(&self.name).await.map_err(|error| failed(&error))?;
        let prefix = format!("{}log.", self.prefix);
        let subjects =
            stream.info_with_subjects(format!("{prefix}*")).await.map_err(|error| failed(&error))?;
        let subjects: Vec<_> = subjects.collect().await;
        let mut last = Vec::new();
        for subject in subjects {
            let (subject, _) = subject.map_err(|error| failed(&error))?;
            let name = subject.strip_prefix(&prefix).unwrap_or_default().to_owned();
            let message = stream.get_last_raw_message_by_subject(&subject).await;
            last.push((name, self.raw(message.map_err(|error| failed(&error))?)));
        }
        Ok(last)
    }

    /// Sends a message. The returned future waits for the acknowledgement.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) async fn append(&self, bytes: Vec<u8>) -> Result<PublishAckFuture, String> {
        self.context.publish(self.subject(), bytes.into()).await.map_err(|error| error.to_string())
    }

    /// Appends the first message of an era. Returns its position. A new stream has no leader yet, so this tries again.
    ///
    /// # Errors
    /// The connection is lost, or the servers do not store the message.
    pub(crate) async fn append_first(&self, era: &Era, bytes: Vec<u8>) -> Result<u64, String> {
        // With this ID the servers store the message once, also if an acknowledgement did not arrive in time.
        let id = format!("era-{:032x}", u128::from_be_bytes(era.id.0));
        let is_refused = |error: &PublishError| {
            matches!(error.kind(), PublishErrorKind::StreamNotFound | PublishErrorKind::TimedOut)
        };
        let appended = leader::until_stored(leader::pause, is_refused, async || {
            let message = PublishMessage::build().payload(bytes.clone().into()).message_id(&id);
            self.context.send_publish(self.subject(), message).await?.await
        });
        match appended.await {
            Ok(appended) => Ok(appended.sequence),
            Err(error) => Err(format!("cannot append the message of the era: {error}")),
        }
    }

    /// Creates the stream if it is missing. Returns its creation time in milliseconds. Servers that have just
    /// started have no leader yet, or their leader does not see all of them, so this tries again.
    ///
    /// # Errors
    /// The servers refuse it.
    pub(crate) async fn create(
        &self,
        cluster_name: &str,
        replica_count: usize,
        max_bytes: i64,
    ) -> Result<i64, String> {
        if let Ok(TimedInfo { info, .. }) = self.timed_info().await {
            return Ok(milliseconds(info.created.unix_timestamp_nanos()));
        }
        let config = Config {
            name: self.name.clone(),
            subjects: vec![format!("plx.{cluster_name}.log.*"), format!("plx.{cluster_name}.control")],
            num_replicas: replica_count,
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            max_age: MAX_AGE,
            max_bytes,
            deny_delete: true,
            allow_direct: false,
            ..Config::default()
        };
        // The servers answer a second request for the same stream as the first.
        let created = leader::until_stored(leader::pause, leader::is_early, async || {
            self.context.create_stream(config.clone()).await
        });
        let created =
            created.await.map_err(|error| format!("cannot create the stream {}: {error}", self.name))?;
        Ok(milliseconds(created.cached_info().created.unix_timestamp_nanos()))
    }

    /// Writes the era and the position of its message into the metadata of the stream.
    ///
    /// # Errors
    /// The servers refuse it.
    ///
    /// # Panics
    /// Never: an era has no value that JSON cannot express.
    pub(crate) async fn publish_era(&self, era: &Era, position: u64) -> Result<(), String> {
        let metadata = EraMetadata { position, era: era.clone() };
        let text = serde_json::to_string(&metadata).expect("numbers and texts are JSON");
        let mut config = self.timed_info().await?.info.config;
        config.metadata = HashMap::from([(ERA_KEY.to_owned(), text)]);
        let updated = leader::until_stored(leader::pause, leader::is_early, async || {
            self.context.update_stream(&config).await
        });
        let updated = updated.await;
        updated.map(drop).map_err(|error| format!("cannot change the stream {}: {error}", self.name))
    }
}

impl ClusterStream {
    /// Converts a message of the consumer. `None` if it lacks its position.
    pub(crate) fn received(&self, message: &jetstream::Message) -> Option<StreamMessage<MessageBytes>> {
        let info = message.info().ok()?;
        Some(StreamMessage {
            position: info.stream_sequence,
            stream_ms: milliseconds(info.published.unix_timestamp_nanos()),
            sender: self.sender_of(&message.subject),
            bytes: message.payload.clone(),
        })
    }

    fn raw(&self, message: jetstream::message::StreamMessage) -> StreamMessage<MessageBytes> {
        StreamMessage {
            position: message.sequence,
            stream_ms: milliseconds(message.time.unix_timestamp_nanos()),
            sender: self.sender_of(&message.subject),
            bytes: message.payload,
        }
    }
}

fn milliseconds(nanoseconds: i128) -> i64 {
    i64::try_from(nanoseconds.div_euclid(1_000_000)).unwrap_or(i64::MAX)
}
