//! The operator's view of a running cluster: the members with their present positions, and `parallax cluster forget`.
//!
//! The command is no node and has no state. It sends a status request, which each node answers with a heartbeat. If its user
//! may not send, it shows the last heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::era::Era;
use super::link::MessageBytes;
use super::members::REACHABLE_MS;
use super::message::{Decoder, Encoder, Header, Kind, Message, Sender, StreamMessage};
use super::payloads::{Forget, Heartbeat, Hex, MemberSummary, STATUS_REQUEST, control_header};
use super::stream::{ClusterStream, StreamInfo};
use crate::clock;
use crate::nats::connect::NatsSettings;

/// Time before the newest message in which heartbeats are read: two of each node.
const HEARTBEATS_SPAN: Duration = Duration::from_secs(25);
/// Time limit of reading them. On a busy stream, the nodes whose heartbeats were not reached are shown without.
const HEARTBEATS_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which nodes can answer a status request. A node that catches up answers later, and is shown with an earlier
/// heartbeat.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of the stream, for `cluster status`.
#[derive(Debug)]
pub(crate) struct StreamStatus {
    pub(crate) era: Option<Era>,
    pub(crate) era_position: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) replicas: usize,
    pub(crate) server_version: String,
    pub(crate) nodes: Vec<NodeStatus>,
}

/// A node: a member, or the sender of messages that the stream has.
#[derive(Debug)]
pub(crate) struct NodeStatus {
    pub(crate) name: String,
    /// The instance of the member. `None` for a node that is no member.
    pub(crate) member: Option<Hex>,
    /// Time since the newest message of the node.
    pub(crate) silent_ms: i64,
    pub(crate) heartbeat: Option<HeardHeartbeat>,
}

/// A heartbeat that was read lately.
#[derive(Debug)]
pub(crate) struct HeardHeartbeat {
    pub(crate) heartbeat: Heartbeat,
    /// The number of messages that the node had not read when it sent the heartbeat.
    pub(crate) behind: u64,
    position: u64,
}

/// The era that a new one replaces, and the nodes that would lose it.
#[derive(Debug)]
pub(crate) struct PresentEra {
    /// The ID of the era, in hex: that of the stream, else that of the data directory.
    pub(crate) id: Option<String>,
    /// True if the stream has the era.
    pub(crate) is_in_stream: bool,
    pub(crate) nodes: Vec<NodeStatus>,
}

impl StreamStatus {
    /// Returns the members that run. A heartbeat from before a node was stopped has no mark in common with later ones.
    fn running_members(&self) -> impl Iterator<Item = &NodeStatus> {
        self.nodes.iter().filter(|node| node.member.is_some() && node.silent_ms < REACHABLE_MS)
    }

    /// Returns the newest position at which all members that were heard within 30 s have a mark, and the names of
    /// the nodes for each pair of chain and digest there. `None` if fewer than two nodes have a common mark.
    pub(crate) fn digests(&self) -> Option<(u64, BTreeMap<String, Vec<&str>>)> {
        let running = self.running_members();
        let heard: Vec<(&str, &Heartbeat)> =
            running.filter_map(|node| Some((&*node.name, &node.heartbeat.as_ref()?.heartbeat))).collect();
        let (_, first) = heard.first().filter(|_| heard.len() > 1)?;
        let mark_at =
            |beat: &Heartbeat, position| beat.marks.iter().find(|mark| mark.position == position).copied();
        let is_common = |position: &u64| heard.iter().all(|(_, beat)| mark_at(beat, *position).is_some());
        let position = first.marks.iter().rev().map(|mark| mark.position).find(is_common)?;
        let mut groups = BTreeMap::<String, Vec<&str>>::new();
        for (name, beat) in heard {
            let Some(mark) = mark_at(beat, position) else { continue };
            let [chain, digest] = [mark.chain, mark.digest].map(|hex| u128::from_be_bytes(hex.0));
            let text = format!("{digest:032x} (chain {:08x})", chain >> 96);
            groups.entry(text).or_default().push(name);
        }
        Some((position, groups))
    }
}

