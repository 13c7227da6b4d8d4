//! The operator's view of a running cluster: the nodes with their newest heartbeats, and `parallax cluster forget`.
//!
//! The command is no node and has no state. It reads the last message of each node, and the heartbeats of the
//! last seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::era::Era;
use super::link::MessageBytes;
use super::message::{Decoder, Encoder, Kind, Message, StreamMessage};
use super::nodes::REACHABLE_MS;
use super::payloads::{Forget, Heartbeat, Hex};
use super::stream::{CONTROL, ClusterStream, StreamInfo};
use crate::clock;
use crate::nats::connect::NatsSettings;

/// Time before the newest message in which heartbeats are read: two of each node.
const HEARTBEATS_SPAN: Duration = Duration::from_secs(25);
/// Time limit of reading them. On a busy stream, the nodes whose heartbeats were not reached are shown without.
const HEARTBEATS_TIMEOUT: Duration = Duration::from_secs(10);

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

/// The newest message of a node, and its newest heartbeat.
#[derive(Debug)]
pub(crate) struct NodeStatus {
    pub(crate) name: String,
    producer: Hex,
    /// Time since the newest message of the node.
    pub(crate) silent_ms: i64,
    /// `None` if none was sent lately.
    pub(crate) heartbeat: Option<Heartbeat>,
}

impl StreamStatus {
    /// Returns the newest position at which all nodes with a recent heartbeat have a mark, and the names of
    /// the nodes for each pair of chain and digest there. `None` if fewer than two nodes have a common mark.
    pub(crate) fn digests(&self) -> Option<(u64, BTreeMap<String, Vec<&str>>)> {
        let heard: Vec<(&str, &Heartbeat)> =
            self.nodes.iter().filter_map(|node| Some((&*node.name, node.heartbeat.as_ref()?))).collect();
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
        let stream = ClusterStream::new(client, cluster_name, CONTROL);
        let StreamInfo { head, era: published, replicas, .. } = stream.info().await?;
        let era_position = published.as_ref().map_or(0, |published| published.position);
        let nodes = nodes(&stream, head.last).await?;
        let era = published.map(|published| published.era);
        let first = head.first;
        let last = head.last;
        Ok(StreamStatus { era, era_position, first, last, replicas, server_version, nodes })
    })
}

/// Returns the nodes that have a message in the stream.
async fn nodes(stream: &ClusterStream, last_position: u64) -> Result<Vec<NodeStatus>, String> {
    let mut decoder = Decoder::new().map_err(|error| format!("cannot decode messages: {error}"))?;
    let mut nodes = Vec::new();
    let mut newest_ms = i64::MIN;
    for (name, message) in stream.last_of_each_node().await? {
        let Ok(decoded) = decoder.decode(&message.bytes) else { continue };
        newest_ms = newest_ms.max(message.stream_ms);
        let producer = Hex(decoded.header.producer_id.0);
        let silent_ms = clock::now_ms().saturating_sub(message.stream_ms).max(0);
        nodes.push(NodeStatus { name, producer, silent_ms, heartbeat: heartbeat_of(&decoded) });
    }
    if !nodes.is_empty() {
        // Without an answer in time, the nodes are shown without these heartbeats.
        let reading = read_heartbeats(stream, newest_ms, last_position, &mut decoder, &mut nodes);
        timeout(HEARTBEATS_TIMEOUT, reading).await.unwrap_or(Ok(()))?;
    }
    Ok(nodes)
}

fn heartbeat_of(message: &Message) -> Option<Heartbeat> {
    serde_json::from_slice(&message.payload).ok().filter(|_| message.header.kind == Kind::Heartbeat)
}

/// Reads the newest heartbeats up to the position `last_position`.
async fn read_heartbeats(
    stream: &ClusterStream,
    newest_message_ms: i64,
    last_position: u64,
    decoder: &mut Decoder,
    nodes: &mut [NodeStatus],
) -> Result<(), String> {
    let since_ms = newest_message_ms.saturating_sub(HEARTBEATS_SPAN.as_millis() as i64);
    let mut note = |message: StreamMessage<MessageBytes>| {
        let beat = decoder.decode(&message.bytes).ok().and_then(|decoded| heartbeat_of(&decoded));
        if let Some(beat) = beat
            && let Some(node) = nodes.iter_mut().find(|node| node.name == beat.node)
        {
            node.heartbeat = Some(beat);
        }
    };
    stream.visit_since(since_ms, last_position, &mut note).await
}

/// Appends the message that forgets a node. Returns its position.
///
/// # Errors
/// The stream has no message of the node, the node still sends, or the servers refuse the message.
pub(crate) fn forget(nats: &NatsSettings, cluster_name: &str, node_name: &str) -> Result<u64, String> {
    run(async {
        let client = nats.connect_once().await?;
        let stream = ClusterStream::new(client, cluster_name, CONTROL);
        let StreamInfo { head, era, .. } = stream.info().await?;
        let era = era.ok_or("the stream has no era, so it has no node to forget")?.era;
        let nodes = nodes(&stream, head.last).await?;
        let Some(node) = nodes.iter().find(|node| node.name == node_name) else {
            let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
            return Err(format!(
                "the stream has no message of a node {node_name}; it has those of {}",
                names.join(", ")
            ));
        };
        if node.silent_ms < REACHABLE_MS {
            return Err(format!(
                "the node {node_name} has sent a message {} s ago; stop it, then try again after {} s",
                node.silent_ms / 1_000,
                REACHABLE_MS / 1_000
            ));
        }
        let predecessors = node.heartbeat.iter().flat_map(|beat| beat.predecessors.iter().copied());
        let forget = Forget { producers: [node.producer].into_iter().chain(predecessors).collect() };
        let (header, payload) = forget.to_message(era.id, clock::now_ms());
        let bytes = Encoder::new().and_then(|mut encoder| encoder.encode(&header, &payload));
        let bytes = bytes.map_err(|error| format!("cannot encode the message: {error}"))?;
        let appended = stream.append(bytes).await?.await;
        appended
            .map(|appended| appended.sequence)
            .map_err(|error| format!("cannot append the message: {error}"))
    })
}
