"""Runs the tests of the client libraries; the last line says what was skipped, and why.

`make test-clients` calls it.
"""

import sys
import unittest
from pathlib import Path


def main():
    tests = unittest.defaultTestLoader.discover(str(Path(__file__).parent))
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    reasons = dict.fromkeys(reason for _, reason in result.skipped)
    skipped = f"skipped: {'; '.join(reasons)}" if reasons else "nothing was skipped"
    outcome = "passed" if result.wasSuccessful() else "FAILED"
    print(f"clients: {result.testsRun} tests ran, {outcome}; {skipped}")
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
