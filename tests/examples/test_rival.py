"""scripts/rival.sh, which builds another project's module from a git address for `make compare`."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from documents import PROJECT

# Not a hook's, which name its own repository.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    # A submodule of a folder, which git trusts in no other way.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
    **{f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


@unittest.skipIf(shutil.which("git") is None, "there is no git")
class RivalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        # The script works in the folder above its own.
        (self.root / "ours/scripts").mkdir(parents=True)
        shutil.copy(PROJECT / "scripts/rival.sh", self.root / "ours/scripts")

    def repository(self, name, files, submodule=None):
        folder = self.root / name
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        self.git(folder, "init", "--quiet", "--initial-branch", "main")
        if submodule:
            self.git(folder, "submodule", "--quiet", "add", str(submodule), "deps/t-digest-c")
        self.git(folder, "add", "--all")
        self.git(folder, "commit", "--quiet", "--message", "all")
        return folder

    def git(self, folder, *words):
        subprocess.run(["git", "-C", str(folder), *words], env=ENVIRONMENT, check=True)

    def theirs(self):
        """What the build asks of RedisBloom's sources, and a submodule as theirs."""
        digest = self.repository("digest", {"src/tdigest.c": "int digest(void) { return 7; }\n"})
        sources = {"Makefile": "_SOURCES=\\\n\tsrc/rebloom.c\n\n", "src/rebloom.c": "int bloom(void) { return 8; }\n"}
        return self.repository("theirs", sources, digest), digest

    def rival(self, given):
        script = self.root / "ours/scripts/rival.sh"
        return subprocess.run(
            [script, "redisbloom", given],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_a_git_address_becomes_a_module(self):
        """Whoever wants to check our figures would have to build the other module first."""
        theirs, _ = self.theirs()
        self.git(theirs, "tag", "v1")
        for address in [f"file://{theirs}", f"file://{theirs}#v1"]:
            done = self.rival(address)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertGreater((self.root / "ours" / done.stdout.strip()).stat().st_size, 1000)

    def test_the_step_that_failed_is_told(self):
        """An address that cannot be reached would look like an error of the compiler."""
        theirs, digest = self.theirs()
        digest.rename(self.root / "elsewhere")
        done = self.rival(f"file://{theirs}")
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        self.assertIn(f"rival: redisbloom: cannot build file://{theirs}; .build/rivals/", lines[-1])
        self.assertTrue(any("deps/t-digest-c" in line for line in lines), done.stderr)
        self.assertFalse(any("tdigest.c" in line for line in lines), done.stderr)

    def test_what_is_no_module_and_no_address_is_refused(self):
        """A misspelt path would be taken for a repository."""
        for given, why in [
            ("missing.so", "there is no missing.so"),
            ("redisbloom", "'redisbloom' is neither a module nor a git address"),
        ]:
            done = self.rival(given)
            self.assertEqual((done.returncode, done.stderr), (1, f"rival: redisbloom: {why}\n"))


if __name__ == "__main__":
    unittest.main()
