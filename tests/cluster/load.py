"""A load of events and pages on all nodes, and a record of each acknowledgement.

Event `n` has the message ID `m<n>` and the name `e<n>`, and belongs to one visitor. So the profile of a visitor shows for each event how
often it was counted. One event of each visitor is an identify. It joins two visitors, and both write the same trait, so the order of
their events changes the profile. Every batch is sent until a node acknowledges it, and one in 20 is then sent to another node too.
"""

import http.client
import json
import random
import threading
import time

BATCH, WINDOW, EVENTS_OF_VISITOR, IDENTIFY_AT = 10, 200, 30, 8
SENDERS, REQUEST_SECONDS, PAGES_PER_SECOND = 24, 5, 30
SITE, TRACKING_ID = "fjell", "track_demo"


def visitor_of(event):
    return event // (WINDOW * EVENTS_OF_VISITOR) * WINDOW + event % WINDOW


def index_of(event):
    """Returns the number of the event among those of its visitor."""
    return event // WINDOW % EVENTS_OF_VISITOR


def is_counted(event):
    """An identify is in no history of the profile."""
    return index_of(event) != IDENTIFY_AT


def to_json(event):
    visitor = visitor_of(event)
    common = {"anonId": f"v{visitor}", "messageId": f"m{event}"}
    if is_counted(event):
        return common | {"type": "track", "event": f"e{event}"}
    return common | {"type": "identify", "userId": f"u{visitor // 2}", "traits": {"last": event}}


class Client:
    """A connection to each node. A request fails with OSError if the node does not answer."""

    def __init__(self):
        self.connections = {}

    def request(self, address, method, path, body=None):
        if used := self.connections.pop(address, None):
            try:
                return self.exchange(address, used, method, path, body)
            except ConnectionError:
                # The server closes a connection that was idle for 75 s.
                pass
        return self.exchange(address, http.client.HTTPConnection(address, timeout=REQUEST_SECONDS), method, path, body)

    def exchange(self, address, connection, method, path, body):
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            answer = response.status, response.read()
        except http.client.HTTPException as error:
            connection.close()
            raise ConnectionError(f"{address}: {error}") from error
        except OSError:
            connection.close()
            raise
        self.connections[address] = connection
        return answer

    def json(self, address, path):
        status, body = self.request(address, "GET", path)
        return status, json.loads(body)

    def profile(self, node, visitor):
        """Returns the parts of a profile that do not depend on the time of the request. None: the visitor is unknown."""
        _, found = self.json(node.admin, f"/visitors?site={SITE}&anonId=v{visitor}")
        profile = found["profile"]
        return {"events": profile["events"], "traits": profile["traits"], "aliases": found["aliases"]} if found["known"] else None


