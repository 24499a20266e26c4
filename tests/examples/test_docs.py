"""What the documentation shows is what happens: every session, program and command in README.md, docs and benches.

Sessions of redis-cli are typed into it, a page's sessions one after the other into the same server, which is
empty at first, and has another seed in each run: no number of a page depends on it; `...` in a reply stands for any text in a line, and `…` for any lines. Programs in Python are
run, and print what their comments `prints:` say, in which `...` is any text too. So are scripts of the shell, a
page's one after the other in one folder, where `urls.txt` has 59,226 URLs. Of other commands of the shell, those for
make name a target. Whatever else stands in a block is listed here, with the reason why it is not run.
"""

import functools
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import redis
from documents import PAGES, PROJECT, PROMPT, blocks, errors, facts, option_errors, permissions, promised_output
from servers import PATIENCE, URLS, Server

SESSION = "no client of this language here; `make test-clients` runs it"
# Their blocks are names, bytes and formulas.
LISTING = "lists names, bytes or formulas"
LISTINGS = {"design.md", "file.md"}
MIGRATION = "python/tests/test_migrate.py runs such commands"
SHARDED = "needs a cluster; python/tests/test_shard.py runs it"
KUBERNETES = "needs Kubernetes; tests/examples/test_containers.py looks at its paths"
IMAGE = "needs an engine for containers; `make test-image` does what it says"
LOG = "lines of the log; tests/examples/test_operations.py compares them with the source"
PACKAGE = "needs what `make package` builds; tests/package installs it"
JAVASCRIPT = "js/tests runs it, with `make test-js` and `make test-browser`"
COPY = "needs Redis 8 with RedisBloom; its page says with which it was followed"
# Blocks that are not run, by their pages and first lines, with the reason.
NOT_RUN = {
    "README.md: python3 -m venv .venv && . .venv/bin/activate": "fetches packages; the Makefile makes such a one",
    "README.md: redis-server --loadmodule ./libbloom.so": "takes port 6379; every test loads the module so",
    "docs/cache-penetration.md: import java.util.List;": SESSION + "; of the class for Spring only the scripts, here",
    "docs/clients.md: import { createClient } from \"redis\";": SESSION,
    "docs/clients.md: import redis.clients.jedis.JedisPooled;": SESSION,
    "docs/clients.md: package main": SESSION,
    "docs/kafka.md: package main": SESSION,
    "docs/configuration.md: loadmodule /usr/lib/redis/modules/libbloom.so bf-error-rate 0.001 "
    "bf-max-filter-bytes 512mb": "a line of a server's configuration file",
    "docs/install.md: the module for Bloom filters is not loaded: another module has the name 'bf': only one module "
    "for Bloom filters can be loaded: remove the other one, which the log or MODULE LIST names; in Redis 8's image, "
    "mount this one over redisbloom.so": "a line of the log; tests/integration/module/loading.rs reads it",
    "docs/operations.md: a Bloom filter of … was refused: bf-max-filter-bytes is …": LOG,
    "docs/operations.md: the Bloom filter has grown to … layers with … items: …": LOG,
    "docs/operations.md: it was missing when its primary added to it: …": LOG,
    "docs/operations.md: a Bloom filter was not loaded: format version … is not known": LOG,
    "docs/operations.md: the module for Bloom filters is not loaded: …": LOG,
    "docs/operations.md: error rate … is used as …": LOG,
    "docs/containers.md: docker build -t redis-libbloom .": IMAGE,
    "docs/containers.md: docker run --rm redis-libbloom --include /etc/libbloom/bloom.conf --appendonly yes": IMAGE,
    "docs/containers.md: podman run --health-cmd 'redis-cli ping | grep -q .' --health-interval 10s "
    "redis-libbloom": "needs podman",
    'docs/containers.md: docker run --rm -p 127.0.0.1:6379:6379 -v bloom:/data \\': IMAGE,
    "docs/containers.md: touch empty.so": IMAGE,
    "docs/containers.md: services:": "needs Docker; tests/examples/test_containers.py looks at its paths",
    "docs/kubernetes.md: apiVersion: v1": KUBERNETES,
    'docs/kubernetes.md: image: { registry: registry.example.com, repository: valkey-libbloom, tag: "1" }': KUBERNETES,
    'docs/kubernetes.md: image: { registry: registry.example.com, repository: redis-libbloom, tag: "1" }': KUBERNETES,
    'docs/kubernetes.md: image: { repository: registry.example.com/redis-libbloom, tag: "1" }': KUBERNETES,
    "docs/kubernetes.md: commonConfiguration: |-": KUBERNETES,
    "docs/copy-of-redis-8.md: mkdir copy": COPY,
    "docs/copy-of-redis-8.md: redis-cli -h your-server BGSAVE": COPY,
    'docs/copy-of-redis-8.md: docker run --rm -d --name copy -p 127.0.0.1:6380:6379 -v "$PWD/copy:/data" redis:8.0': COPY,
    "docs/copy-of-redis-8.md: for db in 0 1; do": COPY,
    "docs/copy-of-redis-8.md: redis-cli -p 6380 UNLINK cuckoo top counts times": COPY,
    "docs/copy-of-redis-8.md: chmod 755 libbloom.so": COPY,
    "docs/copy-of-redis-8.md: redis-cli -p 6380 DBSIZE": COPY,
    "docs/copy-of-redis-8.md: redis-cli -p 6380 SAVE": COPY,
    "docs/copy-of-redis-8.md: xargs -d '\\n' -n 1000 redis-cli -h your-server BF.MEXISTS seen < items.txt > old.txt": COPY,
    "docs/install.md: sudo dpkg -i redis-libbloom_0.5.0_amd64.deb": PACKAGE,
    "docs/install.md: tar -xzf libbloom-0.5.0-x86_64-linux.tar.gz": PACKAGE,
    "docs/install.md: sudo systemctl restart redis-server": PACKAGE,
    "docs/install.md: sha256sum --check --ignore-missing SHA256SUMS": "needs a release",
    "docs/install.md: make build": "takes port 6379",
    "docs/javascript.md: libbloom build leaked.txt --error-rate 0.001 -o leaked.bloom": "needs a list; python/tests/test_program.py runs such commands",
    "docs/javascript.md: <form>": JAVASCRIPT,
    'docs/javascript.md: import { Filter } from "libbloom";': JAVASCRIPT,
    'docs/javascript.md: import { createClient } from "redis";': JAVASCRIPT,
    'docs/javascript.md: import { createServer } from "node:http";': JAVASCRIPT,
    "docs/migration.md: redis-cli -h old SAVE": "needs two servers; " + MIGRATION,
    "docs/migration.md: redis-cli -h new REPLICAOF old 6379": "needs two servers; " + MIGRATION,
    "docs/migration.md: libbloom migrate copy redis://old:6379 redis://new:6379 --state copy.state --verify": MIGRATION,
    "docs/migration.md: psql --no-psqlrc -Atc 'SELECT url FROM pages' mydb |": "needs a database; " + MIGRATION,
    "docs/migration.md: 10  Redis 7.0": LISTING,
    "docs/migration.md: bf.bloom-fp-rate              bf.error-rate": LISTING,
    "docs/operations.md: prometheus-redis-exporter -redis.addr redis://localhost:6379 -script "
    "examples/prometheus/bf.lua": "tests/examples/test_prometheus.py runs one",
    "docs/deduplicate.md: libbloom uniq pages.jsonl.gz > once.jsonl": "python/tests/test_program.py runs it",
    "docs/deduplicate.md: mkdir -p once": "python/tests/test_program.py runs it",
    "docs/deduplicate.md: zcat shard-*.jsonl.gz | python3 divide.py": "python/tests/test_program.py runs it",
    "docs/python.md: libbloom passwords load redis://127.0.0.1 leaked --error-rate 0.001 --capacity 1e9 "
    "--file hashes.txt --state load.state": "needs a list; python/tests/test_passwords.py runs such commands",
    "docs/python.md: libbloom pull dump.rdb seen -o seen.bloom":
        "python/tests/test_program.py runs such commands",
    "docs/python.md: zcat urls.gz | libbloom build - -o seen.bloom --error-rate 0.001":
        "python/tests/test_program.py runs such commands",
    "docs/python.md: push   BF.LOADCHUNK EVAL TYPE EXISTS PTTL PEXPIRE PERSIST RENAME UNLINK": LISTING,
    "docs/sharding.md: N                 the number of shards, 1 to 65536": LISTING,
    "docs/sharding.md: name, create     the filter's name, and the arguments of ShardedBloom.create": LISTING,
    "docs/sharding.md: libbloom shard create seen --items 1e9 --error-rate 0.01 --url redis://127.0.0.1:7000": SHARDED,
    "docs/sharding.md: $ libbloom shard plan seen --items 1e9 --error-rate 0.01": "needs the package; "
    "python/tests/test_shard.py runs it",
}
# Pages that are followed from top to bottom, by tests of their own.
FOLLOWED = {PROJECT / "docs/tutorial.md": "tests/examples/test_tutorial.py"}
RUN = [page for page in PAGES if page not in FOLLOWED]
# Listed errors that no session shows, with the reason.
NOT_SHOWN = {
    "ERR Insufficient memory to shrink filter": "depends on the configuration or on the machine",
    "TRYAGAIN the key is being saved": "depends on a server that saves without a fork",
    "ERR Insufficient memory for exceptions": "depends on the configuration or on the machine",
    "ERR the filter has 16777216 exceptions, and can have no more than 16777216": "takes as many items",
    "ERR looking up 20000 items in 3000 layers would take too long: the product may be 33554432 at most": "takes a "
    "filter of as many layers",
    "ERR the filter is full: a further layer would have an error rate of 0, or too large a capacity": "takes "
    "a filter of an odd ratio",
    "ERR the filter would have more than 1100 layers: with a larger capacity or EXPANSION it needs fewer": "takes "
    "as many layers",
    "ERR looking up 2000 exceptions in 20000 layers would take too long: the product may be 8388608 at most": "takes "
    "as many exceptions and layers",
    "OOM command not allowed when used memory > 'maxmemory'.": "depends on the configuration",
    "ERR internal error, see the server's log": "takes a bug",
}
# Commands that RedisBloom does not have.
OWN = {
    *["bf.plan", "bf.addpacked", "bf.existspacked"],
    *["bf.merge", "bf.intersect", "bf.reset", "bf.shrink", "bf.except", "bf.load"],
}
COMMANDS = [page for page in PAGES if page.match("docs/commands/bf.*.md")]
CONFIGURATION = PROJECT / "docs/configuration.md"
# What that page says of ACL categories.
CATEGORIES = "all commands are in `@bloom`, and in `@read` or, if they write, in `@write`; `BF.RESERVE` also in `@fast`"
# Commands that take options of a filter, with a place for them.
WITH_OPTIONS = {
    "BF.RESERVE": "BF.RESERVE new 0.01 100 {words}",
    "BF.PLAN": "BF.PLAN 0.01 100 {words}",
    "BF.INSERT": "BF.INSERT new {words} ITEMS item",
    "BF.ADDPACKED": "BF.ADDPACKED new LINES {words} item",
}


