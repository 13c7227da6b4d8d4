//! The task of the thread `cluster` that connects the log writer with the stream.
//!
//! One session is one connection. When it is lost, when the consumer fails, or when the settings of the servers do not fit, the
//! session ends, and another one begins after a pause. The writer then checks everything again.

use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::Ordered;
use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::connect::NatsSettings;
use super::link::{Command, EventKind, RECEIVED_BYTES_MAX, ThreadLink};
use super::servers;
use super::stream::{ClusterStream, received};

/// Pause between two sessions.
const PAUSE: Duration = Duration::from_millis(500);
/// Interval of looks at the connection. The client notices a cut cable by its pings, within 2 s.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of looks at the end of the stream while no message arrives. A consumer can be on a server that has failed. The client
/// notices this after 30 s, and the session after two looks.
const END_INTERVAL: Duration = Duration::from_secs(2);

/// The settings of a node's sessions.
pub(crate) struct SessionSettings {
    pub(crate) nats: NatsSettings,
    pub(crate) cluster: String,
    pub(crate) node: String,
}

/// The watch over a consumer. It must deliver all messages of the stream.
#[derive(Default)]
struct DeliveryWatch {
    /// The last position that was received.
    position: u64,
    /// The position at the previous look, and the end that the stream had then.
    previous: Option<(u64, u64)>,
}

impl DeliveryWatch {
    /// Takes the present end of the stream. Returns false if the stream had further messages at the previous look already, and none
    /// has arrived since.
    fn look(&mut self, end: u64) -> bool {
        let is_stuck =
            self.previous.is_some_and(|(position, end)| position == self.position && end > position);
        self.previous = Some((self.position, end));
        !is_stuck
    }
}

/// Connects again and again, until the process ends.
pub(crate) async fn run(settings: SessionSettings, mut link: ThreadLink) {
    let mut connection = 0;
    loop {
        connection += 1;
        let ended = match settings.nats.connect_once().await {
            Ok(client) => session(&settings, &client, connection, &mut link).await,
            Err(error) => error,
        };
        link.send(connection, EventKind::Disconnected(ended));
        sleep(PAUSE).await;
    }
}

/// Runs one session. Returns the reason of its end.
async fn session(
    settings: &SessionSettings,
    client: &Client,
    connection: u64,
    link: &mut ThreadLink,
) -> String {
    if let Err(refusal) = servers::check_version(&client.server_info()) {
        return refusal;
    }
    let stream = ClusterStream::new(client.clone(), &settings.cluster, &settings.node);
    match stream.head().await {
        Ok((head, era, _)) => link.send(connection, EventKind::Connected(head, era)),
        Err(error) => return error,
    }
    let (mut messages, mut appends) = (None::<Ordered>, JoinSet::new());
    let (mut looks, mut end_looks) = (interval(LOOK_INTERVAL), interval(END_INTERVAL));
    let mut watch = DeliveryWatch::default();
    loop {
        let has_appends = !appends.is_empty();
        tokio::select! {
            command = link.commands.recv() => match command {
                None => return "the process is stopping".to_owned(),
                Some((of, _)) if of != connection => {}
                Some((_, Command::ReadAt(position))) => match stream.at(position).await {
                    Ok(message) => link.send(connection, EventKind::At(position, message)),
                    Err(error) => return error,
                },
                Some((_, Command::ReadFrom(position))) => match stream.read(position).await {
                    Ok(ordered) => {
                        messages = Some(ordered);
                        watch = DeliveryWatch { position: position.saturating_sub(1), previous: None };
                    },
                    Err(error) => return error,
                },
                // The client sends it. Its acknowledgement is not needed: a lost one makes the node unreachable for the others.
                Some((_, Command::AppendHeartbeat(bytes))) => drop(stream.append(bytes).await),
                Some((_, Command::Append(bytes))) => match stream.append(bytes).await {
                    Ok(acknowledgement) => drop(appends.spawn(async move { acknowledgement.await.is_ok() })),
                    Err(_) => link.send(connection, EventKind::AppendFailed),
                },
            },
            appended = appends.join_next(), if has_appends => {
                let is_appended = matches!(appended, Some(Ok(true)));
                link.send(connection, if is_appended { EventKind::Appended } else { EventKind::AppendFailed });
            },
            message = next(&mut messages), if messages.is_some() => match message {
                Some(Ok(message)) => {
                    let Some(message) = received(&message) else { return "a message lacks its position".to_owned() };
                    watch.position = message.position;
                    let bytes = message.bytes.len().clamp(1, RECEIVED_BYTES_MAX) as u32;
                    let Ok(permit) = link.room.clone().acquire_many_owned(bytes).await else {
                        return "the process is stopping".to_owned();
                    };
                    link.send(connection, EventKind::Message(message, permit));
                },
                Some(Err(error)) => return format!("cannot read the stream: {error}"),
                None => return "the consumer of the stream has ended".to_owned(),
            },
            _ = end_looks.tick(), if messages.is_some() => match stream.head().await {
                Ok((head, ..)) if watch.look(head.last) => {},
                Ok(_) => return "the consumer of the stream delivers nothing".to_owned(),
                Err(error) => return error,
            },
            _ = looks.tick() => if client.connection_state() != State::Connected {
                return "the connection to NATS is lost".to_owned();
            },
        }
    }
}

async fn next(
    messages: &mut Option<Ordered>,
) -> Option<Result<async_nats::jetstream::Message, async_nats::jetstream::consumer::pull::OrderedError>> {
    messages.as_mut()?.next().await
}