/// Runs a request on an event loop of its own.
fn run<T>(request: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start an event loop: {error}"))?.block_on(request)
}

/// Asks the servers for the state of the stream.
///
/// # Errors
/// No server answers, or the stream does not exist.
pub(crate) fn status(nats: &NatsSettings, cluster_name: &str) -> Result<StreamStatus, String> {
    run(async {
        let client = nats.connect_once().await?;
        let server_version = client.server_info().version;
        let stream = ClusterStream::new(client, cluster_name, Sender::Control);
        let StreamInfo { head, era: published, replicas, .. } = stream.info().await?;
        let era_position = published.as_ref().map_or(0, |published| published.position);
        let era = published.map(|published| published.era);
        let mut nodes = Nodes::read(&stream, head.last).await?;
        if let Some(era) = &era {
            nodes.ask(&stream, era).await?;
        }
        let last = nodes.last_position.max(head.last);
        let nodes = nodes.list();
        Ok(StreamStatus { era, era_position, first: head.first, last, replicas, server_version, nodes })
    })
}

/// Returns the era of a stream, or of a directory if the stream has none.
///
/// # Errors
/// The stream cannot be read.
pub(crate) async fn present_era(
    stream: &ClusterStream,
    directory_era: Option<Era>,
) -> Result<PresentEra, String> {
    let info = stream.info_if_present().await?;
    let nodes = match &info {
        Some(info) => Nodes::read(stream, info.head.last).await?.list(),
        None => Vec::new(),
    };
    let in_stream = info.and_then(|info| info.era).map(|published| published.era);
    let is_in_stream = in_stream.is_some();
    let era = in_stream.or(directory_era);
    let id = era.map(|era| format!("{:032x}", u128::from_be_bytes(era.id.0)));
    Ok(PresentEra { id, is_in_stream, nodes })
}

/// The nodes of a stream, as they are read from it.
struct Nodes {
    decoder: Decoder,
    nodes: BTreeMap<String, NodeStatus>,
    last_position: u64,
}

impl Nodes {
    /// Reads the newest message of each node, and the heartbeats of the last seconds.
    async fn read(stream: &ClusterStream, last_position: u64) -> Result<Self, String> {
        let decoder = Decoder::new().map_err(|error| format!("cannot decode messages: {error}"))?;
        let mut nodes = Self { decoder, nodes: BTreeMap::new(), last_position };
        let mut newest_ms = i64::MIN;
        for (_, message) in stream.last_of_each_node().await? {
            newest_ms = newest_ms.max(message.stream_ms);
            nodes.note(&message);
        }
        if !nodes.nodes.is_empty() {
            let since_ms = newest_ms.saturating_sub(HEARTBEATS_SPAN.as_millis() as i64);
            let mut note = |message| nodes.note(&message);
            // Without an answer in time, the nodes are shown without these heartbeats.
            let reading = stream.visit_since(since_ms, last_position, &mut note);
            timeout(HEARTBEATS_TIMEOUT, reading).await.unwrap_or(Ok(()))?;
        }
        Ok(nodes)
    }

    /// Asks all nodes for a heartbeat, and reads the answers.
    async fn ask(&mut self, stream: &ClusterStream, era: &Era) -> Result<(), String> {
        let header = control_header(Kind::StatusRequest, era.id, clock::now_ms());
        // A user without the permission to send gets no acknowledgement.
        let Ok(position) = append(stream, &header, STATUS_REQUEST).await else { return Ok(()) };
        let mut note = |message| {
            self.note(&message);
            !self.has_answers_after(position)
        };
        timeout(ANSWERS_TIMEOUT, stream.visit_from(position, &mut note)).await.unwrap_or(Ok(()))
    }

    /// Returns whether each node that was heard lately has sent a heartbeat after a position.
    fn has_answers_after(&self, position: u64) -> bool {
        let is_missing = |node: &NodeStatus| {
            let has_answered = node.heartbeat.as_ref().is_some_and(|heard| heard.position > position);
            node.silent_ms < REACHABLE_MS && !has_answered
        };
        !self.nodes.values().any(is_missing)
    }

