"""The npm packages of sdk/, sdk/cli/ and composer/, built and packed as their tests do."""

import filecmp
import json
import os
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from .build import check_paths
from .common import ReleaseError, output, run


@dataclass
class Package:
    """A package of the sources."""

    # Its directory in the sources.
    directory: str
    # Its files and directories, without tests, examples and the file that the server embeds.
    sources: tuple
    # True if its build needs the packages of its lock file.
    has_tools: bool
    # Files that must be in it, in addition to the entry points, the README and the licences.
    required: tuple = ()


PACKAGES = (
    Package("sdk", ("README.md", "build.mjs", "package.json", "src", "tsconfig.build.json", "tsconfig.json"), True, ("dist/author.wasm",)),
    Package("sdk/cli", ("README.md", "bin", "build.mjs", "lib", "package.json"), False, ("lib/author.wasm", "lib/main.js")),
    Package("composer", ("README.md", "build.mjs", "package.json", "src", "tsconfig.build.json", "tsconfig.json"), True),
)
# npm versions have two more parts than these only with a prerelease.
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def make(release):
    if not VERSION.fullmatch(release.version):
        raise ReleaseError(f"{release.version} is no version of npm")
    for package in PACKAGES:
        make_package(package, release)


def make_package(package, release):
    """Builds a package in a copy of its sources. The directories are beside each other as in the sources, so that its build finds the licences."""
    source, staged = release.source / package.directory, release.work / "npm" / package.directory
    staged.mkdir(parents=True, exist_ok=True)
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copyfile(release.source / name, release.work / "npm" / name)
    for name in package.sources:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copyfile
        copy(source / name, staged / name)
    if package.has_tools:
        install(source)
        (staged / "node_modules").symlink_to(source / "node_modules")
    run("env", f"PARALLAX_MODULES={modules(release)}", "node", "build.mjs", cwd=staged)
    manifest = json.loads((staged / "package.json").read_text())
    (staged / "package.json").write_text(json.dumps(published(manifest, package, release), indent=2) + "\n")
    # npm keeps the modes of files.
    for place, _, names in os.walk(staged):
        for name in names:
            (Path(place) / name).chmod(0o644)
    packed = output("npm", "pack", "--silent", "--pack-destination", release.out, cwd=staged).splitlines()[-1]
    check(release.out / packed, package, release)


def install(source):
    """Installs the packages of the lock file, unless the script `run` of the package or an earlier release has installed exactly these."""
    lock, installed = source / "package-lock.json", source / "node_modules/.installed-lock.json"
    if not installed.exists() or not filecmp.cmp(lock, installed, shallow=False):
        run("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", cwd=source)
        shutil.copyfile(lock, installed)


def modules(release):
    """Returns the directory of the modules of WebAssembly. Builds them, unless that was done. Those of a tag are built from its sources."""
    target = (release.source / "target").resolve()
    if not release.is_tagged:
        target = Path(os.environ.get("CARGO_TARGET_DIR") or target).resolve()
    files = [target / "modules" / name for name in ("edge.wasm", "author.wasm")]
    if not all(file.exists() for file in files):
        run("env", f"CARGO_TARGET_DIR={target}", release.source / "wasm/build", cwd=release.source)
    for file in files if release.is_tagged else []:
        check_paths(release, file, file.name)
    return target / "modules"


def published(manifest, package, release):
    """Returns the manifest of the published package. In the sources it is private, so that nobody publishes a checkout by mistake."""
    manifest = {key: value for key, value in manifest.items() if key not in ("private", "scripts", "devDependencies")}
    manifest["version"] = release.version
    if release.repository:
        # npm accepts a provenance statement only if this is the repository of the workflow that publishes.
        manifest["repository"] = {"type": "git", "url": f"git+{release.repository.removesuffix('.git')}.git", "directory": package.directory}
    # A prerelease is not what `npm install` takes.
    manifest["publishConfig"] = {"access": "public", "provenance": True} | ({"tag": "next"} if "-" in release.version else {})
    return manifest


def check(packed, package, release):
    """Fails if an entry point, its types, a program, a required file or a licence is missing."""
    with tarfile.open(packed) as tar:
        names = {name.removeprefix("package/") for name in tar.getnames()}
        manifest = json.load(tar.extractfile("package/package.json"))
    entries = [path for entry in manifest.get("exports", {}).values() for path in (entry.values() if isinstance(entry, dict) else [entry])]
    entries += manifest.get("bin", {}).values()
    required = {path.removeprefix("./") for path in entries} | {"LICENSE-MIT", "LICENSE-APACHE", "README.md", *package.required}
    if not entries or (missing := sorted(required - names)):
        raise ReleaseError(f"{packed.name} lacks {', '.join(missing) if entries else 'entry points'}")
    if manifest.get("private") or manifest["version"] != release.version or manifest["license"] != "MIT OR Apache-2.0":
        raise ReleaseError(f"{packed.name} has the wrong manifest: {manifest}")
