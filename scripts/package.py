#!/usr/bin/env python3
"""Packs a built module for others: an archive, and on Debian's relatives a .deb beside it.

    scripts/package.py MODULE FOLDER

The archive is libbloom-VERSION-ARCH-SYSTEM.tar.gz, where SYSTEM is linux (glibc), linux-musl or macos. The
same module gives the same bytes, wherever and whenever it is packed: files are sorted, belong to root, and
have the time of the last commit, or of SOURCE_DATE_EPOCH. Nothing is fetched for it.

A module that needs a newer glibc than GLIBC_FLOOR is refused. `make package` builds the module and calls this.
"""

import argparse
import functools
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from email.utils import formatdate
from pathlib import Path
from time import gmtime

PROJECT = Path(__file__).resolve().parent.parent
PACKAGING = PROJECT / "packaging"
DEB_NAME = "redis-libbloom"
# The newest glibc that a module may need. RHEL 9 has 2.34, Ubuntu 22.04 2.35, Debian 12 2.36.
GLIBC_FLOOR = "2.34"
# What the tools say, and what the archive is named after.
MACHINES = {"x86-64": "x86_64", "littleaarch64": "aarch64", "arm64": "aarch64"}
DEB_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# How cargo names a crate of this project.
OWN_CRATE = "path+file:"
# 1980, which every archive can hold, for a source tree without a history.
OLDEST_TIME = 315_532_800


class Trouble(Exception):
    """Something that keeps the module from being packed."""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("module", type=Path, help="libbloom.so, or libbloom.dylib")
    parser.add_argument("folder", type=Path, help="where the packages go")
    parser.add_argument(
        "--built",
        type=Path,
        default=PROJECT / ".build/package/built.json",
        help="what cargo said when it built the module, as JSON (%(default)s)",
    )
    parser.add_argument(
        "--sbom",
        type=Path,
        default=PROJECT / ".build/package/sbom.json",
        help="what cargo-cyclonedx said of the crates (%(default)s)",
    )
    parser.add_argument(
        "--wheels",
        type=Path,
        default=PROJECT / ".build/package/wheel",
        help="where scripts/wheel.sh left the wheel of the Python package (%(default)s)",
    )
    parser.add_argument(
        "--glibc-floor",
        default=os.environ.get("GLIBC_FLOOR", GLIBC_FLOOR),
        help="newest version that may be needed (GLIBC_FLOOR, or %(default)s)",
    )
    options = parser.parse_args()
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="package-") as work:
            for package in pack(options, Path(work)):
                print(package)
    except (Trouble, OSError, subprocess.CalledProcessError) as trouble:
        print(f"package.py: {trouble}", file=sys.stderr)
        return 1
    return 0


def pack(options, work):
    module = work / options.module.name
    shutil.copy(options.module, module)
    platform = Platform(module)
    platform.check(options.glibc_floor)
    compilers = compilers_of(module, platform)
    strip(module, platform)
    crates = crate_folders(options.built)
    licences = third_party(crates)
    bill = sbom(options.sbom, module, crates, compilers)
    pages = {**documents(), **wheel(options.wheels)}
    yield archive(module, licences, bill, platform, pages, options.folder)
    if platform.system == "linux" and shutil.which("dpkg-deb"):
        yield deb(module, licences, bill, platform, pages, work / DEB_NAME, options.folder)


# ---- The module ----------------------------------------------------------------------------------


class Platform:
    """What a module runs on, read off the file itself."""

    def __init__(self, module):
        self.symbols = {}
        magic = module.read_bytes()[:4]
        if magic == b"\x7fELF":
            headers = run("objdump", "-p", module)
            machine = re.search(r"file format elf64-(\S+)", headers)[1]
            is_musl = re.search(r"NEEDED +libc\.(musl-\S+|so)$", headers, re.MULTILINE)
            self.system = "linux-musl" if is_musl else "linux"
            for library, number in re.findall(r" (GLIBC|GCC)_([0-9.]+)$", headers, re.MULTILINE):
                self.symbols.setdefault(library, set()).add(number)
        elif magic == b"\xcf\xfa\xed\xfe":
            machine, self.system = run("lipo", "-archs", module).strip(), "macos"
        else:
            raise Trouble(f"{module.name} is no shared library")
        self.machine = MACHINES.get(machine, machine)

    def newest(self, library):
        """The newest version of a library's symbols that the module asks for."""
        return max(self.symbols[library], key=numbers)

    def check(self, floor):
        if self.system == "linux" and numbers(self.newest("GLIBC")) > numbers(floor):
            raise Trouble(f"the module needs glibc {self.newest('GLIBC')}, above {floor}; build it on an older system")

    @property
    def needs(self):
        if self.system == "linux":
            return f"glibc {self.newest('GLIBC')} or later, and libgcc"
        return {"linux-musl": "musl 1.2 or later, and libgcc", "macos": "macOS 11 or later"}[self.system]


