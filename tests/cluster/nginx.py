"""nginx on loopback with the file of packaging/cluster/, and the addresses of its clients."""

import http.client
import subprocess
import time

import nats
from cluster import ROOT
from nats import eventually

# Addresses of clients on loopback. The address chooses the node.
ADDRESSES = [f"127.0.1.{number}" for number in range(1, 65)]
# The longest answer is that of a request which waits for the hanging node, and then for the next ones.
ANSWER_SECONDS = 10


class Nginx:
    """nginx with the file of packaging/cluster/. Only the addresses are those of the test."""

    def __init__(self, directory, stack, nodes):
        directory.mkdir()
        self.port = nats.free_ports(1)[0]
        self.log = directory / "log"
        text = (ROOT / "packaging/cluster/nginx.conf").read_text()
        changes = {f"server node-{node.name}.internal:8080 ": f"server {node.address} " for node in nodes}
        for old, new in {**changes, "listen 80;": f"listen 127.0.0.1:{self.port};"}.items():
            assert text.count(old) == 1, f"packaging/cluster/nginx.conf has no {old!r}"
            text = text.replace(old, new)
        (directory / "parallax.conf").write_text(text)
        whole = directory / "nginx.conf"
        paths = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        whole.write_text(f"daemon off; user root; pid {directory}/pid; error_log stderr error; events {{}}\n"
                         f"http {{ access_log off; {paths} include {directory}/parallax.conf; }}\n")
        with open(self.log, "wb") as log:
            process = subprocess.Popen(["nginx", "-c", whole, "-e", "stderr"], stdout=log, stderr=log)
        # SIGTERM also ends the worker.
        stack.callback(process.wait)
        stack.callback(process.terminate)
        eventually("nginx serves", lambda: self.listens(process))

    def listens(self, process):
        assert process.poll() is None, self.log.read_text()
        try:
            return self.ask(ADDRESSES[0], "/v1/health")[0] == 200
        except ConnectionRefusedError:
            return False

    def ask(self, address, path, body=None):
        """Sends a request from an address. Returns the status, the body, and the time of the answer."""
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, ANSWER_SECONDS, (address, 0))
        try:
            connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read(), time.monotonic() - begun
        finally:
            connection.close()
