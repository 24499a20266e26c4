"""docs/operations.md says what operators meet: every line that the module can log, every figure, and servers' words.

Run it with `make test-examples`; servers.py tells how to run it by hand.
"""

import re
import shlex
import time
import unittest

from servers import PATIENCE, PROJECT, Case, Server

import support  # noqa: E402

PAGE = (PROJECT / "docs/operations.md").read_text()
SOURCE = PROJECT / "src"
# Places that log what another function made, and where that is.
ELSEWHERE = {
    "src/limits.rs": "fn refusal",
    "src/stats.rs": "let line =",
    "src/options/mod.rs": "let line =",
    "src/server/log.rs": None,  # The kinds of lines themselves: who calls them has the text.
}
# Where the reasons come from why the module is not loaded.
LOADING = ["module.rs", "options/mod.rs", "call/mod.rs", "datatype/mod.rs", "stats.rs", "server/mod.rs"]


def code(path):
    """A file's text without its comments, its unit tests and what holds for all of it."""
    text = path.read_text().split("#[cfg(test)]\nmod ")[0]
    return re.sub(r"^\s*(//|#!\[).*\n", "", text, flags=re.MULTILINE)


def literals(text):
    """The strings in a text of the source, but those of C, which are names."""
    found = re.findall(r'(c?)"((?:[^"\\]|\\.|\\\n)*)"', text)
    return [shown(literal) for c, literal in found if not c and re.search("[a-z]", literal)]


def shown(literal):
    """A text of the source as the page has it: one line, `…` for what differs."""
    text = re.sub(r"\\\n\s*", "", literal)
    return re.sub(r"\{[^}]*\}", "…", text)


def balanced(text, start, brackets="()"):
    """The text from the bracket at `start` to the one that closes it; brackets in strings are pairs too."""
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == brackets[0]) - (text[end] == brackets[1])
        if depth == 0:
            return text[start : end + 1]
    raise AssertionError(f"nothing closes {text[start:start + 40]!r}")


def logged():
    """Every text that the module gives to the log, by the place that does it."""
    for path in sorted(SOURCE.rglob("*.rs")):
        name, text = str(path.relative_to(PROJECT)), code(path)
        for call in re.finditer(r"(?<!fn )\b(log::[A-Z]+\.warn|warn|note)\(", text):
            found = literals(balanced(text, call.end() - 1))
            if not found:
                where = ELSEWHERE[name]
                if where is None:
                    continue
                start = text.index(where)
                ends = "{}" if where.startswith("fn") else "()"
                found = literals(balanced(text, text.index(ends[0], start), ends))
            yield from ((name, text) for text in found)


def reasons():
    """Why the module is not loaded, as the log says it."""
    made = r'(?:Err|ok_or|ok_or_else|map_err|map_or_else|return)\s*(\()'
    for name in LOADING:
        # What is taken is a part of the text of `name_conflict`.
        text = re.sub(r'name_conflict\(&format!\(".*?"\)\)', "name_conflict()", code(SOURCE / name))
        if name == "server/mod.rs":
            [text] = re.findall(r"^pub fn name_conflict.*?^}", text, re.MULTILINE | re.DOTALL)
            made = r"format!(\()"
        for call in re.finditer(made, text):
            yield from ((f"src/{name}", found) for found in literals(balanced(text, call.start(1))))
    [text] = re.findall(r"^fn name_is_taken.*?^}", code(SOURCE / "module.rs"), re.MULTILINE | re.DOTALL)
    yield "src/module.rs", next(text for text in literals(text) if " is loaded" in text)


def is_shown(text, line):
    """Whether the page's line has this text of the source. A line that ends with `…` may end within the text."""

    def pattern(shown):
        return re.escape(shown.strip("…:, ")).replace("…", ".+")

    is_beginning = line.endswith("…") and re.match("(… )?" + pattern(line), text)
    return bool(is_beginning or re.search(pattern(text), line))


