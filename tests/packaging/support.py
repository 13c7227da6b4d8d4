"""Parts of the tests of packaging/: the libraries, servers with published sites, and waits."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGING = ROOT / "packaging"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# Time limit of a wait. Only a failing run reaches it.
PATIENCE_SECONDS = 40


def server_binary():
    return Path(sys.argv[1] if len(sys.argv) > 1 else TARGET / "debug/parallax").resolve()


def use_libraries():
    """Installs the libraries of requirements.txt, and starts the script again with them."""
    venv = TARGET / "packaging/venv"
    if Path(sys.prefix) == venv:
        return
    if not (venv / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"]
    subprocess.run(pip, check=True, timeout=PATIENCE_SECONDS * 4)
    sys.stdout.flush()
    os.execv(venv / "bin/python", [venv / "bin/python", *sys.argv])


def limit_time(seconds):
    def out_of_time(*_):
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(seconds)


def eventually(what, check, seconds=PATIENCE_SECONDS):
    """Waits until `check` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def run(command, **options):
    """Runs a command. Returns its output, or raises its output as an error."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def stop(process):
    """Stops a process and waits for it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def demo_source(directory, **settings):
    """Copies the demo site, with other members of site.json."""
    shutil.copytree(ROOT / "snapshots/demo", directory)
    about = json.loads((directory / "site.json").read_text()) | settings
    (directory / "site.json").write_text(json.dumps(about))
    return directory


class Server:
    """A server in a directory of its own. `sites`: the sources that it serves."""

    def __init__(self, binary, directory, sites, *flags):
        self.directory = Path(directory)
        self.snapshots, self.data = self.directory / "snapshots", self.directory / "data"
        self.snapshots.mkdir(parents=True)
        for site in sites:
            run([binary, "compile", site, "-o", self.snapshots / f"{site.name}.snapshot"])
        self.command = [binary, "serve", "--snapshots", self.snapshots, "--data", self.data, "--workers", "1", *flags]
        self.log = self.directory / "log"
        self.start()

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in self.command], stderr=log)
        find = lambda text: re.search(text + r" url=http://(\S+)", self.log_text())
        self.admin = eventually("the server listens", lambda: self.has_ended() or find("admin address"))[1]
        self.address = eventually("the server serves", lambda: self.has_ended() or find("serving"))[1]

    def has_ended(self):
        if self.process.poll() is not None:
            raise ChildProcessError(self.log_text())

    def log_text(self):
        return re.sub("\x1b\\[[0-9;]*m", "", self.log.read_text())

    def stop(self):
        stop(self.process)


def ask(address, path, method="GET", body=None, headers={}):
    """Returns the status, the headers and the body of an answer."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()
