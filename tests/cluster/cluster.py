"""Nodes and three NATS servers on loopback."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nats
from link import Link
from load import BATCH, Load
from nats import eventually
from node import Node
from promises import check_load, check_logs, check_profiles, wait_until_equal

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


class Cluster:
    """Three NATS servers. `more` is added to their configuration."""

    def __init__(self, server, stack, more=""):
        self.server, self.stack, self.nodes, self.era_id = server, stack, [], None
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (self.directory / "nats").mkdir()
        program = nats.install(TARGET / "cluster/venv", HERE / "requirements.txt")
        self.servers = nats.Servers(program, self.directory / "nats", more=more)
        stack.callback(self.servers.stop)
        self.url = nats.addresses(self.servers.clients)
        self.secret, self.era, self.snapshot = (self.directory / name for name in ("secret", "era.checkpoint", "demo.snapshot"))
        self.secret.write_bytes(os.urandom(32))
        self.secret.chmod(0o600)
        self.command("compile", ROOT / "snapshots/demo", "-o", self.snapshot)
        (self.directory / "empty").mkdir()

    def try_command(self, *words):
        return subprocess.run([str(word) for word in (self.server, *words)], capture_output=True, text=True)

    def command(self, *words):
        """Runs a command of the server's program. Returns its output."""
        done = self.try_command(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def begin_era(self, data=None, *flags):
        """Founds the cluster, or begins another era, with the content of a data directory. All nodes have its file as --bootstrap, and need a restart."""
        words = ["found", *(["--from", data] if data else [])]
        if self.era_id:
            words = ["new-era", "--from", data or self.directory / "empty", "--replace", self.era_id[:8], "--force"]
        output = self.command("cluster", *words, "-o", self.era, "--max-bytes", "2GiB", "--cluster", self.url,
                              "--cluster-secret", self.secret, *flags)
        self.era_id = re.search("era ([0-9a-f]{32})", output)[1]

    def alone(self, name, *flags):
        """Starts a server without a cluster."""
        node = Node(self.server, self.directory / name, *flags, snapshot=self.snapshot)
        self.stack.callback(node.stop)
        return node

    def start(self, name, ports=None, *flags, directory=None, data=None, environment=None):
        """Starts a node with an empty data directory, or with a copy of `data`."""
        monitors = ",".join(f"http://127.0.0.1:{port}" for port in self.servers.monitors)
        address = nats.addresses(ports or self.servers.clients)
        settings = ["--cluster", address, "--node", name, "--cluster-secret", self.secret, "--cluster-monitor", monitors, "--bootstrap", self.era]
        place = self.directory / (directory or name)
        node = Node(self.server, place, *settings, *flags, data=data, snapshot=self.snapshot, environment=environment)
        self.stack.callback(node.stop)
        return node

    def join_by_copy(self, source, target):
        """Gives the data directory of a stopped node the log and the checkpoints of another one, as docs/scaling.md says. Its outbox and its identity
        stay."""
        keep = ("outbox", "node", "replaced")
        for path in target.iterdir():
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(source, target, ignore=lambda _, names: [name for name in names if name in keep], dirs_exist_ok=True)

    def settle(self, nodes=None):
        """Waits until all events of all nodes are in all profiles."""
        wait_until_equal(nodes or self.nodes)

    def print_logs(self):
        for log in sorted(self.directory.glob("*/log")):
            print(f"--- {log.parent.name}\n{log.read_text()[-4000:]}", file=sys.stderr)


class LoadedCluster(Cluster):
    """Three nodes, and a load on them. The third node reaches the NATS servers through a link, which a test can cut."""

    def __init__(self, server, stack, rate):
        super().__init__(server, stack)
        self.link = Link(self.servers.clients)
        self.begin_era()
        self.nodes = [self.start("a"), self.start("b"), self.start("c", self.link.ports)]
        for node in self.nodes:
            eventually(f"{node.name} is connected", node.is_connected)
        self.load, self.checked, self.may_be_lost = Load(self.nodes, rate), 0, frozenset()

    def check(self, what, rate, may_be_lost=frozenset()):
        """Checks all promises for the events since the last check. Returns the number of lost events."""
        backlog, equal = wait_until_equal(self.nodes)
        first, end, load = self.checked, self.load.events(), self.load
        visitors, lost = check_profiles(self.nodes, range(first, end), may_be_lost)
        records, missing = check_logs(lambda data: self.command("export", data), self.nodes, range(end), self.may_be_lost | may_be_lost)
        self.may_be_lost |= may_be_lost
        check_load(load)
        batches = [load.acknowledged[batch] for batch in range(first // BATCH, end // BATCH)]
        visible = sum(is_visible for receipts in batches for _, is_visible in receipts) / sum(map(len, batches))
        print(f"{what}: {end - first:,} events at {rate:,.0f} per second, {visible:.1%} of the receipts visible; returned after {backlog:.1f} s, "
              f"then equal after {equal:.1f} s; {lost} lost, 0 twice of {visitors:,} visitors on {len(self.nodes)} nodes, whose logs have the same {records:,} records and lack {missing}; "
              f"{load.checks:,} reads of visible events, 0 misses; {load.pages:,} pages; "
              f"slowest receipt {load.slowest['event']:.2f} s, page {load.slowest['page']:.2f} s", flush=True)
        self.checked = end
        load.reset_figures()
        return lost
