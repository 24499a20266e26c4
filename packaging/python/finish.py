#!/usr/bin/env python3
"""Does for a wheel and a source distribution what maturin leaves to others; the same ones give the same bytes.

    packaging/python/finish.py WHEEL SDIST

The licences of all crates that are in the wheel, which ask for it, go into it as .dist-info/licenses/THIRD-PARTY. Out of
its bill of materials go the paths of this machine.

The source distribution has the manifest of the module, from which the core inherits: only what the core needs is left
of it, since the module's sources are not there.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from time import gmtime
from urllib.parse import quote

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "scripts"))

import package  # noqa: E402


def main():
    try:
        wheel, sdist = map(Path, sys.argv[1:])
        finish(wheel, package.third_party(crates()))
        finish_sdist(sdist)
    except (package.Trouble, OSError, ValueError) as trouble:
        print(f"finish.py: {trouble}", file=sys.stderr)
        return 1
    return 0


def crates():
    """Where the sources of the crates that are in the wheel are: what runs while cargo builds is not."""
    host = re.search(r"^host: (.*)$", package.run("rustc", "-vV"), re.MULTILINE)[1]
    target = os.environ.get("CARGO_BUILD_TARGET", host)
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    found = json.loads(package.run(*words, "--manifest-path", PROJECT / "python/Cargo.toml"))
    manifests = {crate["id"]: crate for crate in found["packages"]}
    needs = {
        node["id"]: [
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
        for node in found["resolve"]["nodes"]
    }
    reached, ahead = set(), [found["resolve"]["root"]]
    while ahead:
        crate = ahead.pop()
        if crate in reached or any("proc-macro" in target["kind"] for target in manifests[crate]["targets"]):
            continue
        reached.add(crate)
        ahead += needs[crate]
    return sorted(Path(manifests[crate]["manifest_path"]).parent for crate in reached if manifests[crate]["source"])


def finish(wheel, licences):
    """Writes the wheel again, with the licences, and with the list of all files as they are then."""
    with zipfile.ZipFile(wheel) as old:
        files = {entry.filename: (old.read(entry), entry.external_attr) for entry in old.infolist()}
    [record] = [file for file in files if file.endswith(".dist-info/RECORD")]
    own = record.rpartition("/")[0]
    attributes = files[record][1]
    files[f"{own}/licenses/THIRD-PARTY"] = licences, attributes
    for file in files:
        if file.startswith(f"{own}/sboms/"):
            files[file] = files[file][0].replace(f"//{quote(str(PROJECT))}/".encode(), b"//./"), files[file][1]
    lines = [f"{file},sha256={digest(files[file][0])},{len(files[file][0])}" for file in sorted(files) if file != record]
    files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode(), attributes
    date = gmtime(max(package.source_time(), package.OLDEST_TIME))[:6]
    draft = wheel.with_name(wheel.name + ".new")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        # The list last, as wheels have it.
        for file in sorted(files, key=lambda file: (file == record, file)):
            entry = zipfile.ZipInfo(file, date)
            entry.external_attr, entry.compress_type = files[file][1], zipfile.ZIP_DEFLATED
            entry.create_system = 3
            new.writestr(entry, files[file][0])
    draft.replace(wheel)


def finish_sdist(path):
    """Writes the source distribution again, with the crates that it needs as the only members of its workspace."""
    with tarfile.open(path) as old:
        files = [(entry, old.extractfile(entry).read()) for entry in old.getmembers() if entry.isfile()]
    draft = path.with_name(path.name + ".new")
    with open(draft, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
            for entry, content in files:
                if entry.name.split("/")[1:] == ["Cargo.toml"]:
                    content = workspace_alone(content.decode()).encode()
                    entry.size = len(content)
                new.addfile(entry, io.BytesIO(content))
    draft.replace(path)


def workspace_alone(manifest):
    """The tables of the workspace, without its other members."""
    tables = re.split(r"^(?=\[)", manifest, flags=re.MULTILINE)
    inherited = [table for table in tables if re.match(r"\[workspace\.(package|lints|dependencies)", table)]
    return '[workspace]\nmembers = ["core", "rdb"]\n\n' + "".join(inherited)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.exit(main())