def cli():
    """The client that sessions are shown with, Redis' or Valkey's."""
    return shutil.which("redis-cli") or shutil.which("valkey-cli")


def type_in(server, commands, *options):
    """What the client prints when these commands are typed in, without the time that it adds after half a second."""
    words = [cli(), "-p", str(server.port), "--no-raw", *options]
    text = "".join(command + "\n" for command in commands)
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return re.sub(r"^\(\d+\.\d\ds\)\n", "", done.stdout, flags=re.MULTILINE)


def is_as_shown(printed, shown):
    """Whether this was printed, where `...` stands for any text in a line and `…` for any lines."""
    pattern = re.escape(shown).replace(r"\.\.\.", ".*").replace("…", r"(?s:.*)")
    return re.fullmatch(pattern, printed) is not None


class SessionTest(unittest.TestCase):
    maxDiff = None

    def start(self):
        server = Server()
        server.__enter__()
        self.addCleanup(server.__exit__)
        with server.client() as client:
            about = client.info("server")
            self.is_old = about["redis_version"].startswith("6.")
        return server

    def test_sessions(self):
        if cli() is None:
            self.skipTest("there is no redis-cli")
        for page in RUN:
            sessions = [block for block in blocks(page) if block.is_session]
            if not sessions:
                continue
            server = self.start()
            for session in sessions:
                with self.subTest(session.name):
                    self.check_session(server, session.text.splitlines())

    def test_errors_of_options(self):
        """A user would look up a word for a filter, and the command at hand would answer otherwise."""
        server = self.start()
        rows = option_errors(PROJECT / "docs/commands/options.md")
        self.assertEqual({name for commands, _, _ in rows for name in commands}, set(WITH_OPTIONS))
        for commands, words, error in rows:
            for name in commands:
                line = WITH_OPTIONS[name].format(words=words)
                with self.subTest(line):
                    shown = error.replace("'bf.reserve'", f"'{name.lower()}'")
                    self.assertEqual(type_in(server, [line]).strip(), f"(error) {shown}")

    def test_every_command_refuses_a_key_that_holds_no_filter(self):
        """docs/commands/README.md says it once for all of them: of the first command of each page's sessions, every
        key is put in turn for one that holds something else."""
        wrong_type = "(error) WRONGTYPE Operation against a key holding the wrong kind of value"
        text = (PROJECT / "docs/commands/README.md").read_text()
        self.assertIn(f"\n{wrong_type}\n", text)
        for page in COMMANDS:
            if page.stem == "bf.plan":
                continue  # It has no key.
            server = self.start()
            lines = [line for block in blocks(page) if block.is_session for line in block.text.splitlines()]
            commands = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
            first = next(at for at, line in enumerate(commands) if line.startswith(page.stem.upper() + " "))
            type_in(server, [*commands[:first], 'SET text "no filter"'])
            keys = type_in(server, [f"COMMAND GETKEYS {commands[first]}"])
            keys = re.findall(r'^[0-9]+\) "(.*)"$', keys, re.MULTILINE)
            self.assertNotEqual(keys, [])
            for key in keys:
                wrong = re.sub(rf" {re.escape(key)}(?= |$)", " text", commands[first], count=1)
                with self.subTest(wrong):
                    self.assertEqual(type_in(server, [wrong]).strip(), wrong_type)

    def check_session(self, server, lines):
        options = []
        if lines[0].startswith("$ redis-cli"):
            options = lines.pop(0).split()[2:]
        if "-3" in options and self.is_old:
            return  # Modules have no RESP3 on Redis 6.2.
        commands = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
        shown = "\n".join(line for line in lines if not line.startswith(PROMPT))
        printed = "\n".join(line for line in type_in(server, commands, *options).splitlines() if line)
        self.check_output(printed, shown)

    def check_output(self, printed, shown):
        if not is_as_shown(printed, shown):
            self.assertEqual(printed, shown)

    def test_programs(self):
        """Who tries a program runs it again: then the filter is there, which must be no error."""
        for block in (block for page in RUN for block in blocks(page) if block.language == "python"):
            if "RedisCluster" in block.text:
                continue  # python/tests/test_shard.py runs it, on a cluster.
            if block.name.startswith("docs/deduplicate.md"):
                continue  # python/tests/test_program.py runs it.
            if "confluent_kafka" in block.text:
                continue  # test_kafka.py runs it, with a broker.
            with self.subTest(block.name):
                server = self.start()
                if self.is_old:
                    self.skipTest("here modules answer clients of RESP3 with 1 and 0, and programs print booleans")
                client = f"redis.Redis('127.0.0.1', {server.port}, socket_timeout=None, "
                program = block.text.replace("redis.Redis(", client)
                words = [sys.executable, "-c", program]
                folder = self.folder()
                self.run_shown(block, words, cwd=folder)
                again = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=folder)
                self.assertEqual((again.returncode, again.stderr), (0, ""))

    def test_scripts(self):
        if cli() is None:
            self.skipTest("there is no redis-cli")
        if "GNU" not in subprocess.run(["split", "--version"], capture_output=True, text=True).stdout:
            self.skipTest("this is not GNU's split")
        for page in RUN:
            scripts = [block for block in blocks(page) if block.language == "sh"]
            if not scripts:
                continue
            server, folder, programs = self.start(), self.folder(), self.folder()
            # Whoever reads the page has the server on its usual port, and the test has not.
            (programs / "redis-cli").write_text(f'#!/bin/sh\nexec "{cli()}" -p {server.port} "$@"\n')
            (programs / "redis-cli").chmod(0o755)
            environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
            for block in scripts:
                with self.subTest(block.name):
                    self.run_shown(block, ["bash", "-euc", block.text], cwd=folder, env=environment)

    def folder(self):
        """A folder where `urls.txt` is, and what it is made of."""
        folder = Path(tempfile.mkdtemp(prefix="docs-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "tests").symlink_to(PROJECT / "tests")
        (folder / "urls.txt").write_bytes(gzip.decompress(URLS.read_bytes()))
        return folder

    def run_shown(self, block, words, **named):
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, **named)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)
        self.check_output(done.stdout, promised_output(block.text))

    def test_flags_and_categories(self):
        with redis.Redis("127.0.0.1", self.start().port, protocol=2, socket_timeout=None) as client:
            client.response_callbacks.clear()
            # Redis 7.2 has categories for commands of modules, and none that a module makes.
            made = {"@bloom"} if b"bloom" in client.execute_command("ACL", "CAT") else set()
            self.assertIn(CATEGORIES, CONFIGURATION.read_text())
            table = permissions(CONFIGURATION)
            self.assertEqual(set(table), {page.stem.upper() for page in COMMANDS})
            for name, (_, shown) in table.items():
                [info] = client.execute_command("COMMAND", "INFO", name)
                flags, categories = ({word.decode() for word in info[index]} for index in (2, 6))
                with self.subTest(name):
                    self.assertEqual(set(shown.split()), flags - {"module"})
                    if categories:
                        also = {"@fast"} if name == "BF.RESERVE" else set()
                        also.add("@write" if "write" in flags else "@read")
                        self.assertEqual(made | also, categories)

    def test_complexities_versions_and_permissions(self):
        named = dict(protocol=2, decode_responses=True, socket_timeout=None)
        with redis.Redis("127.0.0.1", self.start().port, **named) as client:
            if self.is_old:
                self.skipTest("this server keeps no descriptions of commands")
            client.response_callbacks.clear()
            for page in COMMANDS:
                shown = facts(page)
                docs = described(client.execute_command("COMMAND", "DOCS", page.stem)[1])
                with self.subTest(page.name):
                    self.assertEqual(shown["complexity"], docs["complexity"])
                    own = {option["token"]: option["since"] for option in options(docs) if "since" in option}
                    whose = "this module" if page.stem in OWN else "RedisBloom"
                    since, _, newer = shown["since"].partition("; ")
                    self.assertEqual(since, f"{whose} {docs['since']}")
                    if whose == "RedisBloom":
                        self.assertEqual(set(re.findall(r"\b[A-Z]{2,}\b", newer)), set(own))
                        self.assertEqual(set(re.findall(r"[0-9.]+ of this module", newer)), versions(own))
                    [info] = client.execute_command("COMMAND", "INFO", page.stem)
                    needed = " and ".join(permissions_for(map(described, info[8]))) or "none for keys"
                    self.assertEqual(permissions(CONFIGURATION)[page.stem.upper()][0], needed)


