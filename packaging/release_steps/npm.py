"""The npm package of sdk/, built and packed as its tests do."""

import filecmp
import json
import os
import re
import shutil
import tarfile
from pathlib import Path

from .common import ReleaseError, output, run

# Sources of the package, without tests, example and the file that the server embeds.
SOURCES = ("README.md", "build.mjs", "package.json", "src", "tsconfig.build.json", "tsconfig.json")
# npm versions have two more parts than these only with a prerelease.
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def make(release):
    if not VERSION.fullmatch(release.version):
        raise ReleaseError(f"{release.version} is no version of npm")
    sdk = release.source / "sdk"
    install(sdk)
    staged = release.work / "npm/sdk"
    staged.mkdir(parents=True)
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copyfile(release.source / name, staged.parent / name)
    for name in SOURCES:
        copy = shutil.copytree if (sdk / name).is_dir() else shutil.copyfile
        copy(sdk / name, staged / name)
    (staged / "node_modules").symlink_to(sdk / "node_modules")
    run("env", f"PARALLAX_MODULES={modules(release.source)}", "node", "build.mjs", cwd=staged)
    manifest = json.loads((staged / "package.json").read_text())
    (staged / "package.json").write_text(json.dumps(published(manifest, release), indent=2) + "\n")
    # npm keeps the modes of files.
    for place, _, names in os.walk(staged):
        for name in names:
            (Path(place) / name).chmod(0o644)
    packed = output("npm", "pack", "--silent", "--pack-destination", release.out, cwd=staged).splitlines()[-1]
    check(release.out / packed, release)


def install(sdk):
    """Installs the packages of the lock file, unless `sdk/run` or an earlier release has installed exactly these."""
    lock, installed = sdk / "package-lock.json", sdk / "node_modules/.installed-lock.json"
    if not installed.exists() or not filecmp.cmp(lock, installed, shallow=False):
        run("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", cwd=sdk)
        shutil.copyfile(lock, installed)


def modules(source):
    """Returns the directory of the modules of WebAssembly. Builds them, unless that was done in this source directory."""
    directory = source / "target/modules"
    if not (directory / "author.wasm").exists():
        run("env", "-u", "CARGO_TARGET_DIR", source / "wasm/build", cwd=source)
    return directory


def published(manifest, release):
    """Returns the manifest of the published package. In the sources it is private, so that nobody publishes a checkout by mistake."""
    manifest = {key: value for key, value in manifest.items() if key not in ("private", "scripts", "devDependencies")}
    manifest["version"] = release.version
    if release.repository:
        # npm accepts a provenance statement only if this is the repository of the workflow that publishes.
        manifest["repository"] = {"type": "git", "url": f"git+{release.repository.removesuffix('.git')}.git", "directory": "sdk"}
    # A prerelease is not what `npm install` takes.
    manifest["publishConfig"] = {"access": "public", "provenance": True} | ({"tag": "next"} if "-" in release.version else {})
    return manifest


def check(packed, release):
    """Fails if an entry point, its types or a licence is missing."""
    with tarfile.open(packed) as tar:
        names = set(tar.getnames())
        manifest = json.load(tar.extractfile("package/package.json"))
    entries = [path for entry in manifest["exports"].values() for path in entry.values()]
    required = {"package/" + path.removeprefix("./") for path in entries} | {"package/dist/author.wasm", "package/LICENSE-MIT", "package/LICENSE-APACHE", "package/README.md"}
    if missing := sorted(required - names):
        raise ReleaseError(f"{packed.name} lacks {', '.join(missing)}")
    if manifest.get("private") or manifest["version"] != release.version or manifest["license"] != "MIT OR Apache-2.0":
        raise ReleaseError(f"{packed.name} has the wrong manifest: {manifest}")
