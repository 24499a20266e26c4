"""Jedis: its own test in `java`, run against a server that is started here."""

import re
import shutil
import subprocess
import unittest

from common import INSTALLED, PATIENCE, PROJECT, Case

SOURCES = PROJECT / "tests/clients/java"
JARS = INSTALLED / "java/jars"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# The first version that runs a source file and has the language of the test.
OLDEST = 11


def java_version():
    """Java's, 0 without a compiler."""
    if shutil.which("javac") is None:
        return 0
    done = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    return int(re.search(r"\d+", done.stdout + done.stderr)[0])


class JedisTest(Case):
    @classmethod
    def setUpClass(cls):
        if java_version() < OLDEST or shutil.which("mvn") is None:
            raise unittest.SkipTest(f"Jedis needs Java {OLDEST} or later, and Maven")
        INSTALLED.mkdir(parents=True, exist_ok=True)
        words = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={INSTALLED / 'java/repository'}"]
        words += ["--file", str(SOURCES / "pom.xml"), COPY, f"-DoutputDirectory={JARS}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            text = done.stdout + done.stderr
            if re.search("Unknown host|UnknownHost|Network is unreachable|timed out|refused", text):
                raise unittest.SkipTest("Maven Central cannot be reached, so there is no Jedis")
            raise AssertionError(text)

    def run_java(self, file, *arguments):
        return self.run_program("java", "-cp", f"{JARS}/*", file, *arguments)

    def test_every_method(self):
        protocols = list(map(str, self.protocols()))
        printed = self.run_java(SOURCES / "JedisTest.java", str(self.server.port), *protocols)
        self.assertEqual(printed, "".join(f"RESP{protocol}\n" for protocol in protocols))

    def test_the_session_in_the_readme(self):
        self.check_session("java", "java/Readme.java", lambda: self.run_java(INSTALLED / "java/Readme.java"))

    def test_the_program_against_cache_penetration(self):
        file = "java/Products.java"
        self.check_session("java", file, lambda: self.run_java(INSTALLED / file), "docs/cache-penetration.md")


if __name__ == "__main__":
    unittest.main()