class LuaTest(unittest.TestCase):
    def test_the_scripts_against_cache_penetration(self):
        """They must not hide a row: neither without a filter, nor before the filter is complete."""
        page = PROJECT / "docs/cache-penetration.md"
        may_exist, add, reserve = re.findall(r'RedisScript\.of\("""\n(.*?)"""', page.read_text(), re.DOTALL)
        with Server() as server, server.client() as client:
            ask = functools.partial(client.eval, may_exist, 1, "ids")
            self.assertEqual(ask("17"), 1)
            client.eval(reserve, 1, "new")
            client.eval(add, 2, "ids", "new", "17", "18")
            self.assertEqual(ask("no such id"), 1)
            client.rename("new", "ids")
            self.assertEqual(ask("no such id"), 1)
            client.eval(add, 2, "ids", "new", "ready")
            self.assertEqual(client.exists("new"), 0)
            self.assertEqual([ask(name) for name in ("17", "no such id")], [1, 0])


class OptionsTest(unittest.TestCase):
    def test_names_and_defaults(self):
        """Who copies a name that the server does not have gets an error, and who counts on a default another filter."""
        rows = re.findall(r"^\| `(bf-[a-z-]+)` \| (\S+) \|", CONFIGURATION.read_text(), re.MULTILINE)
        with Server() as server, server.client() as client:
            about = client.info("server")
            if about["redis_version"].startswith("6."):
                self.skipTest("this server has no configurations of modules")
            is_redis_8 = "valkey_version" not in about and int(about["redis_version"].split(".")[0]) >= 8
            # Elsewhere the names have a dot there.
            shown = {name if is_redis_8 else name.replace("-", ".", 1): default for name, default in rows}
            found = {name: value.split(":")[0] for name, value in client.config_get("bf*").items()}
            self.assertEqual(found, shown)


