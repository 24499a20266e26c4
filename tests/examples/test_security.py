"""docs/hardening.md: the tests that it names are there.

Run it with `make test-examples`. It reads files only.
"""

import re
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
ADVISORIES = "tests::integration::adversary::advisories"
TEST = re.compile(r"#\[test\](?:\s*#\[[^\]]*\])*\s*fn (\w+)|^\s+fn (\w+)\([^)]* in ", re.M)


def tests():
    """The path of every Rust file with tests, as modules have it, and the names of its tests."""
    files = {}
    for root in ("core/src", "core/tests", "src", "tests/integration"):
        for path in (PROJECT / root).rglob("*.rs"):
            text = path.read_text()
            found = {first or second for first, second in TEST.findall(text)}
            module = path.relative_to(PROJECT).with_suffix("").parts
            parts = [part for part in module if part != "mod"]
            if re.search(r"^mod tests \{", text, re.M):
                parts.append("tests")
            files["::".join(parts)] = found
    return files


def cells(text):
    """The last cell of each row of the tables that tell what was tried, and whether it is of an advisory."""
    of_advisories = False
    for line in text[text.index("## Bad input") :].splitlines():
        if line.startswith("#"):
            of_advisories = line == "## Advisories"
        elif line == "These cannot apply:":
            return
        elif line.startswith("| ") and not line.startswith("|---"):
            yield line.rstrip(" |").rsplit(" | ", 1)[1], of_advisories


class SecurityTest(unittest.TestCase):
    def test_every_test_that_is_named_is_there(self):
        """Who judges the module by what was tried would trust a test that nobody runs."""
        files, missing, seen = tests(), [], 0
        targets = {path.stem for path in (PROJECT / "fuzz/fuzz_targets").glob("*.rs")}
        for cell, of_advisories in cells((PROJECT / "docs/hardening.md").read_text()):
            for fuzzed in re.findall(r"fuzz ((?:`\w+`(?:, | and )?)+)", cell):
                missing += [name for name in re.findall(r"`(\w+)`", fuzzed) if name not in targets]
            for name in re.findall(r"`([\w:]+)`", re.sub(r"fuzz (?:`\w+`(?:, | and )?)+", "", cell)):
                seen += 1
                path = name if "::" in name or not of_advisories else f"{ADVISORIES}::{name}"
                path = "::" + path.removeprefix("::").removeprefix("bloom::")
                module, _, test = path.rpartition("::")
                is_test = any(f"::{file}".endswith(module) and test in found for file, found in files.items())
                is_module = any(f"::{file}".removesuffix("::tests").endswith(path) for file in files)
                if not (is_test or is_module):
                    missing.append(name)
        self.assertGreater(seen, 50)
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
