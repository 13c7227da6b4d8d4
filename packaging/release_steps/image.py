"""The container image, as an archive in OCI layout, without a container engine.

Its root directory has the program, libc6, libgcc-s1 and the certificate authorities of Debian, and users. It has no shell. Entry point,
environment, ports, volumes and health check are those of packaging/Containerfile. umoci could pack the directory, but it drops the
health check, a field of Docker's that the OCI specification lacks. So this step writes the five JSON documents itself.
"""

import hashlib
import json
import re
import shlex
from datetime import datetime, timezone

from .build import TARGETS
from .common import Entry, ReleaseError, directory, file, gzip_bytes, output, run, write_tar

PACKAGES = ("base-files", "ca-certificates", "libc6", "libgcc-s1")
# The user and group of the server: nonroot of Google's distroless images.
USER = 65532
PASSWD = f"""root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin
"""
GROUP = f"root:x:0:\nnobody:x:65534:\nnonroot:x:{USER}:\n"
SECOND_NS = 1_000_000_000


def make(release):
    debs = debian_packages(release)
    layers = [base_layer(release, debs), program_layer(release)]
    (release.out / f"{release.name}.image-packages").write_text(package_list(debs))
    write_layout(release, layers)


def debian_packages(release):
    """Returns the .deb files, by name of the package. Without a directory of them, apt downloads and verifies those that it knows."""
    store = release.debian_packages
    store.mkdir(parents=True, exist_ok=True)
    must_download = not any(store.glob("*.deb"))
    if must_download:
        download(release, PACKAGES)
    found = packages_in(store)
    # The copyright of libgcc-s1 is in another package, whose name has the version of the compiler.
    licence = re.search(r"gcc-[0-9]+-base", output("dpkg-deb", "--field", found["libgcc-s1"], "Depends")) if "libgcc-s1" in found else None
    names = [*PACKAGES, *([licence[0]] if licence else [])]
    if must_download and licence:
        download(release, [licence[0]])
        found = packages_in(store)
    if missing := set(names) - set(found):
        raise ReleaseError(f"{store} has no package {', '.join(sorted(missing))}")
    return {name: found[name] for name in sorted(names)}


def download(release, names):
    """Downloads packages with apt, which verifies them."""
    architecture = TARGETS[release.target].debian
    # The certificates are of no architecture. The user _apt may not write into the directory, so apt downloads as root and says so.
    names = [name if name == "ca-certificates" else f"{name}:{architecture}" for name in names]
    run("apt-get", "download", "-q", *names, cwd=release.debian_packages)


def packages_in(store):
    return {output("dpkg-deb", "--field", path, "Package"): path for path in sorted(store.glob("*.deb"))}


def package_list(debs):
    """Returns a line for each package: name, version, architecture and SHA-256 of its file."""
    fields = lambda path: output("dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", path)  # noqa: E731
    return "".join(f"{fields(path)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in debs.values())


def base_layer(release, debs):
    """Packs the files that all versions of the program need."""
    library = f"lib/{TARGETS[release.target].tools}"
    root = release.work / "debian"
    # A runtime mounts file systems at dev, proc and sys.
    empty = ("dev", "etc", "etc/ssl", "etc/ssl/certs", "home", "proc", "root", "run", "sys", "usr", "usr/lib", "usr/share", "usr/share/doc", "var",
             "var/lib", "var/lib/dpkg")
    entries = [directory(name) for name in empty]
    entries += [directory("tmp", mode=0o1777), directory("home/nonroot", mode=0o700, owner=USER), directory("var/lib/dpkg/status.d")]
    for name, deb in debs.items():
        (root / name).mkdir(parents=True)
        run("dpkg-deb", "--extract", deb, root / name)
        # Programs that look for known vulnerabilities read these files, as in distroless images.
        control = output("dpkg-deb", "--field", deb) + "\n"
        entries.append(Entry(f"var/lib/dpkg/status.d/{name}", content=control.encode()))
        doc = root / name / "usr/share/doc" / name
        if doc.is_symlink():
            entries.append(Entry(f"usr/share/doc/{name}", link=str(doc.readlink())))
        else:
            entries += [directory(f"usr/share/doc/{name}"), file(f"usr/share/doc/{name}/copyright", doc / "copyright")]
    entries += shared_libraries(library, [root / "libc6", root / "libgcc-s1"])
    authorities = sorted((root / "ca-certificates/usr/share/ca-certificates/mozilla").glob("*.crt"))
    if len(authorities) < 50:
        raise ReleaseError(f"ca-certificates has only {len(authorities)} authorities")
    bundle = b"".join(path.read_bytes().rstrip(b"\n") + b"\n" for path in authorities)
    texts = {"etc/passwd": PASSWD, "etc/group": GROUP, "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}
    entries += [Entry(name, content=text.encode()) for name, text in texts.items()]
    entries += [Entry("etc/ssl/certs/ca-certificates.crt", content=bundle), Entry("etc/os-release", link="../usr/lib/os-release")]
    entries.append(file("usr/lib/os-release", root / "base-files/usr/lib/os-release"))
    return write_layer(release, "base", entries)


def shared_libraries(library, roots):
    """Returns the shared libraries, without the converters of character sets, and the dynamic loader under its well-known name."""
    entries, parents = [], set()
    for root in roots:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root)).removeprefix("usr/")
            # Directly in the library directory, or /lib64, which has the loader of x86_64, or /lib, which has that of aarch64.
            parent = name.rpartition("/")[0]
            if ".so" not in path.name or parent not in (library, "lib", "lib64"):
                continue
            parents |= {parent} | ({"lib"} if parent == library else set())
            if path.is_symlink():
                entries.append(Entry(name, link=str(path.readlink())))
            else:
                # Libraries need no execute permission. The loader has it in Debian.
                entries.append(file(name, path))
    return entries + [directory(parent) for parent in parents]


