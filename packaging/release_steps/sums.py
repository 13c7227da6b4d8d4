"""SHA-256 sums of all files, and their signature with an SSH key."""

import hashlib

from .common import ReleaseError, run

# The namespace of the signature, so that it cannot be used for anything else.
NAMESPACE = "parallax-release"
NAMES = ("SHA256SUMS", "SHA256SUMS.sig")


def write(directory):
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name not in NAMES)
    if not files:
        raise ReleaseError(f"{directory} has no files")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (directory / "SHA256SUMS").write_text("".join(lines))
    # A signature of other sums would only look like one of these.
    (directory / "SHA256SUMS.sig").unlink(missing_ok=True)


def sign(directory, key):
    """Signs SHA256SUMS. `key` is a private key, or a public key whose private half an SSH agent has."""
    run("ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, directory / "SHA256SUMS")
