"""The archive: program, man pages, completions, licences and the files of packaging/."""

from .common import Entry, directory, file, gzip, tree, write_tar

# Files of packaging/ that only make a release.
RELEASE_ONLY = {"release", "release_steps", "debian", "__pycache__"}


def packaging_files(name, root):
    return tree(name, root, lambda path: path.name not in RELEASE_ONLY)


def documents(name, root):
    """Returns docs/ without its pictures."""
    return tree(name, root, lambda path: path.is_dir() and path.name != "pictures" or path.suffix == ".md")


def make(release):
    top, source = release.name, release.source
    entries = [directory(top), file(f"{top}/parallax", release.program), file(f"{top}/THIRD-PARTY-LICENCES.txt", release.notices)]
    entries += [file(f"{top}/{name}", source / name) for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT")]
    entries += documents(f"{top}/docs", source / "docs") + packaging_files(f"{top}/packaging", source / "packaging")
    entries += [Entry(f"{top}/COMMIT", content=f"{release.revision}\n".encode())]
    if release.reference.exists():
        entries += tree(f"{top}/man", release.reference / "man1") + tree(f"{top}/completions", release.reference / "completions")
    path = release.out / f"{top}.tar"
    write_tar(path, entries, release.epoch)
    gzip(path, release.is_fast)