class PreparedServer(Server):
    """One that starts on these files, with more options."""

    def __init__(self, files, *options):
        super().__init__()
        self.files = files
        self.ARGUMENTS = options

    def launch(self, port):
        for name, content in self.files.items():
            (self.home / name).write_bytes(content)
        return super().launch(port)


class ServerWithoutModule(PreparedServer):
    def command(self, port):
        words = super().command(port)
        at = words.index("--loadmodule")
        return words[:at] + words[at + 2 :]


def append_only(*commands):
    """An append-only file of these commands, as all servers read it."""
    lists = (shlex.split(command) for command in commands)
    parts = ([f"*{len(words)}", *(f"${len(word)}\r\n{word}" for word in words)] for words in lists)
    return {"appendonly.aof": "".join("\r\n".join([*part, ""]) for part in parts).encode()}


class LaterVersionTest(Case):
    """What a server says that meets what only a later version of the module knows, or that has no module."""

    LATER = "BF.INSERT later SPEC2:g:1e-2:100:2:9:0"

    def stored(self):
        """An RDB file with a filter."""
        server, client = self.start(PreparedServer({}, "--rdbchecksum", "no", "--rdbcompression", "no"))
        client.execute_command("BF.ADD", "key", "item")
        client.save()
        return (server.home / "dump.rdb").read_bytes()

    def log_of_refusal(self, server):
        with self.assertRaises(support.Trouble) as caught:
            self.start(server)
        return str(caught.exception)

    def is_said(self, text, log):
        """The log has the words that the page shows."""
        self.assertIn(text, log)
        self.assertIn(text, PAGE)

    def test_a_file_of_a_later_format(self):
        """Whoever goes back to an older module would look for damage, or find a server that lost its filters."""
        file = self.stored()
        version = bytes([2, 3, 2, 0, 5])  # The format version, 0, and the header's beginning.
        self.assertEqual(file.count(version), 1)
        later = file.replace(version, bytes([2, 5, 2, 0, 5]))
        log = self.log_of_refusal(PreparedServer({"dump.rdb": later}))
        self.is_said("a Bloom filter was not loaded:", log)
        self.assertIn("<bf> key 'key': a Bloom filter was not loaded: format version 5 is not known\n", log)
        self.assertIn("format version … is not known", PAGE)

    def test_words_of_a_later_version(self):
        """A server that starts with other filters than it had is the worst end of a rollback."""
        files = append_only(self.LATER, "BF.INSERT known SPEC1:g:1e-2:100:2:9:0")
        server, client = self.start(PreparedServer(files, "--appendonly", "yes"))
        self.is_said("This server is sending an error to its AOF-loading-client", server.log())
        self.assertEqual(client.keys(), [b"known"])
        self.assertEqual(client.info("stats")["unexpected_error_replies"], 1)
        if client.info("server")["redis_version"].startswith("6."):
            return
        strict = ["--propagation-error-behavior", "panic"]
        self.assertIn(f"`{' '.join(strict)}`", PAGE)
        quick = ["--crash-memcheck-enabled", "no"]
        log = self.log_of_refusal(PreparedServer(files, "--appendonly", "yes", *strict, *quick))
        self.assertIn("This server panicked sending an error to its AOF-loading-client", log)

    def test_a_replica_out_of_step(self):
        """A replica would go its own way, and its operator not know how to bring it back."""
        primary, client = self.start(PreparedServer({}, "--repl-diskless-sync-delay", "0"))
        replica, follower = self.start(PreparedServer({}, "--replicaof", "127.0.0.1", str(primary.port)))
        self.follows(follower)
        client.execute_command("BF.ADD", "key", "item")
        # As long as the replica has no other filter, its primary could be a RedisBloom.
        client.execute_command("BF.ADD", "another", "item")
        client.wait(1, 1000 * PATIENCE)
        self.assertEqual(follower.dbsize(), 2)
        self.assertEqual(follower.info("stats")["unexpected_error_replies"], 0)
        follower.config_set("replica-read-only", "no")
        follower.delete("key")
        client.execute_command("BF.ADD", "key", "other")
        client.execute_command("BF.EXCEPT", "key", "other")
        client.wait(1, 1000 * PATIENCE)
        self.is_said("This replica is sending an error to its", replica.log())
        self.is_said("it was missing when its primary added to it:", replica.log())
        self.is_said("succeeded originally, and failed here:", replica.log())
        self.assertEqual(follower.info("stats")["unexpected_error_replies"], 1)
        self.assertNotEqual(follower.dump("key"), client.dump("key"))
        # What the page says to do then.
        follower.replicaof("NO", "ONE")
        follower.replicaof("127.0.0.1", primary.port)
        self.follows(follower)
        self.assertEqual(follower.dump("key"), client.dump("key"))

    def follows(self, follower):
        deadline = time.monotonic() + PATIENCE
        while follower.info("replication")["master_link_status"] != "up":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_without_the_module(self):
        """An operator who does not know why the server refuses to start may delete the data."""
        log = self.log_of_refusal(ServerWithoutModule({"dump.rdb": self.stored()}))
        self.is_said("no matching module type 'MBbloom--'", log)
        files = append_only("BF.INSERT key SPEC1:g:1e-2:100:2:9:0 a")
        log = self.log_of_refusal(ServerWithoutModule(files, "--appendonly", "yes"))
        self.is_said("unknown command 'BF.INSERT'", log.replace("Unknown", "unknown"))
        self.is_said("reading the append only file", log)