class Load:
    """Sends `rate` events per second. `nodes` are those that get the load."""

    def __init__(self, nodes, rate):
        self.nodes, self.rate = list(nodes), rate
        self.lock, self.is_running, self.is_over = threading.Lock(), False, False
        self.progress = threading.Condition(self.lock)
        self.next_batch = self.busy = 0
        self.acknowledged = {}  # batch: a list of (node, visible)
        self.failures, self.page_failures, self.misses = [], [], []
        self.reset_figures()
        for work in [self.send_events] * SENDERS + [self.read_pages]:
            threading.Thread(target=work, daemon=True).start()

    def reset_figures(self):
        self.pages = self.checks = 0
        self.slowest = {"event": 0, "page": 0}

    def events(self):
        """Returns the number of events so far."""
        return self.next_batch * BATCH

    def resume(self):
        self.begun, self.first = time.monotonic(), self.next_batch
        self.is_running = True

    def pause(self):
        """Stops the load, and waits until each event is acknowledged. Returns the rate that it had."""
        self.is_running = False
        rate = (self.next_batch - self.first) * BATCH / (time.monotonic() - self.begun)
        with self.progress:
            self.progress.wait_for(lambda: self.busy == 0)
        return rate

    def go_on(self, seconds):
        """Returns when as many more batches are acknowledged as are due in this time. A slow machine takes longer for the same load."""
        with self.progress:
            wanted = len(self.acknowledged) + seconds * self.rate / BATCH
            self.progress.wait_for(lambda: len(self.acknowledged) >= wanted)

    def run(self, seconds):
        self.resume()
        self.go_on(seconds)
        return self.pause()

    def take_batch(self):
        """Returns the next batch when it is due. None: not yet."""
        with self.lock:
            due = self.begun + (self.next_batch - self.first) * BATCH / self.rate if self.is_running else None
            if due is None or due > time.monotonic():
                return None
            self.busy += 1
            self.next_batch += 1
            return self.next_batch - 1

    def send_events(self):
        client, dice = Client(), random.Random()
        while not self.is_over:
            batch = self.take_batch()
            if batch is None:
                time.sleep(0.005)
                continue
            while not self.send_batch(client, dice, batch):
                time.sleep(0.05)
            if dice.random() < 0.05:
                self.send_batch(client, dice, batch)
            with self.progress:
                self.busy -= 1
                self.progress.notify_all()

    def send_batch(self, client, dice, batch):
        """Sends a batch to any node. Returns whether it was acknowledged."""
        node = dice.choice(self.nodes)
        life, begun = node.life, time.monotonic()
        events = range(batch * BATCH, (batch + 1) * BATCH)
        body = json.dumps({"trackingId": TRACKING_ID, "batch": [to_json(event) for event in events]})
        try:
            status, answer = client.request(node.address, "POST", "/v1/batch", body)
        except OSError as error:
            return self.fail(self.failures, node, life, str(error))
        receipt = json.loads(answer)
        if status != 200 or receipt["accepted"] + receipt["duplicates"] != BATCH:
            return self.fail(self.failures, node, life, f"{status} {receipt}")
        self.slow("event", node, life, begun)
        with self.progress:
            self.acknowledged.setdefault(batch, []).append((node, receipt["visible"]))
            self.progress.notify_all()
        if receipt["visible"] and dice.random() < 0.3:
            self.check_visible(client, node, life, dice.choice([event for event in events if is_counted(event)] or [None]))
        return True

    def check_visible(self, client, node, life, event):
        """An event whose receipt says `visible` is in the profile at the same node."""
        if event is None:
            return
        try:
            profile = client.profile(node, visitor_of(event))
        except OSError as error:
            self.fail(self.failures, node, life, str(error))
            return
        self.checks += 1
        if profile is None or profile["events"].get(f"e{event}", {}).get("count") != 1:
            self.misses.append((node.name, event, profile))

    def read_pages(self):
        client, dice = Client(), random.Random()
        while not self.is_over:
            time.sleep(1 / PAGES_PER_SECOND)
            if not self.is_running:
                continue
            node = dice.choice(self.nodes)
            life, begun = node.life, time.monotonic()
            path = f"/v1/resolve?site={SITE}&route=/&anonId=v{visitor_of(max(self.events() - BATCH, 0))}"
            try:
                status, _ = client.request(node.address, "GET", path)
            except OSError as error:
                self.fail(self.page_failures, node, life, str(error))
                continue
            self.pages += 1
            if status != 200:
                self.page_failures.append(f"{node.name}: {status}")
            self.slow("page", node, life, begun)

    def fail(self, failures, node, life, text):
        """Notes a failure, unless the test has stopped the node. Returns False: not acknowledged."""
        if node.is_up and node.life == life:
            failures.append(f"{node.name}: {text}")
        return False

    def slow(self, kind, node, life, begun):
        """Notes the longest time of an answer, without those of a node that the test has stopped."""
        if node.is_up and node.life == life:
            self.slowest[kind] = max(self.slowest[kind], time.monotonic() - begun)