def program_layer(release):
    entries = [directory(name) for name in ("usr", "usr/local", "usr/local/bin", "usr/share", "usr/share/doc", "usr/share/doc/parallax", "snapshots")]
    entries += [file("usr/local/bin/parallax", release.program), directory("data", mode=0o700, owner=USER)]
    licences = {"LICENSE-APACHE": release.source, "LICENSE-MIT": release.source, release.notices.name: release.notices.parent}
    entries += [file(f"usr/share/doc/parallax/{name}", place / name) for name, place in licences.items()]
    return write_layer(release, "program", entries)


def write_layer(release, name, entries):
    """Writes the archive of a layer. Returns its bytes before and after compression."""
    path = release.work / f"{name}.tar"
    write_tar(path, entries, release.epoch)
    content = path.read_bytes()
    return content, gzip_bytes(content, release.is_fast)


def instructions(containerfile):
    """Returns the instructions of the last stage of a Containerfile, each with its arguments as text."""
    joined = re.sub(r"\s*\\\n\s*", " ", containerfile)
    lines = [line for line in joined.split("\n") if line and not line.startswith("#")]
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return [tuple(line.split(" ", 1)) for line in lines[last:]]


def nanoseconds(duration):
    """Returns a duration such as 60s or 1m in nanoseconds."""
    seconds = {"s": 1, "m": 60, "h": 3600}
    return int(duration[:-1]) * seconds[duration[-1]] * SECOND_NS


def health_check(text):
    """Returns the health check in Docker's form, which podman and Docker read from an image."""
    options, _, command = text.partition("CMD ")
    names = {"--interval": "Interval", "--timeout": "Timeout", "--start-period": "StartPeriod"}
    check = {"Test": ["CMD", *json.loads(command)]}
    for option in options.split():
        name, _, value = option.partition("=")
        check[names[name]] = nanoseconds(value)
    return check


def container_config(release):
    """Returns the configuration of the container: that of the Containerfile, with labels."""
    config = {"User": f"{USER}:{USER}", "WorkingDir": "/home/nonroot", "StopSignal": "SIGTERM", "Env": [], "ExposedPorts": {}, "Volumes": {}}
    for name, text in instructions((release.source / "packaging/Containerfile").read_text()):
        if name == "ENV":
            config["Env"] += shlex.split(text)
        elif name == "EXPOSE":
            config["ExposedPorts"] |= {f"{port}/tcp": {} for port in text.split()}
        elif name == "VOLUME":
            config["Volumes"] |= {path: {} for path in text.split()}
        elif name == "HEALTHCHECK":
            config["Healthcheck"] = health_check(text)
        elif name == "ENTRYPOINT":
            config["Entrypoint"] = json.loads(text)
        elif name not in ("FROM", "COPY"):
            raise ReleaseError(f"packaging/Containerfile has the instruction {name}, which the image does not follow")
    config["Env"] += ["PATH=/usr/local/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]
    config["Labels"] = labels(release)
    return config


def created(release):
    return datetime.fromtimestamp(release.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels(release):
    name = "org.opencontainers.image"
    described = re.search(r'^description = "(.*)"$', (release.source / "Cargo.toml").read_text(), re.MULTILINE)[1]
    values = {
        f"{name}.title": "Parallax", f"{name}.description": described, f"{name}.version": release.version, f"{name}.created": created(release),
        f"{name}.revision": release.revision, f"{name}.licenses": "MIT OR Apache-2.0",
    }
    return values | ({f"{name}.source": release.repository} if release.repository else {})


def write_layout(release, layers):
    """Writes the archive of the layout: blobs named by their SHA-256, and an index that names the manifest."""
    blobs = {}

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def document(value, kind):
        return blob(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), kind)

    architecture = TARGETS[release.target].oci
    history = [{"created": created(release), "created_by": f"packaging/release: {name}"} for name in ("libraries of Debian", "the program")]
    config = {
        "created": created(release), "architecture": architecture, "os": "linux", "config": container_config(release), "history": history,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar, _ in layers]},
    }
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "annotations": labels(release),
        "config": document(config, "config.v1+json"), "layers": [blob(compressed, "layer.v1.tar+gzip") for _, compressed in layers],
    }
    described = document(manifest, "manifest.v1+json")
    described |= {"platform": {"architecture": architecture, "os": "linux"}, "annotations": {"org.opencontainers.image.ref.name": release.version}}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    entries = [directory("blobs"), directory("blobs/sha256"), Entry("oci-layout", content=b'{"imageLayoutVersion":"1.0.0"}')]
    entries += [Entry("index.json", content=json.dumps(index, sort_keys=True).encode())]
    entries += [Entry(f"blobs/sha256/{digest}", content=content) for digest, content in blobs.items()]
    archive = release.out / f"{release.name}.oci.tar"
    write_tar(archive, entries, release.epoch)
    check(release, archive)


def check(release, archive):
    """Lets skopeo, which reads images for container engines, read the archive."""
    if release.has_checker("skopeo", archive):
        run("skopeo", "inspect", "--config", f"oci-archive:{archive}")
