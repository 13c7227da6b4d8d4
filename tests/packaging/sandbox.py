"""A Debian root directory, and a namespace of its own for the programs in it.

A test runs in namespaces of mounts, processes and networks. So servers can use the ports of the packaged settings beside other servers of
the machine, and all of them end with the test.
"""

import ctypes
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "target/packaging"
# A server answers within a second. Beyond this bound it hangs.
PATIENCE_SECONDS = 20
# No capability is numbered higher. prctl refuses the numbers that the kernel does not know.
CAPABILITIES_MAX = 63
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
# The first lines of a server's output that a failure shows.
LOG_BYTES_SHOWN = 4000


def run_test(prepare, test):
    """Calls `prepare` with a new directory, then `test` in new namespaces, which reach no network, with the loopback device up."""
    if os.geteuid() != 0:
        sys.exit(f"{sys.argv[0]}: run it as root: it unpacks packages into a root directory of its own and starts servers there as other users")
    # The first process of a namespace has no parent in it.
    if os.getppid() == 0:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return test(Path(os.environ["PARALLAX_SANDBOX"]))
    with tempfile.TemporaryDirectory() as directory:
        prepare(Path(directory))
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv]
        code = subprocess.run(command, env=os.environ | {"PARALLAX_SANDBOX": directory}).returncode
    return sys.exit(code)


def prepare_debian():
    """Makes a Debian root directory of the release of this machine with debootstrap, once, and keeps it as an archive."""
    archive = CACHE / "debian.tar"
    if archive.exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        made = Path(directory) / "root"
        release, mirror = this_debian()
        # The smallest set of packages: those that are essential, and apt.
        run(["debootstrap", "--variant=minbase", release, made, mirror], environment=os.environ)
        # Without the lists, apt knows no other package than those that are installed.
        for path in ("var/lib/apt/lists", "var/cache/apt"):
            shutil.rmtree(made / path)
            (made / path).mkdir()
        run(["tar", "-C", made, "-cf", archive.with_suffix(".part"), "."])
    archive.with_suffix(".part").rename(archive)


@contextmanager
def debian_root(directory):
    """Yields a new copy of the root directory of `prepare_debian`."""
    directory.mkdir()
    run(["tar", "-C", directory, "-xpf", CACHE / "debian.tar"])
    run(["mount", "-t", "proc", "proc", directory / "proc"])
    try:
        yield directory
    finally:
        # Before the directory is deleted.
        run(["umount", "--lazy", directory / "proc"])


def this_debian():
    """Returns the code name of this machine's Debian, and the mirror that its apt uses."""
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)[1]
    targets = run(["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(SITE)", "Created-By: Packages"]).stdout
    mirrors = [line.split(" ")[2] for line in targets.splitlines() if line.startswith(f"{release} main ")]
    if not mirrors:
        raise AssertionError(f"apt of this machine has no mirror of Debian {release}:\n{targets}")
    return release, mirrors[0]


CHROOT_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}


def run(command, code=0, environment=None, **options):
    """Runs a command with a bounded time and returns its output. Another exit code than `code` fails."""
    result = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=600, env=environment, **options)
    if result.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {result.returncode}, expected {code}\n{result.stdout}")
    return result


def run_in(root, command, code=0):
    """Runs a shell command in a root directory, as root in /root. Returns its output."""
    return run(["chroot", root, "/bin/sh", "-c", f"cd /root && {command}"], code, CHROOT_ENVIRONMENT).stdout


def pack(program, version, out, *options):
    """Packs a program and returns the directory of the files."""
    result = run([ROOT / "packaging/release", "--program", program, "--version", version, "--out", out, "--once", "--fast", *options], environment=os.environ)
    print(result.stdout, end="")
    return Path(out)


class Confined:
    """The user and the limits of a process, set after it has entered its root directory."""

    def __init__(self, root, user, group, groups=(), umask=0o022, directory="/"):
        self.root, self.user, self.group, self.groups, self.umask, self.directory = root, user, group, groups, umask, directory

    def __call__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        os.chroot(self.root)
        os.chdir(self.directory)
        os.umask(self.umask)
        for capability in range(CAPABILITIES_MAX + 1):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        os.setgroups(self.groups)
        os.setresgid(self.group, self.group, self.group)
        os.setresuid(self.user, self.user, self.user)


class Process:
    """A server with the addresses of the packaged settings."""

    def __init__(self, command, confined, log, environment=None):
        self.log = Path(log)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(command, preexec_fn=confined, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env=environment or CHROOT_ENVIRONMENT, close_fds=True)

    def stop(self):
        """Stops the server and checks that it ended by itself."""
        self.process.terminate()
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        if code != 0:
            raise AssertionError(f"the server ended with {code}\n{self.shown_log()}")

    def shown_log(self):
        return self.log.read_bytes()[:LOG_BYTES_SHOWN].decode(errors="replace")

    def wait_for(self, url, status=200):
        """Requests `url` until the answer has the status. Returns its body."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}\n{self.shown_log()}")
            try:
                got, body = get(url)
                if got == status:
                    return body
                last = f"{got} {body}"
            except OSError as error:
                last = str(error)
            if time.monotonic() > end:
                raise AssertionError(f"{url}: {last}, expected {status}\n{self.shown_log()}")
            time.sleep(0.05)

    def capabilities(self):
        """Returns the sets of capabilities of the process that are not empty."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        sets = re.findall(r"^(Cap\w+):\s+([0-9a-f]+)$", status, re.MULTILINE)
        if len(sets) != 5:
            raise AssertionError(f"expected five sets of capabilities, got {sets}")
        return {name: value for name, value in sets if int(value, 16)}


def request(method, url, body=None, token=None):
    """Sends a request to the loopback address, with a Bearer token if there is one. Returns status and body."""
    address, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, f"/{path}", body=None if body is None else json.dumps(body), headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def get(url):
    return request("GET", url)


def post(url, body):
    """Sends an event or a batch, and returns its receipt."""
    status, text = request("POST", url, body)
    if status != 200:
        raise AssertionError(f"{url}: {status} {text}")
    return json.loads(text)


def expect(claim, text):
    """Fails with the text if the claim is false."""
    if not claim:
        raise AssertionError(text)
