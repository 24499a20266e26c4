"""`libbloom passwords`, tried as its users would, with a generated list."""

import gzip
import hashlib
import json
import subprocess
import unittest

from test_migrate import PATIENCE, Case, command

COUNT = 20_000
ERROR = 0.0001


def password(number):
    return b"secret %d" % number


def listed(number):
    """A line of the usual lists: the hash in capitals, and how often it was met."""
    return b"%s:%d\r\n" % (hashlib.sha1(password(number)).hexdigest().upper().encode(), number % 7)


class PasswordsTest(Case):
    def setUp(self):
        super().setUp()
        self.server, self.client = self.start()
        self.url = self.server.url
        self.list = self.folder / "list.txt"

    def words(self, way, *arguments):
        return command("passwords", way, self.url, "leaked", *map(str, arguments))

    def run_program(self, *arguments, exit_code=0, **named):
        done = subprocess.run(self.words(*arguments), capture_output=True, timeout=PATIENCE, **named)
        text = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertNotIn("Traceback", text)
        return text

    def load(self, *arguments, **named):
        return self.run_program("load", "--error-rate", ERROR, "--capacity", COUNT, "--file", self.list, *arguments, **named)

    def check(self, passwords, exit_code):
        lines = b"".join(line + b"\n" for line in passwords)
        return self.run_program("check", "--stdin", input=lines, exit_code=exit_code)

    def test_every_leaked_password_is_found(self):
        self.list.write_bytes(gzip.compress(b"".join(map(listed, range(COUNT)))))
        self.assertIn(f"{COUNT:,} items, ", self.load())
        text = self.check(map(password, range(COUNT)), exit_code=1)
        self.assertIn(f"{COUNT:,} of {COUNT:,} passwords are probably leaked", text)

    def test_others_are_found_at_the_error_rate_at_most(self):
        self.list.write_bytes(b"".join(map(listed, range(COUNT))))
        self.load()
        others = [b"other %d" % number for number in range(COUNT)]
        hashes = [hashlib.sha1(other).digest() for other in others]
        found = sum(self.client.execute_command("BF.MEXISTS", "leaked", *hashes))
        # Two are expected; more than 15 come once in 10^8 runs.
        self.assertLessEqual(found, 15)
        text = self.check([*others[:1000], password(3)], exit_code=1)
        self.assertIn("line 1001: probably leaked\n", text)
        for secret in (b"secret 3", b"other 0"):
            self.assertNotIn(secret.decode(), text, "no password is printed")

    def test_a_list_of_passwords(self):
        self.list.write_bytes(b"first\n\nsecond\r\nse\xff:1")
        self.load("--plain")
        self.assertEqual(self.client.execute_command("BF.CARD", "leaked"), 4)
        self.assertIn("4 of 4 ", self.check([b"first", b"", b"second\r", b"se\xff:1"], exit_code=1))
        self.assertEqual(self.check([b"third", b"second\r\r"], exit_code=0), "0 of 2 passwords are probably leaked\n")

    def test_a_list_that_goes_meanwhile_is_an_error(self):
        """Every leaked password would be called safe."""
        self.list.write_bytes(b"".join(map(listed, range(10))))
        self.load()

        def passed(block):
            if b"BF.MEXISTS" in block:
                self.client.delete("leaked")
            return block

        self.url = self.open(self.server, passed).url
        self.assertEqual(self.check(map(password, range(10)), exit_code=2), "libbloom: there is no leaked\n")

    def test_where_there_are_no_packed_commands_it_is_the_same(self):
        """RedisBloom and earlier versions have none; a user may not be allowed to send them."""
        self.list.write_bytes(b"".join(map(listed, range(2000))))
        self.load()
        passwords = [password(number) for number in range(1500, 2500)] + [b"", b"\xff"]
        text = self.check(passwords, exit_code=1)
        self.assertIn("500 of 1,002 passwords are probably leaked", text)
        self.client.execute_command("ACL", "SETUSER", "old", "on", ">pw", "~*", "+@all", "-bf.existspacked")
        older = self.start_older(self.server)
        for self.url in (older.url, self.server.url.replace("//", "//old:pw@")):
            self.assertEqual(self.check(passwords, exit_code=1), text)

    def test_a_killed_load_goes_on(self):
        count = 400_000
        with open(self.list, "wb") as file:
            file.writelines(map(listed, range(count)))
        state = ["--state", self.state]
        held, release = self.hold(self.server, self.has_begun)
        self.url = held.url
        process = subprocess.Popen(
            self.words("load", "--error-rate", ERROR, "--capacity", count, "--file", self.list, *state),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_until(self.has_begun)
        process.kill()
        process.wait()
        release()
        before = self.client.execute_command("BF.CARD", "leaked")
        self.assertLess(before, count, "it was killed too late")
        self.assertGreater(before, 0)

        text = self.run_program("load", "--error-rate", ERROR, "--capacity", count, "--file", self.list, *state)
        self.assertNotIn(f"{count:,} items, ", text)
        self.assertEqual(json.loads(self.state.read_text())["lines"], count)
        for start in range(0, count, 10_000):
            hashes = [hashlib.sha1(password(number)).digest() for number in range(start, start + 10_000)]
            self.assertEqual(sum(self.client.execute_command("BF.MEXISTS", "leaked", *hashes)), 10_000)

    def test_a_line_that_is_no_hash_is_named_by_its_number(self):
        """One line of a billion would have to be searched for by its length."""
        good = [b"", *map(listed, range(3000)), b"\r\n"]
        self.list.write_bytes(b"".join(good) + b"hunter2\n")
        said = "libbloom: line 3,002, of 7 bytes, is no SHA-1 hash; --plain is for a list of passwords"
        self.assertIn(said, self.load("--state", self.state, "--batch", 10, exit_code=2))
        # Not counted from where the earlier run ended.
        self.assertEqual(json.loads(self.state.read_text())["lines"], 3000)
        self.assertIn(said, self.load("--state", self.state, "--batch", 10, exit_code=2))

    def test_what_cannot_run_says_why(self):
        # A filter that is not there would call every password safe.
        self.assertIn("libbloom: there is no leaked", self.check([b"a"], exit_code=2))
        self.list.write_bytes(listed(1) + b"hunter2\n")
        text = self.load(exit_code=2)
        self.assertIn("libbloom: line 2, of 7 bytes, is no SHA-1 hash; --plain is for a list of passwords", text)
        self.assertNotIn("hunter2", text)
        self.assertIn("--error-rate is needed", self.run_program("load", exit_code=2))


if __name__ == "__main__":
    unittest.main()
