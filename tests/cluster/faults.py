"""The faults. Each function causes one under load, ends it, and checks the promises."""

import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass

from nats import eventually
from node import Node
from promises import UNRETURNED, events_of, wait_until_equal


@dataclass
class Scale:
    """Events per second, and times of load in seconds: of most faults, of a node that is cut off, of all NATS servers away. `whole`
    limits the whole run. `returns`: how often the servers return after that; they fail again while the nodes send their backlog."""

    rate: int
    fault: float
    cut: float
    away: float
    whole: int
    returns: int


QUICK, LONG = Scale(200, 1.5, 4, 4, 300, 1), Scale(2_000, 10, 60, 600, 2_400, 2)
# A load balancer needs this time to see that a node does not answer.
NOTICED_SECONDS = 0.5
# Time limit for a new instance under a name that was heard.
NAME_SECONDS = 90
# Time limit of the backlog after the NATS servers are back.
DRAINED_SECONDS = 60
NEW_IDS = "parallax_cluster_new_producer_ids_total"


@contextmanager
def out_of_service(load, node):
    """Takes a node out of the load soon after the fault began, and in again at the end."""
    load.go_on(NOTICED_SECONDS)
    load.nodes.remove(node)
    yield
    load.nodes.append(node)


def no_fault(cluster, scale):
    cluster.check("no fault", cluster.load.run(scale.fault))


def each_node(cluster, scale, fault, begin, end):
    """Causes a fault of each node in turn."""
    for node in list(cluster.nodes):
        cluster.load.resume()
        cluster.load.go_on(scale.fault / 2)
        begin(node)
        with out_of_service(cluster.load, node):
            cluster.load.go_on(scale.fault)
            end(node)
        cluster.load.go_on(scale.fault / 2)
        cluster.check(f"{fault} of node {node.name}", cluster.load.pause())


def kill_nodes(cluster, scale):
    each_node(cluster, scale, "kill -9", Node.stop, Node.start)


def stop_nodes(cluster, scale):
    each_node(cluster, scale, "SIGSTOP", Node.freeze, Node.thaw)


def kill_nats_servers(cluster, scale):
    """kill -9 of each NATS server in turn. One of them leads the stream."""
    cluster.load.resume()
    for number in range(3):
        cluster.servers.kill(number)
        cluster.load.go_on(scale.fault)
        cluster.servers.start(number)
        eventually(f"NATS server {number} is healthy", lambda: cluster.servers.is_healthy(number))
    cluster.check("kill -9 of each NATS server", cluster.load.pause())


def cut_off(cluster, scale):
    """One node does not reach the NATS servers."""
    cluster.load.resume()
    cluster.load.go_on(scale.fault / 2)
    cluster.link.cut()
    cluster.load.go_on(scale.cut)
    cluster.link.join()
    cluster.load.go_on(scale.fault / 2)
    cluster.check(f"node c cut off for {scale.cut} s", cluster.load.pause())


def copy_of(cluster, node, name):
    """Copies the data directory of a running node, as docs/operating.md says. `cp` may complain about a file that has vanished."""
    copy = cluster.directory / name
    subprocess.run(["cp", "-r", node.data, copy], stderr=subprocess.DEVNULL)
    return copy


def restored(cluster, scale):
    """A disk is lost, together with records that the node could not forward, and restored from an older backup."""
    load, node = cluster.load, cluster.nodes[2]
    load.resume()
    load.go_on(scale.fault / 2)
    backup = copy_of(cluster, node, "backup")
    load.go_on(scale.fault)
    cluster.link.cut()
    eventually("node c is alone", lambda: node.readiness()["cluster"].startswith("alone"))
    load.go_on(scale.fault / 2)
    rate = load.pause()
    unforwarded = node.metrics()[UNRETURNED]
    node.stop()
    # Those of the events that no other node has.
    alone = [batch for batch, receipts in load.acknowledged.items() if set(receipts) == {(node, False)}]
    node.data.rename(cluster.directory / "lost")
    cluster.command("restore", backup, node.data)
    cluster.link.join()
    node.start()
    load.run(scale.fault)
    lost = cluster.check("node c restored from a backup", rate, events_of(alone))
    assert 0 < unforwarded and lost <= unforwarded, (unforwarded, lost)
    print(f"  {unforwarded:.0f} records of node c had not returned when its disk was lost; {lost} events are lost, each of them one of these; "
          f"{node.metrics()[NEW_IDS]:.0f} new producer ID")


