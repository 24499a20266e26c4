#!/usr/bin/env python3
"""Mutation testing: which small changes of the source would no test notice?

    scripts/mutants.py --shard 0/6                       # a sixth of all, drawn at random; the others are 1/6 to 5/6
    scripts/mutants.py --file 'core/src/sets/*.rs'      # all of some files
    scripts/mutants.py --re 'union_ones|Table::watch'    # all whose names match

Other options than --shard and --jobs are those of `cargo mutants --list`.

cargo-mutants lists the changes ("mutants"), such as `<` for `<=`, or a body that only returns 0. It would build the
crate anew for each of its thousands. Here they are woven into one copy of the source, a `match` in each function
with an arm for each of its mutants; the environment variable MUTANT chooses one. So there is one build. Then it is
traced which tests come to which function, and for each mutant only these are run, the fastest first, until one fails.

A mutant is "caught" when a test fails or does not come to an end, and else a survivor: a test is missing, or the code
does nothing. Survivors that change nothing that anyone could see stand in mutants.txt, with the reasons. They are
counted apart, and so is what cannot be tried this way: what does not compile, and what is computed at compile time.

The tests are those of the library and the integration tests, with $SERVER, but for the ones named in LEFT_OUT and
those that take longer than LONGEST.
Two sixteenths of version 0.5.0 had 616 changes. Of those that count, tests caught 323 of 341 in the core (94.7 %) and 137
of 148 in the rest (92.6 %).

It builds in .build/mutants. A sixth of the mutants takes rustc about 4 GB of memory; all at once took more than 21 GB.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
EQUIVALENTS = PROJECT / "scripts/mutants.txt"
WORK = PROJECT / ".build/mutants"
TREE = WORK / "tree"

# What is there for tests, fuzzers and benchmarks alone.
NOT_SHIPPED = ("core/src/checks.rs", "benches/**", "fuzz/**")
# What is compiled on arm64 alone, where `make test-arm64` runs the tests.
NOT_HERE = "neon::"
# Tests by a part of their names: what takes minutes, or asks for a module or a program that is not here.
LEFT_OUT = ("torture::statistics", "rival::", "histories::", "storm::", "complexity::", "sanitizers::")

# Seconds of the longest test that is run: each survivor has to wait for all that come to its function.
LONGEST = 10

# A property is tried on fewer cases than usual. An example that failed is not made smaller, nor kept for the next one.
PROPTEST = {"PROPTEST_CASES": "64", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}

# The most functions that a trace has room for, a byte each.
FUNCTIONS = 1 << 16

# What the woven functions ask for the number of their arm. It allocates nothing, since some tests count allocations.
# MUTANTS_SEEN is a file for a trace: a byte in it is set for each function that is called. It stands in the core, which
# the others use, and knows no libc.
CORE, OTHERS = "core/src/lib.rs", ("rdb/src/lib.rs", "src/lib.rs")
ALL = ("--package", "libbloom", "--package", "libbloom-rdb", "--package", "bloom")
SWITCH = """
#[allow(warnings, clippy::all)]
pub mod mutants {
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};
    const UNKNOWN: u32 = u32::MAX;
    const TRACED: u32 = u32::MAX - 1;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    static SEEN: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
    const READ_WRITE: c_int = 2; // O_RDWR
    const ACCESS: c_int = 1 | 2; // PROT_READ, PROT_WRITE
    const SHARED: c_int = 1; // MAP_SHARED

    unsafe extern "C" {
        fn getenv(name: *const c_char) -> *const c_char;
        fn atoi(text: *const c_char) -> c_int;
        fn open(path: *const c_char, flags: c_int, ...) -> c_int;
        fn mmap(at: *mut c_void, size: usize, access: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
        fn close(file: c_int) -> c_int;
    }

    #[inline(always)]
    pub fn chosen(function: usize) -> u32 {
        let chosen = CHOSEN.load(Relaxed);
        if chosen < TRACED { chosen } else { unsafe { look(function) } }
    }

    #[cold]
    #[inline(never)]
    unsafe fn look(function: usize) -> u32 {
        if CHOSEN.load(Relaxed) == UNKNOWN {
            let path = getenv(c"MUTANTS_SEEN".as_ptr());
            if path.is_null() {
                let number = getenv(c"MUTANT".as_ptr());
                let number = if number.is_null() { 0 } else { atoi(number) as u32 };
                CHOSEN.store(number, Relaxed);
                return number;
            }
            let file = open(path, READ_WRITE);
            SEEN.store(mmap(std::ptr::null_mut(), FUNCTIONS, ACCESS, SHARED, file, 0).cast(), Relaxed);
            close(file);
            CHOSEN.store(TRACED, Relaxed);
        }
        *SEEN.load(Relaxed).add(function) = 1;
        0
    }
}
""".replace("FUNCTIONS", str(FUNCTIONS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="0/1", help="which part of how many (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at once (%(default)s)")
    options, chosen = parser.parse_known_args()
    mutants = listed(chosen)
    explain(mutants, complete=not chosen)
    part, parts = map(int, options.shard.split("/"))
    if not 0 <= part < parts:
        parser.error(f"there is no part {options.shard}: the last one is {parts - 1}/{parts}")
    mutants = sorted(random.Random(0).sample(mutants, len(mutants))[part::parts], key=lambda mutant: mutant.number)
    copy_source()
    weave(mutants)
    viable = [mutant for mutant in mutants if not mutant.untried and not mutant.equivalent]
    say(f"{len(mutants)} mutants, {len(viable)} to be tried; building")
    suites = build()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for suite in suites:
            suite.trace(pool)
        for done, mutant in enumerate(pool.map(lambda mutant: judge(mutant, suites), viable), 1):
            if mutant.outcome != "caught":
                say(f"{done} of {len(viable)}, {mutant.outcome}: {mutant}")
    report(mutants)


def say(line):
    print(f"mutants: {line}", file=sys.stderr, flush=True)


# ---- What could be changed -----------------------------------------------------------------------


class Mutant:
    def __init__(self, number, entry, text):
        self.number, self.file, self.replacement = number, entry["file"], entry["replacement"]
        self.place, self.change = entry["name"].split(": ", 1)
        self.start, self.end = offsets(text, entry["span"])
        self.code = text[self.start :].split("\n", 1)[0]
        # What it is called in mutants.txt: numbers of lines would not last.
        self.key = (f"{self.file}: {self.change}", self.code)
        function = entry["function"]
        self.function = function and (offsets(text, function["span"]), function["function_name"].split("::")[-1])
        self.untried = self.equivalent = self.outcome = self.caught_by = None

    def __str__(self):
        return f"{self.place}: {self.change}"


def offsets(text, span):
    """Where a span of lines and columns begins and ends in the text."""
    lines = text.split("\n")
    places = (span["start"], span["end"])
    return tuple(sum(len(line) + 1 for line in lines[: at["line"] - 1]) + at["column"] - 1 for at in places)


def listed(chosen):
    left_out = [word for name in NOT_SHIPPED for word in ("--exclude", name)] + ["--exclude-re", NOT_HERE]
    command = ["cargo", "mutants", "--list", "--json", "--workspace", *left_out, *chosen]
    entries = json.loads(subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE).stdout)
    texts = {name: (PROJECT / name).read_text() for name in {entry["file"] for entry in entries}}
    return [Mutant(number, entry, texts[entry["file"]]) for number, entry in enumerate(entries, 1)]


def explain(mutants, complete):
    """Notes the reasons that mutants.txt has; one for a mutant that is no more is an error."""
    blocks = re.sub(r"^#.*\n", "", EQUIVALENTS.read_text(), flags=re.M).strip().split("\n\n")
    for block in filter(None, blocks):
        change, code, reason = block.split("\n", 2)
        found = [mutant for mutant in mutants if mutant.key == (change, code)]
        if complete and not found:
            sys.exit(f"{EQUIVALENTS.name}: there is no such mutant any more:\n{block}")
        for mutant in found:
            mutant.equivalent = " ".join(reason.split())


# ---- Weaving -------------------------------------------------------------------------------------


def copy_source():
    shutil.rmtree(TREE, ignore_errors=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, names.split("\0")):
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, TREE / name)


def weave(mutants):
    """Weaves them all, and then takes out what the compiler complains of, until it no longer does."""
    files = collections.defaultdict(list)
    for mutant in mutants:
        files[mutant.file].append(mutant)
    files = [Woven(name, files[name]) for name in sorted({CORE, *OTHERS, *files})]
    functions = [function for file in files for function in file.functions]
    for number, function in enumerate(functions):
        for mutant in function:
            mutant.function_number = number
    assert len(functions) <= FUNCTIONS
    while True:
        for file in files:
            file.write()
        errors = [message["message"] for message in cargo("check", "--lib", *ALL) if message["reason"] == "compiler-message"]
        errors = [error for error in errors if error["level"] == "error"]
        if not errors:
            return
        blamed = [(mutant, error) for error in errors for mutant in blame(error, files) if not mutant.untried]
        if not blamed:
            sys.exit("".join(error["rendered"] for error in errors))
        for mutant, error in blamed:
            mutant.untried = f"does not compile: {error['message']}"
        say(f"{len(errors)} errors, without {len(blamed)} mutants more")


def cargo(*arguments):
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(WORK / "target"),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "none",
        "RUSTFLAGS": "--cap-lints=allow",
    }
    command = ["cargo", *arguments, "--message-format=json"]
    done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode and not any(message["reason"] == "compiler-message" for message in messages):
        sys.exit(done.stderr)
    return messages


class Woven:
    """A file of the source with its mutants."""

    def __init__(self, name, mutants):
        self.name, self.text, self.places = name, (TREE / name).read_text(), []
        spans = {mutant.function[0] for mutant in mutants if mutant.function}
        functions = collections.defaultdict(list)
        for mutant in mutants:
            if not mutant.function:
                mutant.untried = "is computed at compile time"
                continue
            (start, end), function = mutant.function
            # Woven with the outer one, it would be changed in each of its arms.
            if any((low, high) != (start, end) and low <= start and end <= high for low, high in spans):
                mutant.untried = "is in a function in another one"
                continue
            head = re.search(rf"\bfn\s+(?:r#)?{function}\b", self.text[start:end])
            if re.search(r"\bconst\s+(unsafe\s+)?(extern\s+\S+\s+)?$", self.text[start : start + head.start()]):
                mutant.untried = "is computed at compile time"
                continue
            functions[self.body(start + head.end()), end].append(mutant)
        self.bodies = sorted(functions.items())
        self.functions = [group for _, group in self.bodies]

    def body(self, at):
        """Where the body begins of the function whose name ends here."""
        depth = 0
        while self.text[at] != "{" or depth:
            depth += (self.text[at] in "([") - (self.text[at] in ")]")
            at += 1
        return at

    def write(self):
        """Writes it, and notes on which lines mutants stand: (first, last, mutants)."""
        out, at, self.places = "", 0, []
        for (start, end), mutants in self.bodies:
            live = [mutant for mutant in mutants if not mutant.untried]
            if not live:
                continue
            # Where such a function is in each arm of another one, and that in each of a third, rustc would take hours.
            out += re.sub(r"#\[inline\(always\)\](?=[^{}]*$)", "#[inline]", self.text[at:start])
            out += f"{{ match crate::mutants::chosen({live[0].function_number}) {{\n"
            first = out.count("\n")
            for mutant in live:
                line = out.count("\n") + 1
                change = f" {mutant.replacement} "
                out += f"{mutant.number} => {self.text[start : mutant.start]}{change}{self.text[mutant.end : end]}\n"
                self.places.append((line, out.count("\n"), [mutant]))
            out += f"_ => {self.text[start:end]} }} }}"
            self.places.append((first, out.count("\n") + 1, live))
            at = end
        out += self.text[at:]
        out += SWITCH * (self.name == CORE) + "\npub use libbloom::mutants;\n" * (self.name in OTHERS)
        (TREE / self.name).write_text(out)


def blame(error, files):
    """The mutants that an error is about: one if it is in an arm, all of the function if that cannot be a `match`."""
    for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
        while span:
            for file in files:
                around = [
                    (last - first, mutants)
                    for first, last, mutants in file.places
                    if file.name == span["file_name"] and first <= span["line_start"] and span["line_end"] <= last
                ]
                if around:
                    return min(around, key=lambda place: place[0])[1]
            span = (span["expansion"] or {}).get("span")
    return []


def build():
    messages = cargo("build", "--lib", "--package", "bloom")
    messages += cargo("test", "--lib", "--package", "libbloom", "--package", "libbloom-rdb", "--no-run")
    messages += cargo("test", "--lib", "--test", "integration", "--package", "bloom", "--no-run")
    programs, module = {}, None
    for message in messages:
        if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
            sys.exit(message["message"]["rendered"])
        if message["reason"] == "compiler-artifact":
            programs[message["target"]["name"]] = message["executable"] or programs.get(message["target"]["name"])
            module = next((file for file in message["filenames"] if re.search(r"/libbloom\.(so|dylib)$", file)), module)
    return [
        Suite("core", programs["libbloom"], {}),
        Suite("rdb", programs["libbloom_rdb"], {}),
        Suite("unit", programs["bloom"], {}),
        Suite("integration", programs["integration"], {"BLOOM_TEST_MODULE": module}),
    ]


# ---- Testing -------------------------------------------------------------------------------------


class Suite:
    """A program of tests: how long each takes, and which functions it comes to."""

    def __init__(self, kind, program, environment):
        self.kind, self.program = kind, program
        self.environment = {**os.environ, **PROPTEST, "BLOOM_TEST_SERVER": os.environ.get("SERVER", "redis-server")}
        self.environment |= {"RUST_BACKTRACE": "0", **environment}
        command = [program, "--list", "--format=terse"]
        lines = subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        names = [line.removesuffix(": test") for line in lines if line.endswith(": test")]
        self.names = [name for name in names if not any(part in name for part in LEFT_OUT)]
        self.seconds, self.seen = {}, {}

    def trace(self, pool):
        for name, passed in zip(self.names, list(pool.map(self.trace_one, self.names))):
            if not passed or self.seconds[name] > LONGEST:
                why = f"it takes {self.seconds[name]:.0f} s" if passed else "it fails without a change"
                say(f"left out, since {why}: {name}")
                self.names = [other for other in self.names if other != name]
                del self.seconds[name]
        say(f"{self.kind}: {len(self.names)} tests of {sum(self.seconds.values()):.0f} s")

    def trace_one(self, name):
        with tempfile.NamedTemporaryFile() as seen:
            seen.truncate(FUNCTIONS)
            began = time.monotonic()
            passed = self.passes(name, 600, MUTANTS_SEEN=seen.name)
            self.seconds[name] = time.monotonic() - began
            self.seen[name] = {number for number, byte in enumerate(Path(seen.name).read_bytes()) if byte}
        return passed

    def passes(self, name, limit, **variables):
        """Whether a test passes within so many seconds."""
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            process = subprocess.Popen(
                [self.program, "--exact", name, "--test-threads=1"],
                cwd=TREE,
                env={**self.environment, **variables, "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            )
            try:
                return process.wait(timeout=limit) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                # With the servers that it started.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()


def judge(mutant, suites):
    mutant.outcome = "reached by no test"
    for suite in suites:
        names = [name for name in suite.names if mutant.function_number in suite.seen[name]]
        for name in sorted(names, key=suite.seconds.get):
            mutant.outcome = "missed"
            limit = 20 + 10 * suite.seconds[name]
            # Twice, since a test that failed by chance, or waited for its turn, would look like one that noticed.
            if not any(suite.passes(name, limit, MUTANT=str(mutant.number)) for _ in range(2)):
                mutant.outcome, mutant.caught_by = "caught", f"{suite.kind} {name}"
                return mutant
    return mutant


# ---- What came of it -----------------------------------------------------------------------------


def report(mutants):
    survivors = [mutant for mutant in mutants if mutant.outcome not in (None, "caught")]
    for mutant in survivors:
        print(f"{mutant.outcome}: {mutant}\n    {mutant.code}")
    row = "{:5} {:>7} {:>7} {:>6} {:>11} {:>10}".format
    print(row("", "caught", "viable", "score", "equivalent", "not tried"))
    for group in ("core", "edge"):
        of_group = [mutant for mutant in mutants if mutant.file.startswith(("core/", "rdb/")) == (group == "core")]
        tried = [mutant for mutant in of_group if not mutant.untried]
        viable = [mutant for mutant in tried if not mutant.equivalent]
        caught = sum(mutant.outcome == "caught" for mutant in viable)
        score = f"{caught / len(viable):.1%}" if viable else "-"
        print(row(group, caught, len(viable), score, len(tried) - len(viable), len(of_group) - len(tried)))
    outcomes = {str(one): one.caught_by or one.outcome or one.untried or one.equivalent for one in mutants}
    (WORK / "outcomes.json").write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
