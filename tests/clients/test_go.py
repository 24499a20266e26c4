"""go-redis: its own program in `go`, run against a server that is started here, and the README's session.

scripts/clients.sh fetches it, and says in a file `missing` why it could not.
"""

import os
import unittest

from common import INSTALLED, Case

FOLDER = INSTALLED / "go"
# Where the system's Go is too old.
GO_ROOTS = list(INSTALLED.glob("go-root/usr/lib/go-*"))


class GoTest(Case):
    @classmethod
    def setUpClass(cls):
        missing = FOLDER / "missing"
        if missing.exists():
            raise unittest.SkipTest(missing.read_text().strip())

    def run_go(self, package, *arguments):
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        for root in GO_ROOTS:
            environment["PATH"] = f"{root / 'bin'}:{environment['PATH']}"
        # By env, so that the program is looked for on this PATH.
        return self.run_program("env", "go", "run", package, *arguments, cwd=FOLDER, env=environment)

    def test_every_method(self):
        protocols = list(map(str, self.protocols()))
        printed = self.run_go(".", self.address, *protocols)
        self.assertEqual(printed, "".join(f"RESP{protocol}\n" for protocol in protocols))

    def test_the_session_in_the_readme(self):
        self.check_session("go", "go/readme/main.go", lambda: self.run_go("./readme"))


if __name__ == "__main__":
    unittest.main()
