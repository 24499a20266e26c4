#!/usr/bin/env python3
"""Runs the tests of folders, of the examples unless others are named, each file in a process of its own, four at
once: most of the time they wait.

What a file says is shown when it ends. BLOOM_TEST_SERVER and BLOOM_TEST_MODULE are as in servers.py.
"""

import concurrent.futures
import subprocess
import sys
from pathlib import Path

FOLDERS = [Path(name).resolve() for name in sys.argv[1:]] or [Path(__file__).resolve().parent]
AT_ONCE = 4
# What takes longest begins first.
LONGEST = ["test_migrate.py", "test_dockerfile.py"]


def run(file):
    words = [sys.executable, "-m", "unittest", "discover", "-s", file.parent, "-p", file.name]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=file.parent)
    return file.name, done.returncode, done.stdout


def main():
    files = [file for folder in FOLDERS for file in folder.glob("test_*.py")]
    files.sort(key=lambda file: (file.name not in LONGEST, file.name))
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, file) for file in files]):
            name, code, output = done.result()
            print(f"--- {name}\n{output}", flush=True)
            if code != 0:
                failed.append(name)
    if failed:
        sys.exit(f"failed: {' '.join(sorted(failed))}")
    print(f"{len(files)} files passed")


if __name__ == "__main__":
    main()
