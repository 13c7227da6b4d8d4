"""The values that all steps of a release share, and archives whose bytes depend on their content only."""

import io
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path


class ReleaseError(Exception):
    """A release that cannot be made or does not pass its checks."""


@dataclass
class Release:
    version: str
    target: str
    # The files beside the program: a checkout or the extracted tag.
    source: Path
    # A directory of this attempt for intermediate files.
    work: Path
    # The directory of the finished files of this attempt.
    out: Path
    # The time of all files, in seconds since 1970.
    epoch: int
    # The commit.
    revision: str
    # The address of the source, or "".
    repository: str
    # True if the program was built from a tag.
    is_tagged: bool
    # True if the files are made only to be compared with those of the first attempt.
    is_repeated: bool
    # True if the files may be large, so that tests take less time.
    is_fast: bool
    # The .deb files from which the image takes its libraries.
    debian_packages: Path

    @property
    def name(self):
        return f"parallax-{self.version}-{self.target}"

    @property
    def program(self):
        """The program without debug symbols."""
        return self.work / "program/parallax"

    @property
    def reference(self):
        """The directory of man pages (`man1`) and completions. It is missing if the program cannot write them."""
        return self.work / "reference"

    @property
    def notices(self):
        """The licences of all linked crates."""
        return self.work / "THIRD-PARTY-LICENCES.txt"

    def has_checker(self, tool, checked):
        """Returns whether a tool that checks a file of the release is installed. The files of a tag are always checked."""
        if shutil.which(tool):
            return True
        if self.is_tagged:
            raise ReleaseError(f"{tool}, which checks {checked.name}, is not installed; install the package {tool}")
        print(f"{tool} is not installed: {checked.name} is not checked")
        return False


def run(*command, **options):
    """Runs a command. Its output is shown only if it fails."""
    return subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def output(*command, **options):
    return run(*command, **options).stdout.strip()


@dataclass
class Entry:
    """A file, directory or link of an archive."""

    name: str
    # The bytes of a file.
    content: bytes | None = None
    # The target of a symbolic link.
    link: str | None = None
    mode: int = 0o644
    owner: int = 0


def directory(name, mode=0o755, owner=0):
    return Entry(name, mode=mode, owner=owner)


def file(name, path):
    """An entry with the content of a file. Only its execute permission counts, not the umask that wrote it."""
    return Entry(name, content=path.read_bytes(), mode=0o755 if os.access(path, os.X_OK) else 0o644)


def tree(name, root, is_wanted=lambda path: True):
    """Returns the entries of a directory and of all below it that are wanted."""
    entries = [directory(name)]
    for path in sorted(root.iterdir()):
        if not is_wanted(path):
            continue
        inner = f"{name}/{path.name}"
        if path.is_symlink():
            entries.append(Entry(inner, link=os.readlink(path)))
        else:
            entries += tree(inner, path, is_wanted) if path.is_dir() else [file(inner, path)]
    return entries


def write_tar(path, entries, epoch):
    """Writes the entries, sorted by name, with the same time and without names of users."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for entry in sorted(entries, key=lambda entry: entry.name):
            info = tarfile.TarInfo(entry.name)
            info.mtime, info.mode, info.uid, info.gid = epoch, entry.mode, entry.owner, entry.owner
            content = None
            if entry.link is not None:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size, content = len(entry.content), io.BytesIO(entry.content)
            tar.addfile(info, content)



def gzip_bytes(content, is_fast=False):
    """Compresses with the system's gzip, without name and time. Its output has not changed for years, unlike that of zlib."""
    level = "-1" if is_fast else "-9"
    return subprocess.run(["gzip", level, "-n", "-c"], input=content, stdout=subprocess.PIPE, check=True).stdout


def gzip(path, is_fast):
    """Replaces a file by its compressed form, with the ending .gz."""
    path.with_name(path.name + ".gz").write_bytes(gzip_bytes(path.read_bytes(), is_fast))
    path.unlink()