def copied(cluster, scale):
    """A machine is copied while it runs. The copy gets another name, and both go on."""
    load, original = cluster.load, cluster.nodes[1]
    load.resume()
    load.go_on(scale.fault / 2)
    data = copy_of(cluster, original, "image")
    copy = cluster.start("copy", data=data)
    # It acknowledges nothing before it is a member under its own name.
    eventually("the copy has joined", lambda: copy.readiness()["ready"])
    cluster.nodes.append(copy)
    load.nodes.append(copy)
    load.go_on(scale.fault)
    cluster.check("machine of node b copied", load.pause())
    new_ids = {node.directory.name: node.metrics()[NEW_IDS] for node in (original, copy)}
    assert sum(new_ids.values()) >= 1, new_ids
    print(f"  new producer IDs: {new_ids}")
    cluster.nodes.remove(copy)
    load.nodes.remove(copy)
    copy.stop()


def destroyed(cluster, scale):
    """A disk is destroyed. The other nodes have its events, and its node begins again with a backup of another node, which runs."""
    load, (a, _, c) = cluster.load, cluster.nodes
    load.resume()
    load.go_on(scale.fault)
    load.nodes.remove(c)
    eventually("the records of node c return", lambda: c.metrics()[UNRETURNED] == 0)
    c.stop()
    shutil.rmtree(c.data)
    load.go_on(scale.fault / 2)
    backups = cluster.directory / "backups"
    backups.mkdir()
    cluster.command("backup", a.data, backups)
    c.data.mkdir()
    cluster.join_by_copy(next(backups.glob("2*")), c.data)
    c.start()
    # The name is free after 30 s of silence.
    eventually("node c has joined", c.is_connected, NAME_SECONDS)
    load.nodes.append(c)
    load.go_on(scale.fault / 2)
    cluster.check("disk of node c destroyed", load.pause())


def fallen_behind(cluster, scale):
    """A node is away for longer than the stream keeps messages, and continues from the files of another node."""
    load, (a, b, c) = cluster.load, cluster.nodes
    load.nodes.remove(c)
    c.stop()
    load.run(scale.fault)
    wait_until_equal([a, b])
    b.terminate()
    cluster.join_by_copy(b.data, c.data)
    b.start()
    # More messages than can follow the checkpoint, and fewer than node c lacks.
    answer = cluster.servers.request("$JS.API.STREAM.PURGE.PLX_parallax", {"keep": 10})
    assert answer.get("success"), answer
    c.start()
    load.nodes.append(c)
    cluster.check("node c away for longer than the stream keeps messages", load.run(scale.fault))


def lost_stream(cluster, scale):
    """The stream is lost. A new era begins with the content of one node, while the others go on."""
    load, first = cluster.load, cluster.nodes[0]
    load.resume()
    load.go_on(scale.fault / 2)
    cluster.servers.lose_streams()
    load.go_on(scale.fault)
    for node in list(cluster.nodes):
        load.nodes.remove(node)
        node.terminate()
        if node is first:
            cluster.begin_era(node.data)
        node.start()
        eventually(f"{node.name} is connected", node.is_connected)
        load.nodes.append(node)
    load.go_on(scale.fault / 2)
    cluster.check("all streams lost and a new era begun", load.pause())


def is_drained(node):
    metrics = node.metrics()
    delays = [metrics[f"parallax_cluster_{name}_seconds"] for name in ("unreturned", "lag")]
    return metrics["parallax_cluster_connected"] == 1 and max(delays) < 1


def nats_away(cluster, scale):
    """All NATS servers are away. The load goes on throughout, also while the nodes work off the backlog.

    In the long form the backlog does not fit into the memory of the nodes, so they read it from their logs.
    """
    cluster.load.resume()
    cluster.load.go_on(scale.fault / 2)
    cluster.servers.stop()
    cluster.load.go_on(scale.away)
    backlogs = [node.metrics() for node in cluster.nodes]
    for again in reversed(range(scale.returns)):
        begun = time.monotonic()
        cluster.servers.start_all()
        for number in range(3):
            eventually(f"NATS server {number} is healthy", lambda: cluster.servers.is_healthy(number))
        back = time.monotonic()
        if again:
            for node in cluster.nodes:
                eventually(f"{node.name} is connected", node.is_connected)
            cluster.servers.stop()
    for node in cluster.nodes:
        eventually(f"{node.name} has no backlog", lambda: is_drained(node), DRAINED_SECONDS)
    drained = time.monotonic()
    cluster.check(f"all NATS servers away for {scale.away} s", cluster.load.pause())
    print(f"  backlog {[round(metrics[UNRETURNED]) for metrics in backlogs]} records, "
          f"{[round(metrics['parallax_cluster_unreturned_bytes'] / 1e6) for metrics in backlogs]} MB in memory; drained {drained - back:.1f} s after "
          f"the servers were healthy, {drained - begun:.1f} s after their start, under the load")


ALL = [no_fault, kill_nodes, stop_nodes, kill_nats_servers, cut_off, restored, copied, destroyed, fallen_behind, lost_stream, nats_away]
