"""The licences of everything that the program contains.

The texts are the licence files in the source of each linked crate, which cargo has downloaded for the build. cargo-about has more
features, such as the detection of licences by their text. It needs the build of 300 crates, and this needs none: the file names are enough,
and a crate without a file fails unless the toolchain has the text of its licence.
"""

import hashlib
import json
import re
from collections import defaultdict
from pathlib import Path

from .common import ReleaseError, output

LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice|unlicen[cs]e|copyright)", re.IGNORECASE)
# Files of the project itself whose text others wrote.
VENDORED = ("src/admin/console/vendor/LICENSE-preact", "src/admin/console/vendor/LICENSE-htm", "src/admin/console/vendor/LICENSE-uplot")


def linked_packages(release):
    """Returns the metadata of the crates that are linked into the program: neither build scripts nor procedural macros."""
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", cwd=release.source))
    packages = {(package["name"], package["version"]): package for package in metadata["packages"]}
    command = ["cargo", "tree", "--locked", "-e", "normal,no-proc-macro", "--target", release.target, "--prefix", "none", "-f", "{p}"]
    lines = output(*command, cwd=release.source).splitlines()
    names = sorted({tuple(line.split(" ")[:2]) for line in lines if line})
    linked = [packages[name, version.removeprefix("v")] for name, version in names]
    if len(linked) < 50:
        raise ReleaseError(f"cargo tree lists only {len(linked)} crates")
    return [package for package in linked if package["source"] is not None]


def licence_files(directory):
    """Returns the licence files of a crate, with those in a directory of licences and of bundled C code."""
    places = [directory, directory / "LICENSES", directory / "licenses", directory / "zstd"]
    files = [path for place in places if place.is_dir() for path in sorted(place.iterdir())]
    return [path for path in files if path.is_file() and LICENCE_FILE.match(path.name)]


def standard_text(package, toolchain):
    """Returns the text of a licence of the package from the toolchain, for a crate without a licence file."""
    for licence in re.split(r"\s+(?:OR|AND)\s+|/", package["license"] or ""):
        path = toolchain / f"{licence}.txt"
        if path.exists():
            authors = ", ".join(re.sub(r"\s*<.*?>", "", author) for author in package["authors"]) or "its authors"
            return path.read_text().replace("<year> <copyright holders>", authors)
    raise ReleaseError(f"{package['name']} {package['version']} has no licence file, and the toolchain has no text of {package['license']}")


def write(release):
    """Writes each text once, with the names of its crates."""
    toolchain = Path(output("rustc", "--print", "sysroot", cwd=release.source)) / "share/doc/rust/licenses"
    users, texts, lines = defaultdict(list), {}, []

    def add(text, user):
        text = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n"))
        digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
        texts.setdefault(digest, text)
        users[digest].append(user)

    for package in linked_packages(release):
        label = f"{package['name']} {package['version']}"
        lines.append(f"{label}: {package['license'] or 'see its licence file'}")
        files = licence_files(Path(package["manifest_path"]).parent)
        for content in [path.read_text(errors="replace") for path in files] or [standard_text(package, toolchain)]:
            add(content, label)
    for path in VENDORED:
        add((release.source / path).read_text(), path)
    for licence in ("MIT", "Apache-2.0"):
        add((toolchain / f"{licence}.txt").read_text(), "the Rust standard library")
    head = "Parallax is licensed under MIT or Apache-2.0. The program contains these crates and the Rust standard library (MIT or Apache-2.0):"
    sections = [f"{'-' * 80}\n{', '.join(users[digest])}\n{'-' * 80}\n\n{text}\n" for digest, text in texts.items()]
    release.notices.write_text("\n".join([head, "", *lines, "", *sections]))
