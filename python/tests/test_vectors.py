"""core/vectors, by the package and by a reader in plain Python."""

import base64
import json
import re
import unittest
from pathlib import Path

import vectors
from hashes import SECRET, chacha20, murmur32, murmur64, siphash13, xxh3_128
from reader import Reader


class VectorsTest(unittest.TestCase):
    def test_the_files_are_what_the_generator_writes(self):
        """A filter that is built today would have other bytes than one of the first release."""
        self.assertEqual({path.stem for path in vectors.FOLDER.glob("*.json")}, set(vectors.VECTORS))
        for name in vectors.VECTORS:
            with self.subTest(name):
                self.assertEqual((vectors.FOLDER / f"{name}.json").read_text(), vectors.text(name))

    def test_a_reader_by_the_page_gives_the_answers(self):
        """A reader in another language that follows the pages would deny items, or find others."""
        for path in vectors.FOLDER.glob("*.json"):
            with self.subTest(path.stem):
                vector = json.loads(path.read_text())
                read = Reader(base64.b64decode(vector["file"]))
                if "time" in vector:
                    read.now = vector["time"]["now"]
                items = map(bytes.fromhex, vector["items"])
                self.assertEqual(sum(item in read for item in items), vector["items_found"])
                probes = vectors.numbered(vector["probes"]["prefix"], vector["probes"]["count"])
                found = [number for number, probe in enumerate(probes) if probe in read]
                self.assertEqual(found, vector["probes_found"])

    def test_the_reader_has_the_published_functions(self):
        """The page would be right only together with a mistake in the reader."""
        # RFC 8439, appendix A.1, test vector 1; XXH3 of nothing and of a text, by xxhsum -H2.
        self.assertTrue(chacha20(bytes(32), 1).hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8"))
        low, high = xxh3_128(b"", SECRET)
        self.assertEqual(f"{high:016x}{low:016x}", "99aa06d3014798d86001c324468d497f")
        # SipHash-1-3 of nothing, by Rust's library; MurmurHash64A and MurmurHash2, by their author's code.
        self.assertEqual(siphash13(bytes(range(16)), b""), 0xABAC0158050FC4DC)
        self.assertEqual((murmur64(b"hello", 0), murmur32(b"hello", 0)), (0x1E68D17C457BF117, 0xE56129CB))

    def test_the_reader_is_short(self):
        """Whoever writes one would take the format for more work than it is. The functions are in any library."""
        text = Path(__file__).with_name("reader.py").read_text()
        code = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*#", line)]
        self.assertLessEqual(len(code), 150)