class PageTest(Case):
    def test_every_figure_is_on_the_page(self):
        """A figure that nobody knows is watched by nobody."""
        _, client = self.start()
        figures = {name for name in client.execute_command("INFO", "bf") if name.startswith("bf_")}
        [section] = re.findall(r"^## What to watch\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
        self.assertEqual(set(re.findall(r"`(bf_\w+)`", section)), figures)

    def test_errors_are_those_of_the_module(self):
        """A text that is not answered is looked for in vain."""
        [section] = re.findall(r"^## In an emergency\n(.*)", PAGE, re.MULTILINE | re.DOTALL)
        errors = code(SOURCE / "call/error.rs")
        shown_errors = re.findall(r"`(ERR [^`]*|another seed)`", section)
        self.assertEqual(len(shown_errors), 4)
        [most] = re.findall(r"pub const MOST_LAYERS: usize = (\d+);", code(PROJECT / "core/src/chain/mod.rs"))
        for text in shown_errors:
            self.assertIn(text, errors.replace("{MOST_LAYERS}", most))

    def test_anchors_are_there(self):
        """A link to a heading that is gone leads to the top of a long page."""
        for file, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", PAGE):
            page = (PROJECT / "docs" / file).read_text() if file else PAGE
            titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            self.assertIn(anchor, anchors, file)


class LogTest(unittest.TestCase):
    def lines(self):
        """The lines of the log that the page lists, without the key and the remark."""
        [section] = re.findall(r"^## What the log says\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
        listings = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        return [line.split("  #")[0].strip() for listing in listings for line in listing.splitlines()]

    def test_every_line_is_on_the_page(self):
        """An operator who is woken by a line finds nothing about it."""
        lines, used = self.lines(), set()
        for place, text in [*logged(), *reasons()]:
            shown_by = [line for line in lines if is_shown(text, line)]
            with self.subTest(place, text=text):
                self.assertNotEqual(shown_by, [])
            used.update(shown_by)
        # Nor is he told of lines that there are no more.
        self.assertEqual(set(lines) - used, set())

    def test_the_reader_of_the_source_reads_it(self):
        """A text that the reader does not see is not looked for on the page."""
        found = {text for _, text in logged()}
        self.assertGreaterEqual(len(found), 18)
        for text in ("a Bloom filter was not copied: …", "error rate … is used as …", "… … is used as …"):
            self.assertIn(text, found)


if __name__ == "__main__":
    unittest.main()
