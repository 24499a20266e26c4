"""scripts/run.sh, which `make run` starts the server with, and scripts/setup.sh, which comes before every build.

Run it with `make test-examples`; servers.py tells how to run it by hand. The script runs in a folder of its
own, which has what it needs of the project.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import redis
from servers import MODULE, PATIENCE, PROGRAM, PROJECT, unused_port


class RunTest(unittest.TestCase):
    def setUp(self):
        self.project = Path(tempfile.mkdtemp(prefix="run-"))
        self.addCleanup(shutil.rmtree, self.project)
        (self.project / "scripts").mkdir()
        shutil.copy(PROJECT / "scripts/run.sh", self.project / "scripts")
        shutil.copy(PROJECT / "redis.conf", self.project)
        (self.project / "libbloom.so").symlink_to(MODULE.resolve())
        self.log = self.project / "log"

    def words(self, action, port, *arguments):
        return [str(self.project / "scripts/run.sh"), action, str(port), *arguments]

    def start(self, port, *arguments):
        """Starts the server; gives a client of it."""
        environment = {**os.environ, "SERVER": PROGRAM}
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                self.words("start", port, *arguments), env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        client = redis.Redis("127.0.0.1", port, socket_timeout=None)
        self.addCleanup(client.close)
        deadline = time.monotonic() + PATIENCE
        while True:
            self.assertIsNone(process.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), deadline, self.log.read_text())
            try:
                client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                time.sleep(0.02)
            else:
                self.process = process
                return client

    def stop(self, client):
        client.shutdown()
        self.process.wait(PATIENCE)

    def test_the_python_package_is_found_beside_the_module(self):
        """Who follows the README would get an ImportError: Python takes ./libbloom.so for the package."""
        shutil.copytree(PROJECT / "libbloom", self.project / "libbloom", ignore=shutil.ignore_patterns("__pycache__"))
        script = "import libbloom, libbloom._words; from libbloom import Filter; print(libbloom.__file__, Filter(9).add('one'))"
        (self.project / "script.py").write_text(script)
        for words in (["-c", script], ["script.py"]):
            done = self.run_python(*words)
            place, answer = done.stdout.split()
            self.assertEqual((done.stderr, done.returncode, answer), ("", 0, "True"))
            self.assertNotEqual(Path(place).resolve().parents[1], self.project.resolve())
        self.assertIn("Bloom filters in files", self.run_python("-m", "libbloom._program", "--help").stdout)
        # Without what is installed.
        done = self.run_python("-S", "-c", "import libbloom", PYTHONPATH="")
        self.assertIn("ImportError: the Python package libbloom is not installed; python/README.md says how", done.stderr)

    def run_python(self, *words, **variables):
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            cwd=self.project,
            env={**os.environ, **variables},
            timeout=PATIENCE,
        )

    def test_each_port_has_data_of_its_own(self):
        """Two servers in one folder would write over each other's files."""
        first, second = unused_port(self), unused_port(self)
        client = self.start(first)
        self.assertEqual(client.execute_command("BF.ADD", "seen", "a"), 1)
        self.stop(client)
        client = self.start(second)
        self.assertEqual(client.dbsize(), 0)
        self.stop(client)
        client = self.start(first)
        self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)
        folders = sorted(path.name for path in (self.project / "data").iterdir())
        self.assertEqual(folders, sorted([str(first), str(second)]))

    def test_a_rewritten_configuration_stays_and_is_no_tracked_file(self):
        """CONFIG REWRITE of a server that was started with redis.conf would be a change of the project."""
        before = (self.project / "redis.conf").read_bytes()
        port = unused_port(self)
        client = self.start(port)
        client.execute_command("BF.ADD", "seen", "a")
        client.config_set("maxmemory", "64mb")
        client.config_rewrite()
        self.stop(client)
        self.assertEqual((self.project / "redis.conf").read_bytes(), before)
        copy = self.project / f"data/{port}/redis.conf"
        self.assertEqual(len(re.findall("(?m)^loadmodule ", copy.read_text())), 1)

        client = self.start(port)
        self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})
        self.assertNotIn("has changed", self.log.read_text())
        self.stop(client)
        # An edit of redis.conf does not get lost in silence.
        with open(self.project / "redis.conf", "a") as file:
            file.write("hz 20\n")
        client = self.start(port)
        self.assertIn(f"run: redis.conf has changed, and so has its copy: data/{port}/redis.conf", self.log.read_text())
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})

    def test_an_edit_of_the_configuration_holds_from_the_next_start(self):
        port = unused_port(self)
        self.stop(self.start(port))
        with open(self.project / "redis.conf", "a") as file:
            file.write("hz 20\n")
        client = self.start(port, "--maxmemory", "64mb")
        self.assertEqual(client.config_get("hz"), {"hz": "20"})
        self.assertEqual(client.config_get("maxmemory"), {"maxmemory": str(64 << 20)})

    def test_a_port_in_use_is_told_in_a_line(self):
        """The server's own words are its whole start, and nothing about what to do."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for action in ("check", "start"):
                done = subprocess.run(self.words(action, port), capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                advice = rf"run: port {port} is in use: .*\(make run PORT={port + 1}\)\n"
                self.assertRegex(done.stderr, rf"^{advice}$")
        self.assertFalse((self.project / "data").exists())

    def test_what_is_no_port(self):
        """The server takes 0 for none, and a number with a 0 in front for another one, after a build of minutes."""
        for port in ("7000x", "0", "080", "65536", "70000", "99999999999999999999", "-1", ""):
            for action in ("check", "start"):
                done = subprocess.run(self.words(action, port), capture_output=True, text=True, timeout=PATIENCE)
                said = f"run: PORT is '{port}', and not a number from 1 to 65535\n"
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", said))
        self.assertFalse((self.project / "data").exists())

    def test_data_of_another_user_is_told_before_the_build(self):
        """Whoever started it as root once would wait for a build to be told of a denied permission."""
        port = unused_port(self)
        folder = self.project / "data" / str(port)
        folder.mkdir(parents=True)
        for path, mode in {self.project: 0o777, folder.parent: 0o777, folder: 0o555}.items():
            path.chmod(mode)
        done = as_nobody(self.words("check", port))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, rf"^run: you cannot write to {folder}: .*\n$")


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.project = Path(tempfile.mkdtemp(prefix="setup-"))
        self.addCleanup(shutil.rmtree, self.project)
        (self.project / "scripts").mkdir()
        shutil.copy(PROJECT / "scripts/setup.sh", self.project / "scripts")
        shutil.copy(PROJECT / "Cargo.toml", self.project)
        self.words = [str(self.project / "scripts/setup.sh")]

    def test_a_checkout_of_another_user_is_told_in_a_line(self):
        """Otherwise cargo would report only a denied permission."""
        self.project.chmod(0o777)
        for denied in ("target", "."):
            folder = self.project / denied
            folder.mkdir(exist_ok=True)
            folder.chmod(0o555)
            done = as_nobody([*self.words, "build"])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            said = rf"^setup: you cannot write to {folder.resolve()}, which is \S+'s: work in a clone of your own, .*\n$"
            self.assertRegex(done.stderr, said)
            folder.chmod(0o777)

    def test_a_tool_that_cargo_has_no_record_of_is_replaced(self):
        """Where it was copied, or came from another cargo, `cargo install` refuses, and no package would be made."""
        home = self.project / "cargo"
        (home / "bin").mkdir(parents=True)
        cargo = home / "bin/cargo"
        cargo.write_text(
            "#!/bin/sh\n"
            'case "$*" in\n'
            "    --version) echo cargo 9.9.9 ;;\n"
            '    "install --list") ;;\n'
            '    install*--force*) echo "$2" >>"$CARGO_HOME/installed" ;;\n'
            '    *) echo "binary already exists in destination" >&2; exit 101 ;;\n'
            "esac\n"
        )
        cargo.chmod(0o755)
        environment = {**os.environ, "CARGO_HOME": str(home)}
        done = subprocess.run([*self.words, "package"], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        installed = (home / "installed").read_text()
        self.assertRegex(installed, r"^cargo-auditable@[\d.]+\ncargo-cyclonedx@[\d.]+\n$")


class FreshTest(unittest.TestCase):
    def test_what_cannot_be_tried_is_told_before_a_debian_is_fetched(self):
        """A mistyped server, or no root rights, would come out after minutes."""
        folder = Path(tempfile.mkdtemp(prefix="fresh-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        (folder / "scripts").mkdir()
        script = shutil.copy(PROJECT / "scripts/fresh.sh", folder / "scripts")
        for arguments, said in {
            ("trixie", "redis"): "the server is 'redis', and neither redis-server nor valkey-server",
            ("trixie",): "root rights are needed: sudo make test-fresh",
        }.items():
            done = as_nobody([script, *arguments])
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"fresh: {said}\n"))


def as_nobody(words):
    """Runs a script as a user who is not root, for whom everything can be written."""
    named = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, **named)


if __name__ == "__main__":
    unittest.main()
