"""NATS servers on loopback, each with free ports and its own store, and the keys and certificates of their clients."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

# Time limit of a wait. Only a failing run reaches it.
PATIENCE_SECONDS = 40


def install(venv, requirements):
    """Installs nats-server. Returns its path."""
    if not (venv / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", requirements]
    subprocess.run(pip, check=True, timeout=PATIENCE_SECONDS * 4)
    return venv / "bin/nats-server"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def eventually(what, check, seconds=PATIENCE_SECONDS):
    """Waits until `check` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


class Servers:
    """Three servers as one cluster of NATS, or one alone."""

    def __init__(self, program, directory, count=3, more=""):
        self.program, self.directory, self.more = program, Path(directory), more
        ports = free_ports(count * 3)
        self.clients, self.routes, self.monitors = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self.processes = [None] * count
        for number in range(count):
            self.start(number)
        for number in range(count):
            eventually(f"server {number} is healthy", lambda: self.is_healthy(number))

    def write_configuration(self, number):
        # `sync_interval: always` is the setting that a cluster needs.
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for other, port in enumerate(self.routes) if other != number)
        # The servers do not tell the clients their addresses, so that a test can put a relay between them.
        together = f"cluster {{ name: test, no_advertise: true, listen: 127.0.0.1:{self.routes[number]}, routes: [{routes}] }}"
        (self.directory / f"n{number}.conf").write_text(f"""
            server_name: n{number}
            listen: 127.0.0.1:{self.clients[number]}
            http: 127.0.0.1:{self.monitors[number]}
            max_payload: 2MB
            jetstream {{ store_dir: "{self.directory}/store{number}", sync_interval: always, max_file: 4GB }}
            {together if len(self.clients) > 1 else ""}
            {self.more}
        """)

    def configure(self, more):
        """Changes the added configuration of the running servers."""
        self.more = more
        for number in range(len(self.processes)):
            log = self.directory / f"n{number}.log"
            begin = log.stat().st_size
            self.write_configuration(number)
            self.signal(number, signal.SIGHUP)
            eventually(f"server {number} has reloaded", lambda: b"Reloaded server configuration" in log.read_bytes()[begin:])

    def start(self, number):
        self.write_configuration(number)
        log = open(self.directory / f"n{number}.log", "ab")
        command = [self.program, "-c", self.directory / f"n{number}.conf"]
        self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def is_healthy(self, number):
        try:
            url = f"http://127.0.0.1:{self.monitors[number]}/healthz"
            return json.load(urllib.request.urlopen(url, timeout=2))["status"] == "ok"
        except (OSError, ValueError):
            return False

    def start_all(self):
        for number in range(len(self.processes)):
            self.start(number)

    def lose_streams(self, started=None):
        """Kills all servers, deletes their stores, and starts all or the first ones again."""
        self.stop()
        for store in self.directory.glob("store*"):
            shutil.rmtree(store)
        for number in range(started or len(self.processes)):
            self.start(number)
        for number in range(started or len(self.processes)):
            eventually(f"server {number} is healthy", lambda: self.is_healthy(number))

    def request(self, subject, payload):
        """Sends a request in the protocol of NATS, and returns the answer."""
        with socket.create_connection(("127.0.0.1", self.clients[0])) as connection, connection.makefile("rb") as lines:
            body = json.dumps(payload)
            text = f"CONNECT {{\"verbose\":false}}\r\nSUB _INBOX_test 1\r\nPUB {subject} _INBOX_test {len(body)}\r\n{body}\r\n"
            connection.sendall(text.encode())
            while not (line := lines.readline()).startswith(b"MSG"):
                assert line, f"no answer to {subject}"
            return json.loads(lines.read(int(line.split()[-1])))

    def refuses_three_replicas(self):
        """Tells whether the leader misses a server."""
        created = self.request("$JS.API.STREAM.CREATE.probe", {"name": "probe", "subjects": ["probe"], "num_replicas": 3})
        self.request("$JS.API.STREAM.DELETE.probe", {})
        return created.get("error", {}).get("err_code") == 10005

    def refusals(self):
        """Returns how many requests to JetStream the first two servers have refused."""
        urls = [f"http://127.0.0.1:{port}/jsz" for port in self.monitors[:2]]
        return sum(json.load(urllib.request.urlopen(url, timeout=2))["api"]["errors"] for url in urls)

    def url(self, bucket, scheme="nats"):
        return f"{addresses(self.clients, scheme)}/{bucket}"

    def signal(self, number, name):
        self.processes[number].send_signal(name)

    def kill(self, number):
        self.signal(number, signal.SIGKILL)
        self.processes[number].wait()

    def stop(self):
        """Kills all servers."""
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                self.kill(number)


