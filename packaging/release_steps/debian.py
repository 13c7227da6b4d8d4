"""The Debian package. dpkg-deb builds it from a staged directory, with the maintainer scripts of packaging/debian/."""

import hashlib
import os
import re
import subprocess
from pathlib import Path

from . import archive
from .build import TARGETS, tool
from .common import Entry, ReleaseError, directory, file, gzip_bytes, output, run

# Control file and maintainer scripts, with @NAMES@ of values.
TEMPLATES = Path(__file__).resolve().parents[1] / "debian"
# The number of this packaging of a version.
REVISION = 1
UNITS = ("*.service", "*.socket", "*.timer")


def debian_version(version):
    """Returns the version in Debian's order, where 1.0.0~rc.1 comes before 1.0.0."""
    return f"{version.replace('-', '~')}-{REVISION}"


def unit_files(release):
    return sorted(path for pattern in UNITS for path in (release.source / "packaging").glob(pattern))


def compressed(name, content):
    return Entry(f"{name}.gz", content=gzip_bytes(content))


def files(release):
    """Returns the files of the package."""
    source, doc = release.source, "usr/share/doc/parallax"
    entries = [file("usr/bin/parallax", release.program), directory("etc/parallax")]
    entries += [Entry("etc/parallax/parallax.toml", content=(source / "packaging/parallax.toml").read_bytes(), mode=0o640)]
    for path in unit_files(release):
        # The administrator's own programs are in /usr/local.
        text = path.read_text().replace("/usr/local/bin/parallax", "/usr/bin/parallax")
        text = re.sub(r"^# /etc/systemd/system/(\S+): see README.md.*\n", r"# \1 of the Debian package: see /usr/share/doc/parallax.\n", text)
        entries.append(Entry(f"usr/lib/systemd/system/{path.name}", content=text.encode()))
    entries += archive.documents(f"{doc}/docs", source / "docs") + [file(f"{doc}/{name}", source / name) for name in ("README.md", "SECURITY.md")]
    entries += archive.packaging_files(f"{doc}/packaging", source / "packaging")
    entries.append(Entry(f"{doc}/copyright", content=copyright_text(release).encode()))
    entries.append(compressed(f"{doc}/changelog", (source / "CHANGELOG.md").read_bytes()))
    entries.append(compressed(f"{doc}/changelog.Debian", changelog(release).encode()))
    entries.append(compressed(f"{doc}/THIRD-PARTY-LICENCES.txt", release.notices.read_bytes()))
    if release.reference.exists():
        pages = sorted((release.reference / "man1").iterdir())
        entries += [compressed(f"usr/share/man/man1/{page.name}", page.read_bytes()) for page in pages]
        places = {"parallax": "bash-completion/completions", "_parallax": "zsh/vendor-completions", "parallax.fish": "fish/vendor_completions.d"}
        completions = release.reference / "completions"
        entries += [file(f"usr/share/{place}/{name}", completions / name) for name, place in places.items()]
    return entries


def copyright_text(release):
    mit = (release.source / "LICENSE-MIT").read_text().strip()
    indented = "\n".join(f" {line}" if line else " ." for line in mit.split("\n"))
    return (TEMPLATES / "copyright").read_text().replace("@MIT@", indented)


def changelog(release):
    date = output("date", "-R", "-u", "-d", f"@{release.epoch}", env={**os.environ, "LC_ALL": "C"})
    author = re.search(r"^Maintainer: (.*)$", (TEMPLATES / "control").read_text(), re.MULTILINE)[1]
    text = f"  * Version {release.version}. changelog.gz has the changes.\n"
    return f"parallax ({debian_version(release.version)}) stable; urgency=medium\n\n{text}\n -- {author}  {date}\n"


def libc_version(release):
    """Returns the newest version of a symbol of glibc that the program needs."""
    needed = re.findall(r"GLIBC_([0-9.]+)", output(tool(release.target, "readelf"), "-VW", release.program))
    if not needed:
        raise ReleaseError("the program names no version of glibc")
    return max(needed, key=lambda version: [*map(int, version.split("."))])


def make(release):
    root = release.work / "deb"
    staged = files(release)
    for entry in staged:
        path = root / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(entry.content)
    write_control(release, root, staged)
    modes = {entry.name: entry.mode for entry in staged}
    for path in [root, *root.rglob("*")]:
        name = str(path.relative_to(root))
        is_script = name in ("DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm")
        path.chmod(0o755 if path.is_dir() or is_script else modes.get(name, 0o644))
        os.utime(path, (release.epoch, release.epoch))
    # Release pages replace a tilde in the name of a file.
    file_version = debian_version(release.version).replace("~", ".")
    deb = release.out / f"parallax_{file_version}_{TARGETS[release.target].debian}.deb"
    compression = ["-Zgzip", "-z1"] if release.is_fast else ["-Zxz"]
    run("dpkg-deb", "--root-owner-group", *compression, "--build", root, deb, env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)})
    if not release.is_repeated:
        check(release, deb)


def write_control(release, root, staged):
    control = root / "DEBIAN"
    control.mkdir()
    values = {
        "VERSION": debian_version(release.version), "ARCHITECTURE": TARGETS[release.target].debian, "LIBC": libc_version(release),
        "SIZE": str(sum(-(-len(entry.content or b"") // 1024) for entry in staged)),
        "HOMEPAGE": f"Homepage: {release.repository}\n" if release.repository else "",
        "UNITS": " ".join(path.name for path in unit_files(release)),
    }
    for name in ("control", "postinst", "prerm", "postrm"):
        text = (TEMPLATES / name).read_text()
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        (control / name).write_text(text)
    (control / "conffiles").write_text("/etc/parallax/parallax.toml\n")
    sums = [f"{hashlib.md5(entry.content).hexdigest()}  {entry.name}\n" for entry in staged if entry.content is not None and not entry.name.startswith("etc/")]
    (control / "md5sums").write_text("".join(sorted(sums)))


# Reports of lintian that are no faults here.
ACCEPTED = (
    # The project has no address yet.
    "bogus-mail-host",
    # Not an upload to Debian.
    "initial-upload-closes-no-bugs",
    # The settings can have a token.
    "non-standard-file-perm",
)


def check(release, deb):
    """Fails if lintian, which knows Debian's rules, finds an error. Prints its warnings."""
    if not release.has_checker("lintian", deb):
        return
    command = ["lintian", "--allow-root", "--suppress-tags", ",".join(ACCEPTED), deb]
    report = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.splitlines()
    for line in report:
        print(f"lintian: {line}")
    if errors := [line for line in report if line.startswith("E:")]:
        raise ReleaseError(f"lintian finds {len(errors)} errors in {deb.name}")