def permissions_for(keys):
    """What is needed for each of a command's keys. Where there are several, the first is the destination."""
    keys = list(keys)
    names = ["key"] if len(keys) == 1 else ["destination", "sources"]
    for key, name in zip(keys, names):
        reads, writes = "access" in key["flags"], {"insert", "update", "delete"} & {*key["flags"]}
        yield " and ".join(["to read"] * reads + ["to write"] * bool(writes)) + f" the {name}"


def described(flat):
    """A map of the server's in RESP2."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def options(docs):
    """The arguments of a command that is described, and those that they consist of."""
    for argument in map(described, docs.get("arguments", [])):
        yield argument
        yield from options(argument)


def versions(since):
    """The versions of options as pages tell them."""
    return {f"{version} of this module" for version in since.values()}


class ListTest(unittest.TestCase):
    def test_every_listed_error_is_shown_or_has_a_reason(self):
        """An error that a page lists in other words than the server's is looked up in vain."""
        left = set()
        for page in PAGES:
            sessions = "".join(block.text for block in blocks(page) if block.is_session)
            left |= {text for text in errors(page) if f"(error) {text}\n" not in sessions}
        self.assertEqual(left, set(NOT_SHOWN))

    def test_whatever_is_not_run_has_a_reason(self):
        left = set()
        for block in (block for page in RUN for block in blocks(page)):
            is_syntax = block.language == "text" and block.page in COMMANDS
            is_make = all(line.startswith("make ") for line in block.text.splitlines())
            is_run = block.is_session or block.language in ("python", "sh")
            if not (is_run or is_syntax or is_make or block.page.name in LISTINGS):
                left.add(block.name)
        self.assertEqual(left, set(NOT_RUN))

    def test_what_make_runs_can_be_run(self):
        """A script without the permission fails on every machine but that of who runs it by its shell."""
        rules = (PROJECT / "Makefile").read_text()
        lines = "\n".join(line for line in rules.splitlines() if line.startswith("\t"))
        run = set(re.findall(r"(?<!python3 )\b(?:scripts|tests/package)/[\w-]+\.\w+", lines))
        self.assertGreater(len(run), 12)
        for name in run:
            self.assertTrue(os.access(PROJECT / name, os.X_OK), name)

    def test_what_make_is_told_to_make_is_there(self):
        targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
        for page in [*PAGES, *PROJECT.glob("*.md"), *PROJECT.glob("examples/*.md")]:
            named = re.findall(r"(?:^|`)make ([a-z0-9-]+)", page.read_text(), re.MULTILINE)
            self.assertLessEqual(set(named), targets, page.name)

    def test_what_can_be_measured_is_named(self):
        """Whoever wants one figure should not have to measure all of them."""
        page = (PROJECT / "benches/README.md").read_text()
        script = (PROJECT / "benches/server/measurements.py").read_text()
        [table] = re.findall(r"^\| measurement \|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
        for maker in "BENCH", "COMPARE":
            [choices] = re.findall(rf"^{maker} = \[(.*)\]$", script, re.MULTILINE)
            self.assertLessEqual(set(choices.split(", ")), set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)))
        core = (PROJECT / "benches/core.rs").read_text()
        [subjects] = re.findall(r"^\| subject \| (.*) \|$", page, re.MULTILINE)
        names = set(re.findall(r'&group, "(\w+)"', core))
        self.assertEqual(set(re.findall(r"`(\w+)`", subjects)), names)

    def test_linked_files_are_there(self):
        for page in [*PAGES, *PROJECT.glob("*.md"), *PROJECT.glob("examples/*.md"), PROJECT / "python/README.md", PROJECT / "js/README.md"]:
            for link in re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")

    def test_every_command_has_a_page_that_is_linked(self):
        sources = (PROJECT / "src/commands").glob("*.rs")
        # An event has the name of its command.
        commands = {name for source in sources for name in re.findall(r'c"(bf\.[a-z]+)"', source.read_text())}
        self.assertEqual({page.stem for page in COMMANDS}, commands)
        index = (PROJECT / "docs/commands/README.md").read_text()
        self.assertEqual(set(re.findall(r"^- \[[A-Z.]+\]\((.*)\.md\)", index, re.MULTILINE)), commands)


if __name__ == "__main__":
    unittest.main()
