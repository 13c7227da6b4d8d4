"""A node: one server with its own directories and free ports."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from nats import PATIENCE_SECONDS, eventually

SITE, TOKEN = "fjell", "token-of-the-tests"


class Node:
    """`data`: a directory to start with a copy of. `snapshot`: a file that the node serves.

    The token of the admin address, for an erasure, is TOKEN if the flags set it. `environment` adds variables of the process.
    `is_up` is false while the test has stopped the node, and `life` grows with each start and stop.
    """

    def __init__(self, server, directory, *flags, data=None, snapshot=None, environment=None):
        self.environment = os.environ | (environment or {})
        self.server, self.directory, self.flags = server, Path(directory), flags
        self.name, self.life, self.is_up = self.directory.name, 0, False
        self.directory.mkdir()
        self.snapshots, self.data = self.directory / "snapshots", self.directory / "data"
        self.snapshots.mkdir()
        if data:
            shutil.copytree(data, self.data)
        if snapshot:
            shutil.copy(snapshot, self.snapshots)
        self.start()

    def start(self):
        command = [self.server, "serve", "--snapshots", self.snapshots, "--data", self.data, "--workers", "1",
                   "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *self.flags]
        self.log = self.directory / "log"
        begin = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(word) for word in command], stderr=log, env=self.environment)
        find = lambda text: re.search(text + r" url=http://(\S+)", self.log_text()[begin:])
        self.admin = eventually(f"{self.directory} listens", lambda: self.has_ended() or find("admin address"))[1]
        self.address = eventually(f"{self.directory} serves", lambda: self.has_ended() or find("serving"))[1]
        self.is_up, self.life = True, self.life + 1

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
        return int(self.metrics()[name])

    def wait_for_log(self, text):
        eventually(f"{self.directory} logs {text!r}", lambda: text in self.log_text())

    def get(self, path):
        connection = http.client.HTTPConnection(self.admin, timeout=PATIENCE_SECONDS)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def readiness(self):
        return json.loads(self.get("/readyz"))

    def is_connected(self):
        """Returns whether the node reaches the NATS servers and acknowledges events. A new node is connected before it has joined."""
        readiness = self.readiness()
        return readiness["ready"] and readiness.get("cluster") == "connected"

    def ask(self, path, method="GET", admin=True, body=None):
        """Returns the status and the body of an answer."""
        url = f"http://{self.admin if admin else self.address}{path}"
        headers = {"Authorization": f"Bearer {TOKEN}"} if admin else {"Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def send(self, endpoint, **event):
        """Records an event. Returns its receipt."""
        status, text = self.ask(f"/v1/{endpoint}?site={SITE}", "POST", False, json.dumps(event).encode())
        assert status == 200, (self.name, status, text)
        return json.loads(text)

    def visitor(self, **ids):
        status, text = self.ask(f"/visitors?site={SITE}&{query(ids)}")
        assert status == 200, (self.name, status, text)
        return json.loads(text)

    def events(self, **ids):
        """Returns the numbers of the events in a visitor's profile; None if there is no profile."""
        found = self.visitor(**ids)
        return {name: one["count"] for name, one in found["profile"]["events"].items()} if found["known"] else None

    def export(self, **ids):
        """Returns the events that this node has recorded of a visitor."""
        status, text = self.ask(f"/visitors/export?site={SITE}&{query(ids)}")
        assert status == 200, (self.name, status, text)
        return [json.loads(line)["event"] for line in text.splitlines() if json.loads(line)["event"]]

    def erase(self, **ids):
        status, text = self.ask(f"/visitors?site={SITE}&{query(ids)}", "DELETE")
        return status, json.loads(text)

    def metrics(self):
        """Returns the metrics without labels."""
        lines = (line.split() for line in self.get("/metrics").splitlines() if line[0] != "#" and "{" not in line)
        return {name: float(value) for name, value in lines}

    def freeze(self):
        self.is_up, self.life = False, self.life + 1
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_up, self.life = True, self.life + 1

    def stop(self):
        self.is_up, self.life = False, self.life + 1
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def terminate(self):
        """Stops the server cleanly. A node writes a checkpoint then."""
        self.is_up, self.life = False, self.life + 1
        self.process.terminate()
        self.process.wait()

    def newest_checkpoint(self):
        return max(self.data.glob("*.checkpoint"))

    def restart(self):
        self.stop()
        self.start()


def query(ids):
    return "&".join(f"{name}={text}" for name, text in ids.items())


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
