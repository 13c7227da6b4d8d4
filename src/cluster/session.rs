//! The task of the thread `cluster` that connects the log writer with the stream.
//!
//! One session is one connection. When it is lost, when the consumer fails, or when the settings of the
//! servers do not fit, the session ends, and another one begins after a pause. The writer then checks
//! everything again.
//!
//! After SIGHUP the session ends when a new client has connected with credentials and certificates as the
//! files have them now. If it cannot, the present session goes on.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedError};
use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::era::EraId;
use super::link::{Command, EventKind, RECEIVED_BYTES_MAX, ThreadLink};
use super::message::Sender;
use super::servers;
use super::stream::ClusterStream;
use crate::nats::connect::{NatsSettings, is_lost};
use crate::nats::thread::RenewalRequests;

/// Pause after a session that failed. If the servers refuse each session at once, a node does not ask them
/// all the time.
const PAUSE: Duration = Duration::from_millis(500);
/// Interval of looks at the connection. The client notices a cut cable by its pings, within 2 s.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of looks at the end of the stream. A consumer can be on a server that has failed. The client
/// notices this after 30 s, and the session after two looks. The lag of the node is known as exactly as this.
const END_INTERVAL: Duration = Duration::from_secs(2);

const STOPPING: &str = "the process is stopping";

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
    /// Takes the present end of the stream. Returns false if the stream had further messages at the previous
    /// look already, and none has arrived since.
    fn look(&mut self, last_position: u64) -> bool {
        let is_stuck =
            self.previous.is_some_and(|(position, last)| position == self.position && last > position);
        self.previous = Some((self.position, last_position));
        !is_stuck
    }
}

/// Connects again and again, until the process ends.
pub(crate) async fn run(settings: SessionSettings, mut link: ThreadLink, mut renewals: RenewalRequests) {
    let mut connection = 0;
    let mut renewed = None;
    loop {
        connection += 1;
        let client = match renewed.take() {
            Some(client) => Ok(client),
            None => {
                // The files are read now.
                renewals.take();
                settings.nats.connect().await
            }
        };
        let ended = match client {
            Ok(client) => Session::new(&settings, client, connection, &mut link).run(&mut renewals).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(client) => renewed = Some(client),
            Err(reason) => {
                link.send(connection, EventKind::Disconnected(reason));
                sleep(PAUSE).await;
            }
        }
    }
}

/// One connection.
struct Session<'a> {
    settings: &'a SessionSettings,
    client: Client,
    stream: ClusterStream,
    /// The number of the connection.
    connection: u64,
    link: &'a mut ThreadLink,
    messages: Option<Ordered>,
    /// The appended messages whose acknowledgements are awaited.
    appends: JoinSet<bool>,
    watch: DeliveryWatch,
    /// The era of the stream at the connection.
    era: Option<EraId>,
    /// The attempts to connect with the renewed files.
    renewing: JoinSet<Result<Client, String>>,
}

impl<'a> Session<'a> {
    fn new(
        settings: &'a SessionSettings,
        client: Client,
        connection_number: u64,
        link: &'a mut ThreadLink,
    ) -> Self {
        let sender = Sender::Node(settings.node.clone());
        let stream = ClusterStream::new(client.clone(), &settings.cluster, sender);
        let messages = None;
        let appends = JoinSet::new();
        let watch = DeliveryWatch::default();
        let renewing = JoinSet::new();
        Self {
            settings,
            client,
            stream,
            connection: connection_number,
            link,
            messages,
            appends,
            watch,
            era: None,
            renewing,
        }
    }