    /// Notes a message of a node.
    fn note(&mut self, message: &StreamMessage<MessageBytes>) {
        self.last_position = self.last_position.max(message.position);
        let Sender::Node(name) = &message.sender else { return };
        let Ok(decoded) = self.decoder.decode(&message.bytes) else { return };
        let silent_ms = clock::now_ms().saturating_sub(message.stream_ms).max(0);
        let new = || NodeStatus { name: name.clone(), member: None, silent_ms, heartbeat: None };
        let node = self.nodes.entry(name.clone()).or_insert_with(new);
        node.silent_ms = node.silent_ms.min(silent_ms);
        if let Some(heartbeat) = heartbeat_of(&decoded).filter(|heartbeat| heartbeat.node == *name) {
            let behind = (message.position - 1).saturating_sub(heartbeat.position);
            node.heartbeat = Some(HeardHeartbeat { heartbeat, behind, position: message.position });
        }
    }

    /// Returns all nodes. The members are those of the newest heartbeat.
    fn list(mut self) -> Vec<NodeStatus> {
        let newest = self.nodes.values().filter_map(|node| node.heartbeat.as_ref());
        let newest = newest.max_by_key(|heard| heard.position);
        let members: Vec<MemberSummary> =
            newest.map_or_else(Vec::new, |heard| heard.heartbeat.members.clone());
        for member in members {
            let silent_ms = clock::now_ms().saturating_sub(member.heard_ms).max(0);
            let name = member.name.clone();
            let new = || NodeStatus { name, member: None, silent_ms, heartbeat: None };
            self.nodes.entry(member.name).or_insert_with(new).member = Some(member.instance);
        }
        self.nodes.into_values().collect()
    }
}

fn heartbeat_of(message: &Message) -> Option<Heartbeat> {
    serde_json::from_slice(&message.payload).ok().filter(|_| message.header.kind == Kind::Heartbeat)
}

/// Appends a message of the operator. Returns its position.
async fn append(stream: &ClusterStream, header: &Header, payload: &[u8]) -> Result<u64, String> {
    let bytes = Encoder::new().and_then(|mut encoder| encoder.encode(header, payload));
    let bytes = bytes.map_err(|error| format!("cannot encode the message: {error}"))?;
    let appended = stream.append(bytes).await?.await;
    appended.map(|appended| appended.sequence).map_err(|error| format!("cannot append the message: {error}"))
}

/// Appends the message that removes a member. Returns its position.
///
/// # Errors
/// The cluster has no such member, the node still sends, or the servers refuse the message.
pub(crate) fn forget(nats: &NatsSettings, cluster_name: &str, node_name: &str) -> Result<u64, String> {
    run(async {
        let client = nats.connect_once().await?;
        let stream = ClusterStream::new(client, cluster_name, Sender::Control);
        let StreamInfo { head, era, .. } = stream.info().await?;
        let era = era.ok_or("the stream has no era, so it has no member to remove")?.era;
        let nodes = Nodes::read(&stream, head.last).await?.list();
        let members = || nodes.iter().filter(|node| node.member.is_some());
        let Some(node) = members().find(|node| node.name == node_name) else {
            let names: Vec<&str> = members().map(|node| &*node.name).collect();
            return Err(match names.is_empty() {
                true => "no node has reported the members lately; start one, then try again".to_owned(),
                false => format!("the cluster has no member {node_name}; it has {}", names.join(", ")),
            });
        };
        if node.silent_ms < REACHABLE_MS {
            return Err(format!(
                "the node {node_name} has sent a message {} s ago; stop it, then try again after {} s",
                node.silent_ms / 1_000,
                REACHABLE_MS / 1_000
            ));
        }
        let (header, payload) = Forget { node: node_name.to_owned() }.to_message(era.id, clock::now_ms());
        append(&stream, &header, &payload).await
    })
}
