"""go-redis: the README's session, where Go is installed and its packages can be fetched."""

import re
import shutil
import subprocess
import unittest

from common import INSTALLED, PATIENCE, PROJECT, Case

FOLDER = INSTALLED / "go"


class GoTest(Case):
    @classmethod
    def setUpClass(cls):
        if shutil.which("go") is None:
            raise unittest.SkipTest("there is no Go, so no go-redis")

    def test_the_session_in_the_readme(self):
        promised = self.write_session("go", "go/main.go")
        shutil.copy(PROJECT / "tests/clients/go/go.mod", FOLDER)
        tidy = subprocess.run(["go", "mod", "tidy"], cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE)
        if re.search("dial tcp|no such host|i/o timeout", tidy.stderr):
            self.skipTest("Go's packages cannot be fetched, so there is no go-redis")
        self.assertEqual(tidy.returncode, 0, tidy.stderr)
        self.assertEqual(self.run_program("go", "run", ".", cwd=FOLDER), promised)


if __name__ == "__main__":
    unittest.main()