    /// Runs the session. Returns the client of the next one.
    ///
    /// # Errors
    /// The reason for which the session has ended without another client.
    async fn run(mut self, renewals: &mut RenewalRequests) -> Result<Client, String> {
        self.begin().await?;
        let mut looks = interval(LOOK_INTERVAL);
        let mut end_looks = interval(END_INTERVAL);
        loop {
            let has_appends = !self.appends.is_empty();
            let is_reading = self.messages.is_some();
            let is_renewing = !self.renewing.is_empty();
            tokio::select! {
                command = self.link.commands.recv() => match command {
                    None => return Err(STOPPING.to_owned()),
                    Some((of, command)) if of == self.connection => self.on_command(command).await?,
                    Some(_) => {},
                },
                appended = self.appends.join_next(), if has_appends => {
                    let is_appended = matches!(appended, Some(Ok(true)));
                    self.send(if is_appended { EventKind::Appended } else { EventKind::AppendFailed });
                },
                message = next(&mut self.messages), if is_reading => self.on_message(message).await?,
                () = renewals.next() => self.begin_renewal(),
                renewed = self.renewing.join_next(), if is_renewing => match renewed {
                    Some(Ok(Ok(client))) => return Ok(client),
                    Some(Ok(Err(error))) => report_refused_renewal(&error),
                    _ => {},
                },
                _ = end_looks.tick(), if is_reading => self.look_at_end().await?,
                _ = looks.tick() => if is_lost(&self.client) {
                    return Err("the connection to NATS is lost".to_owned());
                },
            }
        }
    }

    fn send(&self, kind: EventKind) {
        self.link.send(self.connection, kind);
    }

    /// Checks the server and the clock, and reports the state of the stream.
    async fn begin(&mut self) -> Result<(), String> {
        servers::check_version(&self.client.server_info())?;
        let info = self.stream.info().await?;
        self.send(EventKind::End(info.end()));
        info.clock.check()?;
        self.era = info.era.as_ref().map(|published| published.era.id);
        self.send(EventKind::Connected(info.head, info.era));
        Ok(())
    }

    /// Connects with the files as they are now, while the session goes on. An attempt that still runs may have
    /// read earlier files, so it ends.
    fn begin_renewal(&mut self) {
        self.renewing = JoinSet::new();
        tracing::info!("connecting to NATS with the credentials and certificates as they are now");
        let nats = self.settings.nats.clone();
        self.renewing.spawn(async move { nats.connect().await });
    }

    async fn on_command(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::ReadAt(position) => {
                let message = self.stream.at(position).await?;
                self.send(EventKind::At(position, message));
            }
            Command::ReadFrom(position) => {
                self.messages = Some(self.stream.read(position).await?);
                self.watch = DeliveryWatch { position: position.saturating_sub(1), previous: None };
            }
            // The client sends it. Its acknowledgement is not needed: a lost one makes the node unreachable
            // for the others.
            Command::AppendHeartbeat(bytes) => drop(self.stream.append(bytes).await),
            Command::Append(bytes) => match self.stream.append(bytes).await {
                Ok(acknowledgement) => {
                    self.appends.spawn(async move { acknowledgement.await.is_ok() });
                }
                Err(_) => self.send(EventKind::AppendFailed),
            },
        }
        Ok(())
    }

    /// Passes a message to the writer. Waits while the queue of the writer is full.
    async fn on_message(&mut self, message: Option<Result<Message, OrderedError>>) -> Result<(), String> {
        let message = message.ok_or("the consumer of the stream has ended")?;
        let message = message.map_err(|error| format!("cannot read the stream: {error}"))?;
        let message = self.stream.received(&message).ok_or("a message lacks its position")?;
        self.watch.position = message.position;
        let bytes = message.bytes.len().clamp(1, RECEIVED_BYTES_MAX) as u32;
        let permit = self.link.room.clone().acquire_many_owned(bytes).await.map_err(|_| STOPPING)?;
        self.send(EventKind::Message(message, permit));
        Ok(())
    }

    async fn look_at_end(&mut self) -> Result<(), String> {
        let info = self.stream.info().await?;
        self.send(EventKind::End(info.end()));
        // The message of an era that a later release began can have an unknown format.
        if info.era.map(|published| published.era.id) != self.era {
            return Err("the stream has another era".to_owned());
        }
        if self.watch.look(info.head.last) {
            return Ok(());
        }
        Err("the consumer of the stream delivers nothing".to_owned())
    }
}

fn report_refused_renewal(error: &str) {
    tracing::error!(
        error,
        "cannot connect to NATS with the credentials and certificates as they are now; the present connection stays"
    );
}

async fn next(messages: &mut Option<Ordered>) -> Option<Result<Message, OrderedError>> {
    messages.as_mut()?.next().await
}
