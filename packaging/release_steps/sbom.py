"""The SBOM of the program in CycloneDX, by cargo-cyclonedx: the linked crates with versions, licences and sums."""

import json
import os
import shutil
from pathlib import Path

from .common import ReleaseError, run

VERSION = "0.5.9"
SPECIFICATION = "1.5"
# Every build has more crates than this. Fewer mean that the tool lists the direct dependencies only.
CRATES_MIN = 100


def make(release):
    if not shutil.which("cargo-cyclonedx"):
        raise ReleaseError(f"cargo-cyclonedx is not installed; run `cargo install --locked cargo-cyclonedx@{VERSION}`")
    # The tool writes a file beside each manifest of the workspace.
    name = f"sbom-{os.getpid()}"
    command = ["cargo", "cyclonedx", "--format", "json", "--spec-version", SPECIFICATION, "--target", release.target, "--no-build-deps", "--quiet"]
    try:
        run(*command, "--override-filename", name, cwd=release.source, env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)})
        text = (release.source / f"{name}.json").read_text()
    finally:
        for path in written(release.source, name):
            path.unlink()
    # References to the package of the workspace have the directory of the build.
    text = text.replace(f"path+file://{release.source}", "path+file:///parallax")
    check(json.loads(text), text)
    (release.out / f"{release.name}.cdx.json").write_text(text)


def written(source, name):
    """Returns the files of the tool, without those of large directories, which have no manifest of the workspace."""
    for place, directories, files in os.walk(source):
        directories[:] = [directory for directory in directories if directory not in ("target", "node_modules", ".git")]
        yield from (Path(place) / file for file in files if file == f"{name}.json")


def check(document, text):
    crates = [component for component in document["components"] if component["purl"].startswith("pkg:cargo/")]
    if len(crates) < CRATES_MIN or "/home/" in text or "serialNumber" in document:
        raise ReleaseError(f"the SBOM has {len(crates)} crates, a path of this machine or a random number")
    unlicensed = [crate["name"] for crate in crates if not crate.get("licenses")]
    if unlicensed:
        raise ReleaseError(f"the SBOM has no licence of {', '.join(unlicensed)}")
