"""A node: one server that pulls snapshots, with its own directories and free ports."""

import http.client
import re
import signal
import subprocess
import time
from pathlib import Path

from nats import PATIENCE_SECONDS, eventually


class Node:
    def __init__(self, server, directory, *flags):
        self.server, self.directory, self.flags = server, Path(directory), flags
        self.directory.mkdir()
        self.snapshots = self.directory / "snapshots"
        self.snapshots.mkdir()
        self.start()

    def start(self):
        command = [self.server, "serve", "--snapshots", self.snapshots, "--data", self.directory / "data", "--workers", "1",
                   "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *self.flags]
        self.log = self.directory / "log"
        begin = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stderr=log)
        find = lambda text: re.search(text + r" url=http://(\S+)", self.log_text()[begin:])
        self.admin = eventually(f"{self.directory} listens", lambda: self.has_ended() or find("admin address"))[1]
        self.address = eventually(f"{self.directory} serves", lambda: self.has_ended() or find("serving"))[1]

    def has_ended(self):
        if self.process.poll() is not None:
            raise ChildProcessError(self.log_text())

    def log_text(self):
        return re.sub("\x1b\\[[0-9;]*m", "", self.log.read_text())

    def version(self, site):
        """Returns the served version of a site, as `X-Version` says; None if it is not published."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_SECONDS)
        connection.request("GET", f"/v1/routes?site={site}")
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.headers["X-Version"] if response.status == 200 else None

    def names(self):
        return sorted(path.name for path in self.snapshots.iterdir() if not path.name.endswith(".tmp"))

    def counter(self, name):
        connection = http.client.HTTPConnection(self.admin, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search(rf"^{name} (\d+)$", text, re.M)[1])

    def wait_for_log(self, text):
        eventually(f"{self.directory} logs {text!r}", lambda: text in self.log_text())

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self):
        self.stop()
        self.start()


def wait_for_version(nodes, site, version):
    """Waits until all nodes serve the version. Returns the time, in seconds."""
    begin = time.monotonic()
    for node in nodes:
        try:
            eventually(f"{node.directory} serves {version} of {site}", lambda: node.version(site) == version)
        except TimeoutError:
            print(node.log_text()[-4000:])
            raise
    return time.monotonic() - begin
