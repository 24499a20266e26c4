"""The types of the package, as mypy --strict reads them in a program of a user's."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TYPED = Path(__file__).with_name("typed.py")


class TypesTest(unittest.TestCase):
    def test_a_type_checker_accepts_what_works_and_names_what_does_not(self):
        """A wrong call would be found when the program runs, and a right one underlined in every editor."""
        expected = [
            (number, line.partition("  # E: ")[2])
            for number, line in enumerate(TYPED.read_text().splitlines(), 1)
            if "  # E: " in line
        ]
        with tempfile.TemporaryDirectory() as folder:
            # Away from the source, so that the installed package is read.
            shutil.copy(TYPED, folder)
            command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "--no-error-summary", TYPED.name]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        said = re.findall(r"^typed.py:(\d+): error: (.*?)  \[[-\w]+\]$", done.stdout, re.MULTILINE)
        self.assertEqual(len(said), done.stdout.count(": error: "), done.stdout)
        self.assertEqual([int(number) for number, _ in said], [number for number, _ in expected], done.stdout)
        for (_, text), (number, begin) in zip(said, expected):
            self.assertTrue(text.startswith(begin), f"{number}: {text}")


if __name__ == "__main__":
    unittest.main()
