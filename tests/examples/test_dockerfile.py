"""The Dockerfile's cargo step, on exactly the files that the Dockerfile gives it.

Run it with `make test-examples`. No image is built, so it needs no Docker: the files of the COPY lines that
.dockerignore lets through are laid out in a folder, and cargo runs there.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
# Where the crates are built already; a check leaves the module there alone.
TARGET = os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")
# Seconds until something that must happen has failed. Nothing is measured by it.
PATIENCE = 1800


def instructions():
    """The stages of the Dockerfile, each as (instruction, its words)."""
    stages = []
    for line in DOCKERFILE.replace("\\\n", " ").splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        elif stages and name.isupper():
            stages[-1].append((name, rest.strip()))
    return stages


def copies(stage):
    """(sources, destination) of a stage's files that come from the project."""
    for name, rest in stage:
        if name == "COPY":
            words = shlex.split(rest)
            if not any(word.startswith("--from=") for word in words):
                *sources, destination = [word for word in words if not word.startswith("--")]
                yield sources, destination


def context():
    """What .dockerignore lets through: it leaves out everything, then takes some paths in again."""
    first, *taken = (PROJECT / ".dockerignore").read_text().splitlines()
    if first != "*" or not all(line.startswith("!") for line in taken):
        raise AssertionError(".dockerignore has lines that this test does not know")
    return [line.removeprefix("!") for line in taken]


def is_let_through(path, taken):
    return any(path == other or path.startswith(f"{other}/") for other in taken)


class DockerfileTest(unittest.TestCase):
    def test_cargo_has_all_that_it_asks_for(self):
        """A target that Cargo.toml names, and that is not copied, ends every build of the image."""
        build, _ = instructions()
        [command] = [rest for name, rest in build if name == "RUN" and "cargo" in rest]
        words = shlex.split(command.split("&&")[0])
        self.assertEqual(words[:2], ["cargo", "build"])
        # What a check does not do is to generate code, which takes minutes and needs no further file. The profile
        # that the tests are built in has what builds the crates already.
        words[1] = "check"
        words[words.index("--release")] = "--profile=tested"
        with tempfile.TemporaryDirectory(prefix="docker-") as name:
            folder = Path(name)
            for sources, destination in copies(build):
                for source in sources:
                    self.copy(PROJECT / source, folder / destination, into=destination.endswith("/"))
            environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
            )
        self.assertEqual(done.returncode, 0, done.stderr)

    def copy(self, source, destination, into):
        """Copies files as COPY does, without what .dockerignore leaves out."""
        files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
        for path in files:
            if is_let_through(str(path.relative_to(PROJECT)), context()):
                target = destination / (path.name if into else path.relative_to(source))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)

    def test_what_is_copied_is_there(self):
        """COPY of a path that .dockerignore leaves out fails, and one that nothing copies is sent in vain."""
        taken = context()
        named = [source for stage in instructions() for sources, _ in copies(stage) for source in sources]
        self.assertEqual(sorted(named), sorted(taken))
        for path in named:
            self.assertTrue((PROJECT / path).exists(), path)


if __name__ == "__main__":
    unittest.main()