def numbers(version):
    return [int(number) for number in version.split(".")]


def strip(module, platform):
    """The server finds a module by its dynamic symbols, so nobody misses the others."""
    words = ["-x"] if platform.system == "macos" else ["--strip-unneeded", "--remove-section=.comment"]
    run("strip", *words, module)


def compilers_of(module, platform):
    """What built the module, as it says itself: whoever builds it again needs the same."""
    if platform.system == "macos":
        return []
    return sorted(re.findall(r"^ *\[ *[0-9a-f]+\] +(.*)$", run("readelf", "-p", ".comment", module), re.MULTILINE))


# ---- What is packed ------------------------------------------------------------------------------


def archive(module, licences, bill, platform, pages, folder):
    name = f"libbloom-{version()}-{platform.machine}-{platform.system}"
    files = {
        module.name: module.read_bytes(),
        "LICENSE": (PROJECT / "LICENSE").read_bytes(),
        "THIRD-PARTY": licences,
        "libbloom.cdx.json": bill,
        "REQUIREMENTS": f"libbloom {version()} for {platform.machine}\nneeds {platform.needs}\n".encode(),
        **pages,
        "README.md": readme("archive-readme.md", {"MODULE": module.name, "NEEDS": platform.needs}),
    }
    sums = "".join(f"{sha256(files[name])}  {name}\n" for name in sorted(files))
    files["SHA256SUMS"] = sums.encode()

    path = folder / f"{name}.tar.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            tar.addfile(member(name, 0o755, tarfile.DIRTYPE))
            for file in sorted(files):
                entry = member(f"{name}/{file}", 0o755 if file == module.name else 0o644)
                entry.size = len(files[file])
                tar.addfile(entry, io.BytesIO(files[file]))
    return path


