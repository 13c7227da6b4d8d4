"""The promises of a cluster, checked on all nodes: nothing acknowledged is lost, nothing counts twice, and all profiles are equal."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from load import BATCH, Client, is_counted, visitor_of
from nats import eventually

# After the backlog, and for the backlog itself.
EQUAL_SECONDS, BACKLOG_SECONDS = 10, 120
UNRETURNED = "parallax_cluster_unreturned_records"


def wait_until_equal(nodes):
    """Waits for the backlog, and then for equal positions. Returns both times, in seconds."""
    begun = time.monotonic()
    for node in nodes:
        eventually(f"{node.name} is connected", node.is_connected, BACKLOG_SECONDS)
        eventually(f"the records of {node.name} return", lambda: node.metrics()[UNRETURNED] == 0, BACKLOG_SECONDS)
    backlog = time.monotonic() - begun
    eventually("equal positions", lambda: len({node.readiness()["position"] for node in nodes}) == 1, EQUAL_SECONDS)
    return backlog, time.monotonic() - begun - backlog


def read_profiles(node, visitors):
    client = Client()
    return [json.dumps(client.profile(node, visitor), sort_keys=True) for visitor in visitors]


def check_profiles(nodes, events, may_be_lost=frozenset()):
    """Reads the profile of each visitor of the events on each node. Returns the numbers of visitors and of lost events.

    An event of `may_be_lost` is counted once or not at all, all others exactly once.
    """
    visitors = sorted({visitor_of(event) for event in events})
    with ThreadPoolExecutor(len(nodes)) as pool:
        profiles = list(pool.map(lambda node: read_profiles(node, visitors), nodes))
    for visitor, views in zip(visitors, zip(*profiles)):
        assert len(set(views)) == 1, f"the profiles of visitor {visitor} differ: {dict(zip([node.name for node in nodes], views))}"
    texts = dict(zip(visitors, profiles[0]))
    histories = {visitor: (json.loads(text) or {"events": {}})["events"] for visitor, text in texts.items()}
    lost = set()
    for event in events:
        entry = histories[visitor_of(event)].get(f"e{event}") if is_counted(event) else None
        count = entry["count"] if entry else 0
        if is_counted(event) and count != 1:
            assert count == 0 and event in may_be_lost, f"event {event} of visitor {visitor_of(event)} is counted {count} times"
            lost.add(event)
    return len(visitors), len(lost)


def check_logs(export, nodes, events, may_be_lost=frozenset()):
    """Compares the logs of all nodes: they have the same records with the same seqs, and each event once. `export` reads a data directory.

    A node makes its last records durable within a second.
    """
    equal = lambda: len(logs := {export(node.data) for node in nodes}) == 1 and logs.pop()
    records = [json.loads(line) for line in eventually("equal logs", equal, EQUAL_SECONDS).splitlines()]
    counts = Counter(record["messageId"] for record in records)
    assert max(counts.values(), default=1) == 1, f"records with one message ID: {counts.most_common(3)}"
    lost = [event for event in events if f"m{event}" not in counts]
    assert set(lost) <= set(may_be_lost), f"{len(lost)} events are in no log: {lost[:10]}"
    return len(records), len(lost)


def check_load(load):
    """Checks the promises to the clients: answers, and events that a receipt calls visible."""
    missing = set(range(load.next_batch)) - set(load.acknowledged)
    assert not missing, f"batches without an acknowledgement: {sorted(missing)[:10]}"
    assert not load.misses, f"{len(load.misses)} of {load.checks} visible events were not in the profile: {load.misses[:3]}"
    assert not load.failures, f"{len(load.failures)} requests of events failed: {load.failures[:3]}"
    assert not load.page_failures, f"{len(load.page_failures)} pages failed: {load.page_failures[:3]}"


def events_of(batches):
    return {event for batch in batches for event in range(batch * BATCH, (batch + 1) * BATCH)}
