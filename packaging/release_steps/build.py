"""Builds the program, separates its debug symbols, and writes man pages, completions and licences."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import notices
from .common import ReleaseError, output, run


@dataclass
class Target:
    # Debian's name of the architecture.
    debian: str
    # The name of the architecture in an OCI image.
    oci: str
    # The prefix of the tools of binutils, and of the linker in a cross build.
    tools: str
    # Runs a program of the target on another machine.
    emulator: tuple
    # The libraries that the program may need. Others would not be on a user's machine.
    libraries: frozenset


COMMON_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1"}
TARGETS = {
    "x86_64-unknown-linux-gnu": Target(
        "amd64", "amd64", "x86_64-linux-gnu", ("qemu-x86_64-static",), frozenset(COMMON_LIBRARIES | {"ld-linux-x86-64.so.2"})
    ),
    "aarch64-unknown-linux-gnu": Target(
        "arm64", "arm64", "aarch64-linux-gnu", ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"),
        frozenset(COMMON_LIBRARIES | {"ld-linux-aarch64.so.1"}),
    ),
}


# The manifests of the npm packages. They have the version of the program.
NPM_MANIFESTS = ("sdk/package.json", "sdk/cli/package.json", "composer/package.json")


def check_version(source, version):
    """Fails if the tag is not the version of the sources, or the changelog does not have it."""
    manifest = re.search(r'^version = "(.*)"$', (source / "Cargo.toml").read_text(), re.MULTILINE)
    if not manifest or manifest[1] != version:
        raise ReleaseError(f"the tag is {version}, and Cargo.toml has {manifest and manifest[1]}; change one of them")
    for name in NPM_MANIFESTS:
        found = json.loads((source / name).read_text())["version"]
        if found != version:
            raise ReleaseError(f"the tag is {version}, and {name} has {found}; change one of them")
    if not re.search(rf"^## \[?{re.escape(version)}\b", (source / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section {version}; rename the section Unreleased")


def cargo_home():
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").resolve()


def second_home(directory):
    """Returns another cargo home with the same downloads, so that its path would show in a program."""
    directory.mkdir(parents=True)
    for name in ("registry", "git", "config.toml"):
        if (cargo_home() / name).exists():
            (directory / name).symlink_to(cargo_home() / name)
    return directory


def environment(source, target, home, toolchain_sources):
    """Returns the environment of a build whose output has none of the paths of this machine."""
    remapped = {source: "/parallax", home: "/cargo", cargo_home(): "/cargo", **toolchain_sources}
    env = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CFLAGS")}
    # The last prefix that fits has priority, so a directory comes before the directories in it.
    prefixes = sorted(remapped.items(), key=lambda item: len(str(item[0])))
    # This variable separates the flags by the byte 1f, so that a path may have a space.
    env["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in prefixes)
    # The C code of zstd and ring.
    env["CFLAGS"] = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in prefixes)
    env |= {"CARGO_HOME": str(home), "CARGO_INCREMENTAL": "0"}
    if not is_native(target):
        tools, variable = TARGETS[target].tools, target.replace("-", "_")
        env |= {f"CARGO_TARGET_{variable.upper()}_LINKER": f"{tools}-gcc", f"CC_{variable}": f"{tools}-gcc", f"AR_{variable}": f"{tools}-ar"}
    return env


def is_native(target):
    return re.search(r"^host: (.*)$", output("rustc", "-vV"), re.MULTILINE)[1] == target


def toolchain_sources(source):
    """Returns the sources of the standard library, if rustup has installed them, with the name that rustc gives them otherwise."""
    library = Path(output("rustc", "--print", "sysroot", cwd=source)) / "lib/rustlib/src/rust"
    commit = re.search(r"^commit-hash: (.*)$", output("rustc", "-vV", cwd=source), re.MULTILINE)[1]
    return {library: f"/rustc/{commit}"} if library.exists() else {}


def program(source, target, target_directory, home=None, profile="dist"):
    """Builds the program of a source directory. Returns its path."""
    libraries = Path(output("rustc", "--print", "target-libdir", "--target", target, cwd=source))
    if not libraries.exists():
        raise ReleaseError(f"rustc has no standard library for {target}; run `rustup target add {target}` in {source}")
    env = environment(source, target, home or cargo_home(), toolchain_sources(source))
    command = ["cargo", "build", "--profile", profile, "--locked", "--bin", "parallax", "--target", target, "--target-dir", target_directory]
    subprocess.run(command, cwd=source, env=env, check=True)
    return target_directory / target / ("debug" if profile == "dev" else profile) / "parallax"


def tool(target, name):
    """Returns a tool of binutils for the target."""
    prefixed = f"{TARGETS[target].tools}-{name}"
    return prefixed if shutil.which(prefixed) else name


def prepare(release, given):
    """Writes the files that several parts contain: the stripped program, man pages, completions and licences."""
    release.program.parent.mkdir(parents=True)
    shutil.copyfile(given, release.program)
    release.program.chmod(0o755)
    split_symbols(release)
    check_libraries(release)
    if release.is_tagged:
        check_paths(release, given, "the program")
    runner = () if is_native(release.target) else TARGETS[release.target].emulator
    printed = output(*runner, release.program, "--version")
    if release.is_tagged and printed != f"parallax {release.version}":
        raise ReleaseError(f"the program says {printed!r}; expected version {release.version}")
    write_reference(release, runner)
    notices.write(release)


def split_symbols(release):
    """Moves the debug symbols into a file of its own, to which the program refers by name and checksum."""
    objcopy = tool(release.target, "objcopy")
    symbols = release.out / f"{release.name}.debug"
    if ".debug_info" in output(tool(release.target, "readelf"), "-SW", release.program):
        run(objcopy, "--only-keep-debug", "--compress-debug-sections=zlib", release.program, symbols)
        symbols.chmod(0o644)
        run(objcopy, "--strip-all", f"--add-gnu-debuglink={symbols}", release.program)
    elif release.is_tagged:
        raise ReleaseError("the program has no debug symbols; the profile dist sets debug = \"line-tables-only\"")
    else:
        run(objcopy, "--strip-all", release.program)


def check_libraries(release):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output(tool(release.target, "readelf"), "-dW", release.program)))
    unknown = needed - TARGETS[release.target].libraries
    if unknown or not needed:
        raise ReleaseError(f"the program needs {', '.join(sorted(unknown)) or 'no library'}; the packages depend on libc6 and libgcc-s1 only")


def check_paths(release, given, name):
    """Fails if a program with its symbols, or a module, names a directory of the build."""
    toolchain = Path(output("rustc", "--print", "sysroot", cwd=release.source))
    directories = {str(path).encode() for path in (release.source, cargo_home(), toolchain)}
    content = given.read_bytes()
    found = sorted(path.decode() for path in directories if path + b"/" in content)
    if found:
        raise ReleaseError(f"{name} contains the paths {', '.join(found)}; two builds would differ")


def write_reference(release, runner):
    """Writes man pages and completions. A program before the commands that print them is packed without, but not from a tag."""
    pages = release.reference / "man1"
    help_text = subprocess.run([*runner, release.program, "completions", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if help_text.returncode != 0:
        if release.is_tagged:
            raise ReleaseError("the program has no command `completions`")
        print("this program writes no man pages and completions: packed without them")
        return
    # The help shows the values of these variables.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PARALLAX_")}
    run(*runner, release.program, "man-pages", pages, env=env)
    completions = release.reference / "completions"
    completions.mkdir()
    for shell, name in (("bash", "parallax"), ("zsh", "_parallax"), ("fish", "parallax.fish")):
        (completions / name).write_text(output(*runner, release.program, "completions", shell, env=env) + "\n")
