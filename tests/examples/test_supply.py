"""What comes from others: the actions of the workflows, and the crates of the module and the Python package.

Run it with `make test-examples`. It reads files only.
"""

import re
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
# A tag can be moved to other code, a commit cannot; its version is for the reader and for Dependabot.
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


class SupplyTest(unittest.TestCase):
    def test_actions_are_pinned(self):
        """Who takes over an action would run code in our releases, signed as ours."""
        used = [
            (f"{path.name}:{number}", line.split("uses:", 1)[1].strip())
            for path in WORKFLOWS
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if re.match(r"\s*(- )?uses:", line)
        ]
        self.assertGreaterEqual(len(used), 20)
        pins = {}
        for place, action in used:
            if not action.startswith("./"):
                self.assertRegex(action, PINNED, place)
                name, _, pin = action.partition("@")
                pins.setdefault("/".join(name.split("/")[:2]), set()).add(pin)
        # One version of each, so that nobody has to wonder which was looked at.
        self.assertEqual({name: found for name, found in pins.items() if len(found) > 1}, {})

    def test_every_dependency_has_its_reason(self):
        """A crate that nobody argued for, or a version that nobody read, would be in the packages unseen."""
        manifests = [(PROJECT / path).read_text() for path in ("Cargo.toml", "core/Cargo.toml", "rdb/Cargo.toml", "python/Cargo.toml")]
        sections = [re.search(r"^\[dependencies\]\n(.*?)^\[", text, re.M | re.S)[1] for text in manifests]
        own = {re.search(r'^name = "(.*)"', text, re.M)[1] for text in manifests}
        direct = sorted({*re.findall(r"^([\w-]+) *=", "\n".join(sections), re.M)} - own)
        lock = "".join((PROJECT / path).read_text() for path in ("Cargo.lock", "python/Cargo.lock"))
        locked = [re.search(rf'name = "{name}"\nversion = "(.*)"', lock)[1] for name in direct]
        page = (PROJECT / "docs/dependencies.md").read_text()
        rows = re.findall(r"^\| ([\w-]+) \| (\d\S*) \|(.*)\|$", page, re.M)
        self.assertEqual([(name, version) for name, version, _ in rows], list(zip(direct, locked, strict=True)))
        for name, _, rest in rows:
            reasons = [cell.strip() for cell in rest.split("|")]
            self.assertTrue(len(reasons) == 3 and all(reasons), name)

    def test_every_list_of_packages_is_kept_up(self):
        """Dependabot looks only where it is told to."""
        settings = (PROJECT / ".github/dependabot.yml").read_text()
        lists = [*PROJECT.glob("tests/*/requirements.txt"), *PROJECT.glob("examples/**/requirements.txt")]
        lists += [*PROJECT.glob("benches/*/requirements.txt"), *PROJECT.glob("packaging/*/requirements.txt")]
        lists += [PROJECT / "js/package.json", PROJECT / "site/requirements.txt", *PROJECT.glob("tests/*/*/package.json")]
        for path in lists:
            self.assertIn(f'"/{path.parent.relative_to(PROJECT)}"', settings)
        self.assertIn('directories: ["/", "/python"]', settings)


if __name__ == "__main__":
    unittest.main()