def member(name, mode, kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, source_time()
    entry.uname = entry.gname = "root"
    return entry


def deb(module, licences, bill, platform, pages, root, folder):
    architecture = DEB_ARCHITECTURES.get(platform.machine)
    if architecture is None:
        raise Trouble(f"no .deb is made for {platform.machine}")
    doc = f"usr/share/doc/{DEB_NAME}"
    own = PACKAGING / "deb"
    files = {
        f"usr/lib/redis/modules/{module.name}": (module.read_bytes(), 0o755),
        "usr/lib/libbloom/server-arguments": ((own / "server-arguments").read_bytes(), 0o755),
        "usr/lib/libbloom/own-lines": ((own / "own-lines").read_bytes(), 0o644),
        "etc/libbloom/bloom.conf": ((PACKAGING / "bloom.conf").read_bytes(), 0o644),
        f"usr/share/lintian/overrides/{DEB_NAME}": ((own / "lintian-overrides").read_bytes(), 0o644),
        f"{doc}/copyright": (copyright_file(), 0o644),
        f"{doc}/changelog.gz": (packed(changelog()), 0o644),
        f"{doc}/third-party.txt.gz": (packed(licences), 0o644),
        f"{doc}/libbloom.cdx.json": (bill, 0o644),
    }
    # The pages are not compressed, because links from one to another would break.
    for name, content in {**pages, "README.md": readme("deb/readme.md", {"NAME": DEB_NAME})}.items():
        files[f"{doc}/{name}"] = (content, 0o644)
    for server in ("redis", "valkey"):
        drop_in = (own / "service.conf").read_text().replace("@SERVER@", server)
        files[f"usr/lib/systemd/system/{server}-server.service.d/libbloom.conf"] = (drop_in.encode(), 0o644)

    fields = {
        "VERSION": deb_version(),
        "ARCHITECTURE": architecture,
        # In KiB, each file for itself, as Debian counts.
        "SIZE": str(sum(-(-len(content) // 1024) for content, _ in files.values())),
        "DEPENDS": f"libc6 (>= {platform.newest('GLIBC')}), libgcc-s1 (>= {gcc_version(platform)})",
    }
    sums = "".join(f"{md5(files[name][0])}  {name}\n" for name in sorted(files))
    control = {
        "control": (filled(own / "control", fields), 0o644),
        "md5sums": (sums.encode(), 0o644),
        "conffiles": (b"/etc/libbloom/bloom.conf\n", 0o644),
    }
    for script in ("postinst", "prerm", "postrm"):
        control[script] = ((own / script).read_bytes(), 0o755)
    for name, content in control.items():
        files[f"DEBIAN/{name}"] = content

    write_tree(root, files)
    path = folder / f"{DEB_NAME}_{fields['VERSION']}_{architecture}.deb"
    # The compression is named, since Ubuntu's default is one that Debian 11 cannot read.
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path, SOURCE_DATE_EPOCH=str(source_time()))
    return path


def documents():
    """README.md, what it and the others link to and what examples read, under the paths that they have here."""
    kinds = {".md", ".svg", ".py", ".ts", ".txt", ".lua", ".yml", ".gz"}
    paths = [path for folder in ("docs", "examples") for path in (PROJECT / folder).rglob("*") if path.suffix in kinds]
    for pattern in ("benches/**/*.md", "core/examples/*.rs", "rdb/examples/*.rs"):
        paths += PROJECT.glob(pattern)
    paths += [PROJECT / name for name in ("README.md", "tests/fixtures/urls.txt.gz", "libbloom/__init__.py")]
    # The list grows meanwhile.
    for page in paths:
        links = re.findall(r"\]\((?!\w+:)([^)#\s]+)", page.read_text()) if page.suffix == ".md" else []
        linked = [(page.parent / link).resolve() for link in links]
        paths += [path for path in dict.fromkeys(linked) if path.is_file() and path not in paths]
    return {str(path.relative_to(PROJECT)): path.read_bytes() for path in sorted(paths)}


def wheel(folder):
    """The wheel of the Python package, which has the commands that pages name, and which some examples use."""
    wheels = sorted(folder.glob("libbloom-*.whl"))
    if len(wheels) != 1:
        raise Trouble(f"there is not one wheel in {folder}; `make package` makes it")
    return {f"python/{wheels[0].name}": wheels[0].read_bytes()}


def readme(beginning, fields):
    """README.md without what is about the source. The first such part becomes the package's own beginning."""
    text = (PROJECT / "README.md").read_text()
    first, *others = re.split(r"<!-- in the source only -->\n.*?<!-- until here -->\n", text, flags=re.DOTALL)
    if not others:
        raise Trouble("README.md does not say which parts are about the source")
    own = filled(PACKAGING / beginning, {"VERSION": version(), **fields}).decode()
    return (first + own + "".join(others)).encode()


def write_tree(root, files):
    for name, (content, mode) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (source_time(), source_time()))


def filled(template, fields):
    return re.sub(r"@(\w+)@", lambda match: fields[match[1]], template.read_text()).encode()


def copyright_file():
    """The MIT text stands in LICENSE; here it is indented, and a dot stands for an empty line."""
    text = (PROJECT / "LICENSE").read_text()
    mit = re.search(r"^(Permission is hereby granted.*?)\n=", text, re.DOTALL | re.MULTILINE)[1].strip()
    lines = [f" {line}" if line else " ." for line in mit.splitlines()]
    return filled(PACKAGING / "deb/copyright", {"MIT": "\n".join(lines), "YEAR": str(gmtime(source_time()).tm_year)})


def changelog():
    """Debian's form of a changelog; what changed is in CHANGELOG.md."""
    author = re.search(r"^Maintainer: (.*)", (PACKAGING / "deb/control").read_text(), re.MULTILINE)[1]
    return (
        f"{DEB_NAME} ({deb_version()}) unstable; urgency=medium\n\n"
        f"  * libbloom {version()}; CHANGELOG.md says what changed.\n\n"
        f" -- {author}  {formatdate(source_time())}\n"
    ).encode()


# ---- Facts ---------------------------------------------------------------------------------------


@functools.cache
def version():
    return re.search(r'^version *= *"(.*)"', (PROJECT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def deb_version():
    """1.0.0-rc.1 comes before 1.0.0 for Debian as 1.0.0~rc.1 only."""
    return version().replace("-", "~", 1)


def gcc_version(platform):
    """Of the symbols of libgcc_s; 4.2.0 is in every package of 4.2."""
    return re.sub(r"\.0$", "", platform.newest("GCC"))


@functools.cache
def source_time():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    try:
        return int(run("git", "-C", PROJECT, "log", "-1", "--format=%ct"))
    except (OSError, subprocess.CalledProcessError):
        return OLDEST_TIME


def third_party(crates):
    """The licences of the crates that are in the module, each as its crate has it."""
    parts = ["libbloom contains the Rust standard library (MIT OR Apache-2.0) and these crates.\n"]
    for crate in crates:
        fields = crate_fields(crate)
        title = f"{fields['name']} {fields['version']}: {fields['license']}\n{fields.get('repository')}"
        parts.append(f"\n{'=' * 78}\n{title}\n")
        # Some bring the sources of a library in C along.
        # From Python 3.13 on `**` also stands for files.
        folders = [crate, *(path for path in (crate / "c_src").glob("*/**") if path.is_dir())]
        found = [path for folder in folders for path in folder.iterdir()]
        texts = [path for path in found if re.match(r"(?i)(licen[cs]e|copying|notice)", path.name)]
        for path in sorted(texts):
            if path.is_file():
                parts.append(f"\n---- {path.name}\n\n{path.read_text(errors='replace')}")
    return "".join(parts).encode()


def crate_fields(crate):
    """What its Cargo.toml says in one line each."""
    manifest = (crate / "Cargo.toml").read_text()
    own = re.search(r"^\[package\]$(.*?)(?=^\[|\Z)", manifest, re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(r'^(\w+) = "(.*)"$', own, re.MULTILINE))


def sbom(path, module, crates, compilers):
    """What cargo-cyclonedx wrote, less the crates that only run in the compiler, and with the module itself.

    Time, order and paths are not those of this machine, so that the same module has the same one.
    """
    if not path.exists():
        raise Trouble(f"there is no {path}; `make package` makes it")
    bom = json.loads(path.read_text())
    root = bom["metadata"]["component"]
    own = root["bom-ref"]
    # The project's own crates are the module: what they need, it needs.
    parts = {own, *(part["bom-ref"] for part in bom["components"] if part["bom-ref"].startswith(OWN_CRATE))}
    needs = [entry for entry in bom["dependencies"] if entry["ref"] in parts]
    bom["dependencies"] = [entry for entry in bom["dependencies"] if entry["ref"] not in parts]
    bom["dependencies"].append({"ref": own, "dependsOn": [ref for entry in needs for ref in entry.get("dependsOn", [])]})
    wanted = {(fields["name"], fields["version"]) for fields in map(crate_fields, crates)}
    bom["components"] = [part for part in bom["components"] if (part["name"], part["version"]) in wanted]
    if len(bom["components"]) != len(wanted):
        raise Trouble(f"{path} is not of this build; `make package` makes it again")
    refs = {own, *(part["bom-ref"] for part in bom["components"])}
    for entry in bom["dependencies"]:
        entry["dependsOn"] = sorted(refs.intersection(entry.get("dependsOn", [])))
    bom["dependencies"] = [entry for entry in bom["dependencies"] if entry["ref"] in refs]

    digest = {"alg": "SHA-256", "content": sha256(module.read_bytes())}
    root["components"] = [{"type": "file", "name": module.name, "hashes": [digest]}]
    root["properties"] = [{"name": "libbloom:compiler", "value": compiler} for compiler in compilers]
    bom.pop("serialNumber", None)
    bom["metadata"]["timestamp"] = datetime.fromtimestamp(source_time(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = json.dumps(bom, indent=1, sort_keys=True)
    # The folder of the project is part of the name that cargo has for it.
    return (text.replace(json.dumps(own), json.dumps("bloom")) + "\n").encode()


def crate_folders(built):
    """Where the sources of the crates that are in the module are, sorted.

    `cargo metadata` would tell it too, and `cargo tree`, but only after they have fetched crates of the tests.
    """
    if not built.exists():
        raise Trouble(f"there is no {built}; `make package` makes it")
    messages = map(json.loads, built.read_text().splitlines())
    crates = [message for message in messages if message["reason"] == "compiler-artifact"]
    # What runs while cargo builds is not optimised.
    parts = [crate for crate in crates if "lib" in crate["target"]["kind"] and crate["profile"]["opt_level"] != "0"]
    return sorted({Path(part["manifest_path"]).parent for part in parts if not part["package_id"].startswith(OWN_CRATE)})


# ---- Tools ---------------------------------------------------------------------------------------


def run(*words, **environment):
    """What a program prints; where it fails, its own words are on standard error."""
    return subprocess.run(
        [str(word) for word in words],
        cwd=PROJECT,
        env={**os.environ, "LC_ALL": "C", **environment},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout


def packed(content):
    return gzip.compress(content, 9, mtime=0)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