def addresses(ports, scheme="nats"):
    return f"{scheme}://{','.join(f'127.0.0.1:{port}' for port in ports)}"


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ (0x1021 if crc & 0x8000 else 0)
        crc &= 0xFFFF
    return crc.to_bytes(2, "little")


# The kinds of nkeys, as the first byte of a public key says them.
OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3


def new_nkey(directory, name, kind=USER):
    """Creates an nkey. Returns the file of its seed, and its public key. A file whose name ends in .der has the private key for openssl."""
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-outform", "DER"], check=True, capture_output=True).stdout
    Path(directory, f"{name}.der").write_bytes(key)
    public = ["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"]
    public = subprocess.run(public, input=key, check=True, capture_output=True).stdout
    seed_prefix = 18 << 3
    encode = lambda data: base64.b32encode(data + crc16(data)).decode().rstrip("=")
    path = Path(directory, f"{name}.nk")
    path.write_text(encode(bytes([seed_prefix | kind >> 5, (kind & 31) << 3]) + key[-32:]) + "\n")
    os.chmod(path, 0o600)
    return path, encode(bytes([kind]) + public[-32:])


def new_token(directory, issuer, subject, kind, **members):
    """Returns a JWT of NATS. `issuer` and `subject` are pairs of a name and a public key."""
    encode = lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
    claims = {"iss": issuer[1], "sub": subject[1], "name": subject[0], "iat": int(time.time()), "jti": subject[0]}
    parts = {"typ": "JWT", "alg": "ed25519-nkey"}, claims | {"nats": {"type": kind, "version": 2, **members}}
    text = ".".join(encode(json.dumps(part).encode()) for part in parts)
    signed = Path(directory, f"{subject[0]}.text")
    signed.write_text(text)
    key = ["-inkey", Path(directory, f"{issuer[0]}.der"), "-keyform", "DER"]
    signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", *key, "-in", signed], check=True, capture_output=True).stdout
    return f"{text}.{encode(signature)}"


def new_credentials(directory, names):
    """Creates users of one account. Returns the configuration of a server that trusts its operator, and the credentials file of each user."""
    keys = {name: new_nkey(directory, name, kind) for name, kind in (("operator", OPERATOR), ("system", ACCOUNT), ("account", ACCOUNT))}
    pair = lambda name: (name, keys[name][1])
    limits = {"subs": -1, "data": -1, "payload": -1}
    of_account = limits | {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    tokens = {name: new_token(directory, pair("operator"), pair(name), "account", limits=of_account | (storage if name == "account" else {}))
              for name in ("system", "account")}
    preloaded = ", ".join(f"{keys[name][1]}: {token}" for name, token in tokens.items())
    operator = new_token(directory, pair("operator"), pair("operator"), "operator")
    files = []
    for name in names:
        seed, public = new_nkey(directory, name)
        token = new_token(directory, pair("account"), (name, public), "user", **limits)
        files.append(Path(directory, f"{name}.creds"))
        files[-1].write_text(f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n*** Keep the seed secret. ***\n\n"
                             f"-----BEGIN USER NKEY SEED-----\n{seed.read_text()}------END USER NKEY SEED------\n")
    return f"operator: {operator}\nsystem_account: {keys['system'][1]}\nresolver: MEMORY\nresolver_preload: {{ {preloaded} }}", files


def new_authority(directory, name):
    """Creates a certificate authority. Returns its certificate and key."""
    cert, key = Path(directory, f"{name}.pem"), Path(directory, f"{name}.key")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", key, "-out", cert)
    return cert, key


def new_certificate(directory, name, authority):
    """Creates a certificate for 127.0.0.1. Returns it and its key."""
    cert, key, request = (Path(directory, f"{name}.{end}") for end in ("pem", "key", "csr"))
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    extensions = Path(directory, "san.ext")
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", request, "-CA", authority[0], "-CAkey", authority[1], "-CAcreateserial", "-days", "2",
            "-extfile", extensions, "-out", cert)
    return cert, key


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
