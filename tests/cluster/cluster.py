"""Three nodes and three NATS servers on loopback, and a load."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nats
from link import Link
from load import BATCH, Load
from nats import eventually
from node import Node
from promises import check_load, check_profiles, is_connected, wait_until_equal

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


class Cluster:
    """The third node reaches the NATS servers through a link, which a test can cut."""

    def __init__(self, server, stack, rate):
        self.server, self.stack = server, stack
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (self.directory / "nats").mkdir()
        self.servers = nats.Servers(nats.install(TARGET / "cluster/venv", HERE / "requirements.txt"), self.directory / "nats")
        stack.callback(self.servers.stop)
        self.link = Link(self.servers.clients)
        self.secret, self.era, self.snapshot = (self.directory / name for name in ("secret", "era.checkpoint", "demo.snapshot"))
        self.secret.write_bytes(os.urandom(32))
        self.secret.chmod(0o600)
        self.command("compile", ROOT / "snapshots/demo", "-o", self.snapshot)
        (self.directory / "empty").mkdir()
        self.begin_era(self.directory / "empty")
        direct, linked = self.servers.clients, self.link.ports
        self.nodes = [self.start(name, name, ports) for name, ports in (("a", direct), ("b", direct), ("c", linked))]
        for node in self.nodes:
            eventually(f"{node.name} is connected", lambda: is_connected(node))
        self.load, self.checked = Load(self.nodes, rate), 0

    def command(self, *words):
        done = subprocess.run([self.server, *words], capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)

    def begin_era(self, data):
        """Begins an era with the content of a data directory. All nodes have its file as --bootstrap, and need a restart."""
        self.command("cluster", "new-era", "--from", data, "-o", self.era, "--max-bytes", "2GiB",
                     "--cluster", nats.addresses(self.servers.clients), "--cluster-secret", self.secret)

    def start(self, directory, name, ports, data=None):
        """Starts a node with an empty data directory, or with a copy of `data`."""
        monitors = ",".join(f"http://127.0.0.1:{port}" for port in self.servers.monitors)
        flags = ["--cluster", nats.addresses(ports), "--node", name, "--cluster-secret", self.secret, "--cluster-monitor", monitors]
        start = [] if data else ["--bootstrap", self.era]
        node = Node(self.server, self.directory / directory, *flags, *start, data=data, snapshot=self.snapshot)
        self.stack.callback(node.stop)
        return node

    def check(self, what, rate, may_be_lost=frozenset()):
        """Checks all promises for the events since the last check. Returns the number of lost events."""
        backlog, equal = wait_until_equal(self.nodes)
        first, end, load = self.checked, self.load.events(), self.load
        visitors, lost = check_profiles(self.nodes, range(first, end), may_be_lost)
        check_load(load)
        batches = [load.acknowledged[batch] for batch in range(first // BATCH, end // BATCH)]
        visible = sum(is_visible for receipts in batches for _, is_visible in receipts) / sum(map(len, batches))
        print(f"{what}: {end - first:,} events at {rate:,.0f} per second, {visible:.1%} of the receipts visible; returned after {backlog:.1f} s, "
              f"then equal after {equal:.1f} s; {lost} lost, 0 twice of {visitors:,} visitors on {len(self.nodes)} nodes; "
              f"{load.checks:,} reads of visible events, 0 misses; {load.pages:,} pages; "
              f"slowest receipt {load.slowest['event']:.2f} s, page {load.slowest['page']:.2f} s", flush=True)
        self.checked = end
        load.reset_figures()
        return lost

    def print_logs(self):
        for log in sorted(self.directory.glob("*/log")):
            print(f"--- {log.parent.name}\n{log.read_text()[-4000:]}", file=sys.stderr)
