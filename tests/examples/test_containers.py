"""docs/containers.md and docs/kubernetes.md: what they mount, load and copy is there, and a server starts with it.

Run it with `make test-examples`. No container is started: the files that a command mounts are given to a server, as
the official entry point of Redis 8 gives it those of its folder. `make test-image` tries it with that entry point.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import redis
import yaml
from documents import blocks
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import MODULE, PATIENCE, PROGRAM, PROJECT, unused_port
from test_dockerfile import instructions

PAGE = PROJECT / "docs/containers.md"
KUBERNETES = PROJECT / "docs/kubernetes.md"
FOLDER = "/usr/local/lib/redis/modules"
OVER = f"{FOLDER}/redisbloom.so"
# A module that takes the name in its arguments.
NAMED = PROJECT / "tests/fixtures/modules/squatter.c"


def commands():
    """The words of each `docker run` of the page with Redis 8's official image."""
    for block in blocks(PAGE):
        for command in block.text.replace("\\\n", " ").splitlines():
            if command.startswith("docker run") and " redis:" in command:
                yield shlex.split(command)


def mounts_and_arguments(words):
    """What is mounted, as {place: file}, and the arguments of the server."""
    mounts = {}
    for word, value in zip(words, words[1:]):
        if word in ("-v", "--volume"):
            file, place, *_ = value.split(":")
            mounts[place] = Path(file).name
    image = next(index for index, word in enumerate(words) if word.startswith("redis:"))
    return mounts, words[image + 1 :]


def documents(language="yaml"):
    found = [block for page in (PAGE, KUBERNETES) for block in blocks(page)]
    return [yaml.safe_load(block.text) for block in found if block.language == language]


def in_image():
    """Where the Dockerfile puts the module."""
    _, image = instructions()
    [place] = [rest.split()[-1] for name, rest in image if name == "COPY" and rest.endswith("libbloom.so")]
    return place


class ContainersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="containers-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.named = self.folder / "named.so"
        source = shutil.copy(NAMED, self.folder)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", source, "-o", self.named], check=True, timeout=PATIENCE)

    def start(self, words):
        """Starts a server; gives a client of it, or nothing if it ended."""
        port = unused_port(self)
        head = [PROGRAM, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        with open(self.folder / "log", "wb") as log:
            process = subprocess.Popen([*head, *words], stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        client = redis.Redis("127.0.0.1", port, socket_timeout=None, retry=Retry(NoBackoff(), 0))
        self.addCleanup(client.close)
        for _ in range(PATIENCE * 50):
            if process.poll() is not None:
                return None
            try:
                client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                try:
                    process.wait(0.02)
                except subprocess.TimeoutExpired:
                    pass
            else:
                return client
        self.fail((self.folder / "log").read_text())

    def in_folder(self, mounts):
        """The arguments that the entry point makes of the folder: RedisBloom or what is over it, and a neighbour."""
        words = ["--loadmodule", str(self.named), "name", "ReJSON"]
        if OVER not in mounts:
            words += ["--loadmodule", str(self.named), "name", "bf"]
        elif mounts[OVER] == "libbloom.so":
            words += ["--loadmodule", str(MODULE.resolve())]
        # An empty file is not loaded.
        return words

    def test_redis_8_has_this_module_and_keeps_the_others(self):
        """Who follows the page's commands would get RedisBloom, or a server that does not start."""
        about = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
        if "v=6." in about:
            self.skipTest("a server before Redis 7 has no options of modules")
        # Before Redis 8, and in Valkey, the option's name has a dot.
        is_redis_8 = re.match(r"Redis server v=([89]|\d\d)\.", about)
        found = list(commands())
        self.assertEqual(len(found), 2)
        for words in found:
            mounts, arguments = mounts_and_arguments(words)
            place = next(place for place, file in mounts.items() if file == "libbloom.so")
            arguments = [str(MODULE.resolve()) if word == place else word for word in arguments]
            if not is_redis_8:
                arguments = [word.replace("--bf-", "--bf.") for word in arguments]
            # The order depends on the image's version.
            for given in (arguments + self.in_folder(mounts), self.in_folder(mounts) + arguments):
                with self.subTest(given):
                    client = self.start(given)
                    self.assertIsNotNone(client, (self.folder / "log").read_text())
                    self.assertEqual(client.execute_command("BF.ADD", "seen", "a"), 1)
                    names = {module[b"name"] for module in client.module_list()}
                    self.assertLessEqual({b"bf", b"ReJSON"}, names)
                    info = client.execute_command("BF.INFO", "seen", "FULL")
                    self.assertEqual(info[b"Error rate"], 0.001)
                    client.shutdown(nosave=True)

    def test_a_server_with_both_says_which_files_they_are(self):
        """Nobody would know why the container ends."""
        load = ["--loadmodule", str(MODULE.resolve())]
        both = self.in_folder({})
        self.assertIsNone(self.start(both + load))
        log = (self.folder / "log").read_text()
        self.assertIn("another module has the name 'bf'", log)
        self.assertIn("mount this one over redisbloom.so", log)
        # RedisBloom makes sure of its name and of its type.
        self.assertIsNone(self.start([*load, "--loadmodule", str(self.named), "type", "MBbloom--"]))
        self.assertIn(f"Can't load module from {self.named}", (self.folder / "log").read_text())

    def test_what_is_mounted_and_loaded_is_there(self):
        """A wrong path makes a container without the module, or one that does not start."""
        place = in_image()
        compose, pod, *charts = documents()
        self.assertIn(f"./libbloom.so:{OVER}:ro", compose["services"]["redis"]["volumes"])

        [copy] = pod["spec"]["initContainers"]
        self.assertEqual(copy["command"], ["cp", place, "/modules/"])
        [container] = pod["spec"]["containers"]
        [mount] = [mount for mount in container["volumeMounts"] if mount["mountPath"] == OVER]
        self.assertEqual(mount["subPath"], Path(place).name)
        self.assertEqual(mount["name"], copy["volumeMounts"][0]["name"])
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
        # The page says half.
        self.assertEqual(container["resources"]["limits"]["memory"], "4Gi")
        self.assertEqual(container["args"][:2], ["--maxmemory", "2gb"])

        self.assertEqual(len(charts), 4)
        for values in charts:
            pods = [values[name] for name in ("master", "replica") if name in values]
            [loaded] = set(re.findall(r"loadmodule\W+?(/[\w/.]+)", yaml.safe_dump(values)))
            if not pods:
                self.assertEqual(loaded, place)
            for pod in pods:
                [copy] = pod["initContainers"]
                self.assertEqual(copy["command"], ["cp", place, f"{Path(loaded).parent}/"])
                self.assertEqual(copy["volumeMounts"], pod["extraVolumeMounts"])
                [mount] = pod["extraVolumeMounts"]
                self.assertEqual(mount["mountPath"], str(Path(loaded).parent))
                self.assertEqual([volume["name"] for volume in pod["extraVolumes"]], [mount["name"]])


if __name__ == "__main__":
    unittest.main()
