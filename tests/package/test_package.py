"""scripts/package.py: what is in the packages, and whether a server takes it.

Run it with `make test-package`. BLOOM_TEST_SERVER names another server than redis-server, BLOOM_TEST_MODULE
another module to pack than the one that `make package` built. Nothing is installed: the .deb is unpacked into a
folder, and the paths in its files are changed to that. tests/package/try-deb.sh installs it.
"""

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import zipfile
import zlib
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(PROJECT / "examples"), str(PROJECT / "scripts")]

import support  # noqa: E402
import package  # noqa: E402

PROGRAM = os.environ.get("BLOOM_TEST_SERVER", "redis-server")
MODULE = Path(os.environ.get("BLOOM_TEST_MODULE", PROJECT / ".build/package/libbloom.so")).resolve()
WHEELS = PROJECT / ".build/package/wheel"
IS_ELF = sys.platform == "linux"
# Seconds until a program must have ended. Nothing is measured by it.
PATIENCE = 120
HAS_DPKG = IS_ELF and shutil.which("dpkg-deb") is not None
# What is to be read, under its path in the project.
PATTERNS = ["benches/**/*.md", "core/examples/*.rs", "rdb/examples/*.rs", "docs/**/*.*", *(f"examples/**/*.{kind}" for kind in ("lua", "md", "py", "ts", "txt", "yml"))]
DOCUMENTS = [
    *["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "python/README.md", "js/README.md", "core/README.md", "rdb/README.md"],
    *(f"python/{path.name}" for path in WHEELS.glob("*.whl")),
    *(str(path.relative_to(PROJECT)) for pattern in PATTERNS for path in PROJECT.glob(pattern)),
    "libbloom/__init__.py",
    "tests/fixtures/urls.txt.gz",
]
ARCHIVED = sorted(
    ["LICENSE", "REQUIREMENTS", "SHA256SUMS", "THIRD-PARTY", "libbloom.cdx.json", "libbloom.so", *DOCUMENTS]
)
INSTALLED = {
    "/etc/libbloom/bloom.conf": 0o644,
    "/usr/lib/libbloom/own-lines": 0o644,
    "/usr/lib/libbloom/server-arguments": 0o755,
    "/usr/lib/redis/modules/libbloom.so": 0o755,
    "/usr/lib/systemd/system/redis-server.service.d/libbloom.conf": 0o644,
    "/usr/lib/systemd/system/valkey-server.service.d/libbloom.conf": 0o644,
    "/usr/share/doc/redis-libbloom/changelog.gz": 0o644,
    "/usr/share/doc/redis-libbloom/copyright": 0o644,
    "/usr/share/doc/redis-libbloom/libbloom.cdx.json": 0o644,
    "/usr/share/doc/redis-libbloom/third-party.txt.gz": 0o644,
    "/usr/share/lintian/overrides/redis-libbloom": 0o644,
    **{f"/usr/share/doc/redis-libbloom/{path}": 0o644 for path in DOCUMENTS},
}
# To another file, without the place in it.
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# The folders of the .deb that its own scripts and configuration name.
NAMED = re.compile(r"(?<![\w.])/(usr/lib|etc|run)/(libbloom|redis/modules)\b")


class Server(support.Server):
    """A server with a configuration file of its own, and with what else a unit starts it with."""

    def __init__(self, arguments=(), lines=()):
        super().__init__(PROGRAM, MODULE)
        self.arguments = arguments
        self.lines = lines

    def command(self, port):
        config = self.home / "redis.conf"
        if not config.exists():
            config.write_text("".join(f"{line}\n" for line in ["bind 127.0.0.1", 'save ""', *self.lines]))
        return [PROGRAM, config, *self.arguments, "--port", str(port), "--dir", self.home]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # The packed module is named after the file.
        cls.module = cls.folder / "libbloom.so"
        shutil.copy(MODULE, cls.module)
        cls.packages = run_script(cls.module, cls.folder / "dist").stdout.split()

    def package(self, suffix):
        (path,) = [Path(name) for name in self.packages if name.endswith(suffix)]
        return path

    def check_links(self, folder):
        """Whoever reads the README where there is no network would miss what it leaves to other pages."""
        pages = list(folder.rglob("*.md"))
        links = [(page, link) for page in pages for link in LINK.findall(page.read_text())]
        self.assertGreaterEqual(len(links), 20)
        self.assertIn((folder / "README.md", "docs/install.md"), links)
        for page, link in links:
            self.assertTrue((page.parent / link).is_file(), f"{page.relative_to(folder)}: {link}")

    def check_examples(self, folder):
        """Follows the page of the examples, in a folder of one's own, and runs those that it says need nothing else."""
        [wheel] = folder.glob("python/*.whl")
        if not wheel.stem.endswith(platform.machine()):
            self.skipTest(f"{wheel.name} is for another machine")
        page = (folder / "examples/README.md").read_text()
        [setup] = re.findall(r"^```\n(python3 -m venv .*?)^```$", page, re.MULTILINE | re.DOTALL)
        subprocess.run(["sh", "-euc", setup], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        [names] = re.findall(r"^(.*) then need nothing else than a `redis-server`", page, re.MULTILINE)
        for name in re.findall(r"\w+\.py", names):
            with self.subTest(name):
                words = [folder / ".build/venv/bin/python", f"examples/{name}", "--server", PROGRAM]
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                self.assertRegex(done.stdout, r"\d promises kept, 0 broken\n$")
        # The program that pages about moving filters name.
        done = subprocess.run([folder / ".build/venv/bin/libbloom", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{package.version()}\n"))

    def check_filter(self, server):
        """Creates, fills and asks a filter."""
        with server, server.client() as client:
            self.assertEqual(client.execute_command("BF.MADD", "seen", "a", "b", "a"), [1, 1, 0])
            self.assertEqual(client.execute_command("BF.MEXISTS", "seen", "a", "b"), [1, 1])


def run_script(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(PROJECT / "scripts/package.py"), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def check_readme(case, text):
    """The README of a package: it is the project's, but for what is about the source."""
    whole = (PROJECT / "README.md").read_text()
    kept, *parts = whole.split("<!-- in the source only -->\n")
    sources, others = zip(*(part.split("<!-- until here -->\n") for part in parts), strict=True)
    case.assertGreater(len(sources), 1)
    rest = "".join(others)
    case.assertTrue(text.startswith(kept) and text.endswith(rest))
    beginning = text.removeprefix(kept).removesuffix(rest)
    for word in ("make run", "make test", "make build", "pip install './python"):
        case.assertIn(word, "".join(sources))
        case.assertNotIn(word, text)
    case.assertNotIn("<!--", beginning)
    case.assertIn(package.version(), beginning)


class ArchiveTest(Case):
    def unpack(self):
        target = Path(tempfile.mkdtemp(dir=self.folder))
        with tarfile.open(self.package(".tar.gz")) as archive:
            archive.extractall(target)
        (folder,) = target.iterdir()
        return folder

    def test_it_is_named_after_version_and_machine(self):
        """A user picks the archive for the machine by its name."""
        system = {"linux": "linux(-musl)?", "darwin": "macos"}[sys.platform]
        name = rf"libbloom-{re.escape(package.version())}-(x86_64|aarch64)-{system}"
        self.assertRegex(self.package(".tar.gz").name, rf"^{name}\.tar\.gz$")
        self.assertRegex(self.unpack().name, rf"^{name}$")

    def test_files_are_complete_sorted_and_roots(self):
        with tarfile.open(self.package(".tar.gz")) as archive:
            folder, *members = archive.getmembers()
        self.assertEqual([member.name.removeprefix(f"{folder.name}/") for member in members], ARCHIVED)
        for member in members:
            self.assertEqual((member.uid, member.gid, member.uname, member.gname), (0, 0, "root", "root"))
            self.assertEqual(member.mtime, package.source_time())
            self.assertEqual(member.mode, 0o755 if member.name.endswith("libbloom.so") else 0o644)

    def test_sums_hold(self):
        folder = self.unpack()
        sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sorted([*sums, "SHA256SUMS"]), ARCHIVED)
        for name, wanted in sums.items():
            self.assertEqual(hashlib.sha256((folder / name).read_bytes()).hexdigest(), wanted, name)

    def test_its_links_lead_somewhere(self):
        self.check_links(self.unpack())

    @unittest.skipUnless(IS_ELF, "the page is for Linux")
    def test_its_page_leads_to_a_server_that_keeps_the_module(self):
        """Whoever follows the page has a server that starts again, after CONFIG REWRITE too, with its filters."""
        server = Server()
        server.home = Path(tempfile.mkdtemp(dir=self.folder))
        config = server.home / "redis.conf"
        config.write_text('bind 127.0.0.1\nsave ""\n')
        archive = self.package(".tar.gz")
        shutil.copy(archive, server.home)
        steps, _after = self.page_of_the_archive(self.unpack())
        # Everything that the page names is in the server's folder, and its own user does it.
        places = {
            "libbloom-0.5.0-x86_64-linux": archive.name.removesuffix(".tar.gz"),
            "sudo ": "",
            "/usr/lib/redis": str(server.home),
            "/etc/redis": str(server.home),
        }
        for named, own in places.items():
            self.assertIn(named, steps)
            steps = steps.replace(named, own)
        subprocess.run(["sh", "-euc", steps], cwd=server.home, check=True, stdout=subprocess.DEVNULL)

        server.start()
        self.addCleanup(server.stop)
        for option in ("64mb", "128mb"):
            with server.client() as client:
                client.execute_command("BF.ADD", "seen", "a")
                client.config_set("maxmemory", option)
                client.config_rewrite()
                client.save()
            self.assertEqual(len(re.findall("(?m)^loadmodule ", config.read_text())), 1)
            server.restart()
            with server.client() as client:
                self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)

    def page_of_the_archive(self, folder):
        """The blocks of its section in the archive's own docs/install.md."""
        page = (folder / "docs/install.md").read_text()
        section = re.search(r"^## The archive$.*?(?=^## )", page, re.MULTILINE | re.DOTALL)[0]
        return re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)

    def test_its_examples_run_in_its_folder(self):
        """What a page shows and a package lacks stops whoever tries the module without its source."""
        self.check_examples(self.unpack())

    def test_its_readme_is_for_who_has_the_module(self):
        """The source, which the README of the project is about, is not in a package."""
        text = (self.unpack() / "README.md").read_text()
        self.assertIn(f"Version {package.version()}, ready to be loaded.", text)
        self.assertIn("--loadmodule ./libbloom.so", text)
        check_readme(self, text)

    def test_the_same_module_gives_the_same_bytes(self):
        """Anyone can check a release by packing it again: elsewhere, later, and with other rights."""
        later = self.folder / "later/libbloom.so"
        later.parent.mkdir()
        shutil.copyfile(MODULE, later)
        later.chmod(0o700)
        again = run_script(later, self.folder / "again", TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
        for one, other in zip(self.packages, again.stdout.split(), strict=True):
            self.assertEqual(Path(one).read_bytes(), Path(other).read_bytes(), one)
        dated = run_script(later, self.folder / "dated", SOURCE_DATE_EPOCH="1000000000")
        self.assertNotEqual(Path(dated.stdout.split()[0]).read_bytes(), self.package(".tar.gz").read_bytes())

    def test_nothing_is_fetched_for_it(self):
        """Where only the build may use the network, or the network is slow, packing would fail or take long."""
        tools = self.folder / "tools"
        tools.mkdir()
        # What would fetch something.
        for name in ("cargo", "curl", "pip"):
            (tools / name).write_text(f"#!/bin/sh\necho {name} was called >&2\nexit 1\n")
            (tools / name).chmod(0o755)
        done = run_script(self.module, self.folder / "unplugged", PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for one, other in zip(self.packages, done.stdout.split(), strict=True):
            self.assertEqual(Path(one).read_bytes(), Path(other).read_bytes(), one)

    def test_without_the_words_of_the_build_it_says_so(self):
        done = run_script(self.module, self.folder / "unbuilt", "--built", self.folder / "none.json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"package.py: there is no {self.folder}/none.json; `make package` makes it\n")

    def test_without_a_wheel_it_says_so(self):
        """The pages name commands that a package without it lacks."""
        none = self.folder / "no wheel"
        none.mkdir()
        done = run_script(self.module, self.folder / "poorer", "--wheels", none)
        said = f"package.py: there is not one wheel in {none}; `make package` makes it\n"
        self.assertEqual((done.returncode, done.stderr), (1, said))

    def test_its_bill_of_materials_is_of_this_module(self):
        """A scanner that cannot read it, or reads it of another module, reports the wrong advisories or none."""
        folder = self.unpack()
        text = (folder / "libbloom.cdx.json").read_text()
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(text))
        bom = json.loads(text)
        self.assertEqual(bom["metadata"]["component"]["version"], package.version())
        [module] = bom["metadata"]["component"]["components"]
        digest = hashlib.sha256((folder / "libbloom.so").read_bytes()).hexdigest()
        self.assertEqual((module["name"], module["hashes"]), ("libbloom.so", [{"alg": "SHA-256", "content": digest}]))
        for part in bom["components"]:
            self.assertRegex(part["hashes"][0]["content"], "^[0-9a-f]{64}$", part["name"])
            self.assertTrue(part["licenses"], part["name"])
        # What this machine is called and where it builds is nobody's business, and differs on another one.
        for path in (str(PROJECT), str(Path.home())):
            self.assertNotIn(path, text)

    def test_every_list_of_its_crates_is_the_same(self):
        """What is asked of one list, for its licences, advisories or reasons, would be right for another module."""
        folder = self.unpack()
        bom = json.loads((folder / "libbloom.cdx.json").read_text())
        crates = {(part["name"], part["version"]) for part in bom["components"]}
        licensed = re.findall(r"(?m)^={78}\n(\S+) (\S+): ", (folder / "THIRD-PARTY").read_text())
        self.assertEqual(set(licensed), crates)
        # The graph is connected: everything is reached from the module.
        edges = {entry["ref"]: entry["dependsOn"] for entry in bom["dependencies"]}
        reached, ahead = set(), ["bloom"]
        while ahead:
            reached.add(ref := ahead.pop())
            ahead += [other for other in edges[ref] if other not in reached]
        self.assertEqual(reached, {"bloom", *(part["bom-ref"] for part in bom["components"])})
        page = (PROJECT / "docs/dependencies.md").read_text()
        explained = set(re.findall(r"(?m)^\| ([\w-]+) \| \d", page))
        self.assertLessEqual({edge.rpartition("#")[2].partition("@")[0] for edge in edges["bloom"]}, explained)
        manifests = [tomllib.loads((PROJECT / name / "Cargo.toml").read_text()) for name in (".", "core", "rdb", "python")]
        asked_for = {name for manifest in manifests for name in manifest["dependencies"]}
        self.assertEqual(asked_for - {"libbloom", "libbloom-rdb"}, explained)
        brought = re.findall(r"(?m)^\| [\w-]+ \| ([\w, -]+) \|$", page.partition("## What they bring along")[2])
        explained.update(name for names in brought if names != "brings" for name in names.split(", "))
        if "aarch64" in folder.name:
            # What asks x86-64 processors for their instructions.
            explained.remove("cpufeatures")
        # The crates of the wheel are all others that the page is about.
        [wheel] = WHEELS.glob("libbloom-*.whl")
        with zipfile.ZipFile(wheel) as files:
            [texts] = [files.read(name).decode() for name in files.namelist() if name.endswith("/THIRD-PARTY")]
        in_wheel = set(re.findall(r"(?m)^={78}\n(\S+) ", texts))
        self.assertEqual({name for name, _ in crates} | in_wheel, explained)

    @unittest.skipUnless(IS_ELF, "binutils do not read it")
    def test_the_module_itself_says_what_it_is_made_of(self):
        """Whoever finds a module on a server, with no package around it, can ask it for known flaws."""
        folder = self.unpack()
        section = folder / "dep-v0"
        module = folder / "libbloom.so"
        subprocess.run(["objcopy", "--dump-section", f".dep-v0={section}", module, folder / "copy"], check=True)
        said = json.loads(zlib.decompress(section.read_bytes()))["packages"]
        crates = {(part["name"], part["version"]) for part in said if part.get("kind") != "build"}
        bom = json.loads((folder / "libbloom.cdx.json").read_text())
        wanted = {(part["name"], part["version"]) for part in bom["components"]}
        # The section is made before the compiler runs, and also lists crates that only run in the compiler.
        self.assertEqual(wanted - crates, set())
        self.assertIn(("bloom", package.version()), crates)
        self.assertNotIn("bindgen", {name for name, _ in crates})
        self.assertLess(section.stat().st_size, 4096)

    def test_a_bill_of_another_build_is_refused(self):
        """A package would name crates that are not in its module, or lack some that are."""
        old = self.folder / "old.json"
        bill = json.loads((PROJECT / ".build/package/sbom.json").read_text())
        bill["components"] = [part for part in bill["components"] if part["name"] != "libc"]
        old.write_text(json.dumps(bill))
        done = run_script(self.module, self.folder / "mixed", "--sbom", old)
        said = f"package.py: {old} is not of this build; `make package` makes it again\n"
        self.assertEqual((done.returncode, done.stderr), (1, said))
        old.unlink()
        done = run_script(self.module, self.folder / "mixed", "--sbom", old)
        self.assertEqual(done.stderr, f"package.py: there is no {old}; `make package` makes it\n")

    def test_the_licences_of_all_crates_are_in_it(self):
        text = (self.unpack() / "THIRD-PARTY").read_text()
        for name in ("redis-module", "bitvec", "libc", "xxhash-rust"):
            self.assertRegex(text, rf"(?m)^{name} \d+\.\d+\.\d+: ")
        # Of the build and the tests.
        self.assertNotRegex(text, r"(?m)^(bindgen|proptest|bloom) \d")

    @unittest.skipUnless(IS_ELF, "not of glibc")
    def test_a_module_for_a_newer_glibc_is_refused(self):
        """A package that fails on the systems it is said to be for is worse than none."""
        done = run_script(self.module, self.folder / "old", "--glibc-floor", "2.4")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^package.py: the module needs glibc 2\.\d+, above 2\.4; build it on")
        self.assertEqual(list((self.folder / "old").iterdir()), [])

    def test_what_is_no_module_is_refused(self):
        done = run_script(PROJECT / "README.md", self.folder / "none")
        self.assertEqual((done.returncode, done.stderr), (1, "package.py: README.md is no shared library\n"))

    def test_the_guide_names_the_floor(self):
        self.assertIn(f"glibc {package.GLIBC_FLOOR} ", (PROJECT / "docs/install.md").read_text())


@unittest.skipUnless(HAS_DPKG, "dpkg-deb is not here")
class DebTest(Case):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(dir=self.folder))
        dpkg_deb("-x", self.package(".deb"), self.root)
        for path in INSTALLED:
            file = self.root / path.lstrip("/")
            if not path.endswith((".so", ".gz")) and "/share/doc/" not in path:
                file.write_text(NAMED.sub(rf"{self.root}\g<0>", file.read_text()))

    def server_arguments(self, server):
        """What the unit of systemd would start a server with."""
        (self.root / "run").mkdir(exist_ok=True)
        config = server.home / "redis.conf"
        subprocess.run([self.root / "usr/lib/libbloom/server-arguments", "redis-server", config], check=True)
        line = (self.root / "run/libbloom/redis-server").read_text()
        return line.removeprefix("LIBBLOOM=").split()

    def test_its_readme_is_for_who_has_installed_it(self):
        text = (self.root / "usr/share/doc/redis-libbloom/README.md").read_text()
        self.assertIn(f"Version {package.version()}, as the package redis-libbloom.", text)
        check_readme(self, text)

    def test_its_examples_run_in_a_copy(self):
        """Nobody but root can write where the package has them, and a venv and a table are written."""
        page = self.root / "usr/share/doc/redis-libbloom/examples/README.md"
        [copy] = re.findall(r"^```\n(cp -r .*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        home = Path(tempfile.mkdtemp(dir=self.folder))
        steps = copy.replace("/usr/share/doc", f"{self.root}/usr/share/doc")
        subprocess.run(["sh", "-euc", steps], env={**os.environ, "HOME": str(home)}, check=True)
        # The module is where the package has it, and not in the copy.
        script = home / "libbloom/examples/support.py"
        script.write_text(NAMED.sub(rf"{self.root}\g<0>", script.read_text()))
        self.check_examples(home / "libbloom")

    def test_its_note_without_systemd_holds_after_a_rewrite(self):
        """An include, which it named once, stays beside the line that CONFIG REWRITE writes: loaded twice."""
        note = (PROJECT / "packaging/deb/postinst").read_text()
        [line] = re.findall(r'echo "(loadmodule .*)"', note)
        server = Server(lines=[line.replace("/usr/lib/redis", f"{self.root}/usr/lib/redis")])
        with server:
            with server.client() as client:
                client.execute_command("BF.ADD", "seen", "a")
                client.config_rewrite()
                client.save()
            server.restart()
            with server.client() as client:
                self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)

    def test_its_fields(self):
        control = dpkg_deb("-f", self.package(".deb"))
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", control))
        platform = package.Platform(self.module)
        self.assertEqual(fields["Package"], "redis-libbloom")
        self.assertEqual(fields["Version"], package.version())
        self.assertIn(fields["Architecture"], ("amd64", "arm64"))
        self.assertRegex(fields["Depends"], rf"^libc6 \(>= {platform.newest('GLIBC')}\), libgcc-s1 \(>= [34][\d.]*\)$")
        self.assertIn("redis-server", fields["Suggests"])
        # An address of nobody else.
        self.assertEqual(fields["Maintainer"], "The libbloom authors <libbloom@localhost>")
        self.assertEqual(control.count("@"), 1)

    def test_its_files(self):
        listed = {}
        for line in dpkg_deb("-c", self.package(".deb")).splitlines():
            mode, owner, *_, name = line.split()
            self.assertEqual(owner, "root/root")
            if mode.startswith("d"):
                self.assertEqual(mode, "drwxr-xr-x")
            else:
                listed[name.removeprefix(".")] = {"-rw-r--r--": 0o644, "-rwxr-xr-x": 0o755}[mode]
        self.assertEqual(listed, INSTALLED)

    def test_its_links_lead_somewhere(self):
        self.check_links(self.root / "usr/share/doc/redis-libbloom")

    def test_its_bill_of_materials_is_of_its_module(self):
        """A scanner would take the installed module for another one."""
        bom = json.loads((self.root / "usr/share/doc/redis-libbloom/libbloom.cdx.json").read_text())
        [module] = bom["metadata"]["component"]["components"]
        digest = hashlib.sha256((self.root / "usr/lib/redis/modules/libbloom.so").read_bytes()).hexdigest()
        self.assertEqual(module["hashes"], [{"alg": "SHA-256", "content": digest}])

    def test_its_sums_and_scripts(self):
        control = Path(tempfile.mkdtemp(dir=self.folder))
        dpkg_deb("-e", self.package(".deb"), control)
        names = ["conffiles", "control", "md5sums", "postinst", "postrm", "prerm"]
        self.assertEqual(sorted(path.name for path in control.iterdir()), names)
        self.assertEqual((control / "conffiles").read_text(), "/etc/libbloom/bloom.conf\n")
        raw = Path(tempfile.mkdtemp(dir=self.folder))
        dpkg_deb("-x", self.package(".deb"), raw)
        sums = dict(line.split("  ")[::-1] for line in (control / "md5sums").read_text().splitlines())
        self.assertEqual(sorted(f"/{name}" for name in sums), sorted(INSTALLED))
        for name, wanted in sums.items():
            self.assertEqual(hashlib.md5((raw / name).read_bytes()).hexdigest(), wanted, name)

    def test_a_server_loads_it(self):
        server = Server()
        with server:
            arguments = self.server_arguments(server)
        self.assertEqual(arguments, ["--include", f"{self.root}/etc/libbloom/bloom.conf"])
        self.check_filter(Server(arguments))

    def test_a_server_whose_file_loads_it_is_left_alone(self):
        module = f"{self.root}/usr/lib/redis/modules/libbloom.so"
        quoted = f'LoadModule  "{module}" bf-expansion-factor 4'
        for line in (f"loadmodule {module}", quoted, f"include {self.root}/etc/libbloom/bloom.conf"):
            server = Server(lines=[line])
            self.check_filter(server)
            server = Server(lines=[line])
            with server:
                self.assertEqual(self.server_arguments(server), [], line)
        server = Server(lines=["# loadmodule /usr/lib/redis/modules/libbloom.so", "loglevel notice"])
        with server:
            self.assertNotEqual(self.server_arguments(server), [])

    def test_the_removal_names_every_line_that_keeps_a_server_from_starting(self):
        """CONFIG REWRITE writes options of the module too, and no server without it starts with these."""
        probe = Server()
        with probe:
            arguments = self.server_arguments(probe)
        server = Server(arguments)
        with server:
            with server.client() as client:
                if not (options := client.config_get("bf*error-rate")):
                    self.skipTest("this server has no configurations of modules")
                client.config_set(*options, "0.001")
                client.config_rewrite()
            lines = (server.home / "redis.conf").read_text().splitlines()
        # The file of each server that the distribution knows, and of another instance.
        files = ["redis/redis.conf", "redis/redis-other.conf", "valkey/valkey.conf"]
        for name in files:
            (self.root / "etc" / name).parent.mkdir(exist_ok=True)
            (self.root / "etc" / name).write_text("\n".join(lines) + "\n")
        (self.root / "etc/redis/sentinel.conf").write_text("# loadmodule libbloom.so\n# bf-layout blocked\nport 1\n")
        script = (PROJECT / "packaging/deb/prerm").read_text()
        for folder in ("/usr/lib/libbloom", "/etc/redis", "/etc/valkey"):
            script = script.replace(folder, f"{self.root}{folder}")
        done = subprocess.run(["sh", "-c", script, "prerm", "remove"], capture_output=True, text=True, check=True)
        told = re.split(r"WARNING: .* out of (.*):\n", done.stderr)[1:]
        self.assertEqual(sorted(told[::2]), sorted(str(self.root / "etc" / name) for name in files))
        for named in told[1::2]:
            numbers = {int(line.partition(":")[0]) for line in named.splitlines()}
            left = [line for number, line in enumerate(lines, 1) if number not in numbers]
            self.assertGreaterEqual(len(numbers), 2, "the loadmodule line and the option")
            server = Server(lines=[line for line in left if not line.startswith(("port ", "dir "))])
            with server, server.client() as client:
                self.assertTrue(client.ping())

    def test_a_rewritten_configuration_starts_again(self):
        """CONFIG REWRITE, which Sentinel also calls, writes a loadmodule line (not on Redis 6.2).

        A server that loads the module twice does not start.
        """
        probe = Server()
        with probe:
            arguments = self.server_arguments(probe)
        server = Server(arguments)
        with server:
            with server.client() as client:
                client.execute_command("BF.ADD", "seen", "a")
                client.config_rewrite()
                client.save()
            text = (server.home / "redis.conf").read_text()
            server.arguments = self.server_arguments(server)
            self.assertEqual(server.arguments, [] if "libbloom.so" in text else arguments)
            server.restart()
            with server.client() as client:
                self.assertEqual(client.execute_command("BF.EXISTS", "seen", "a"), 1)

    def test_the_drop_in_is_the_units_own_command_with_a_word_more(self):
        unit = Path("/lib/systemd/system/redis-server.service")
        if not unit.exists():
            self.skipTest("there is no unit of redis-server")
        (own,) = re.findall(r"(?m)^ExecStart=(.+)$", unit.read_text())
        drop_in = self.root / "usr/lib/systemd/system/redis-server.service.d/libbloom.conf"
        (changed,) = re.findall(r"(?m)^ExecStart=(.+)$", drop_in.read_text())
        self.assertEqual(changed.replace(" $LIBBLOOM", ""), own)


class TryDebTest(unittest.TestCase):
    def test_without_a_package_it_says_what_to_do(self):
        """At once: setting up a Debian first would take minutes."""
        script = str(PROJECT / "tests/package/try-deb.sh")
        done = subprocess.run([script, "dist/*.deb"], capture_output=True, text=True)
        said = "try-deb: there is no package dist/*.deb: run 'make package' first\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", said))


def dpkg_deb(*words):
    return subprocess.run(
        ["dpkg-deb", *map(str, words)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


class WheelTest(unittest.TestCase):
    """The wheel of the Python package that `make package` built; tests/package/try-wheel.sh installs it."""

    @classmethod
    def setUpClass(cls):
        [cls.path] = WHEELS.glob("libbloom-*.whl")
        with zipfile.ZipFile(cls.path) as wheel:
            cls.files = {name: wheel.read(name) for name in wheel.namelist()}
            cls.dates = {entry.date_time for entry in wheel.infolist()}
        cls.own = f"libbloom-{package.version()}.dist-info"

    def test_it_is_named_after_what_it_needs(self):
        """pip would install it where it cannot be loaded, or not where it can."""
        system = rf"manylinux_{package.GLIBC_FLOOR.replace('.', '_')}|musllinux_1_\d|macosx_\d+_\d"
        if os.environ.get("GLIBC_FLOOR"):
            # Made for a trial on the machine that builds it.
            system = "linux"
        name = rf"libbloom-{re.escape(package.version())}-cp310-abi3-({system})_(x86_64|aarch64|arm64)\.whl"
        self.assertRegex(self.path.name, f"^{name}$")
        metadata = self.files[f"{self.own}/METADATA"].decode()
        self.assertIn("\nRequires-Python: >=3.10\n", metadata)
        self.assertIn("\nRequires-Dist: redis>=5 ; extra == 'redis'\n", metadata)
        self.assertIn(b"libbloom=libbloom._program:main", self.files[f"{self.own}/entry_points.txt"])

    def test_its_list_of_files_holds(self):
        """Installers refuse a wheel whose files are not those of its list."""
        record = f"{self.own}/RECORD"
        listed = dict(line.split(",", 1) for line in self.files[record].decode().splitlines())
        self.assertEqual(set(listed), set(self.files))
        for name, content in self.files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            self.assertEqual(listed[name], "," if name == record else f"sha256={digest},{len(content)}", name)
        sources = {f"libbloom/{path.name}" for path in (PROJECT / "python/libbloom").glob("*.py*") if path.is_file()}
        sources.add("libbloom/py.typed")
        self.assertLessEqual(sources, set(self.files))

    def test_the_licences_of_all_crates_are_in_it(self):
        text = self.files[f"{self.own}/licenses/THIRD-PARTY"].decode()
        for name in ("pyo3", "pyo3-ffi", "tempfile", "bitvec", "xxhash-rust"):
            self.assertRegex(text, rf"(?m)^={{78}}\n{name} \d")
        self.assertIn("Copyright (c) 2023-present PyO3 Project and Contributors", text)
        self.assertIn("Permission is hereby granted", self.files[f"{self.own}/licenses/LICENSE"].decode())

    def test_the_source_distribution_can_be_built(self):
        """Without a wheel for a machine pip builds it from there, where the module's sources are not."""
        [path] = WHEELS.glob("*.tar.gz")
        with tarfile.open(path) as archive:
            archive.extractall(folder := tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        manifest = Path(folder, f"libbloom-{package.version()}", "python/Cargo.toml")
        words = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"name":"libbloom-python"', done.stdout)

    def test_it_says_nothing_of_the_machine_that_built_it(self):
        """What this machine is called and where it builds is nobody's business, and differs on another one."""
        for name, content in self.files.items():
            for path in (PROJECT, Path.home()):
                self.assertNotIn(f"{path}/".encode(), content, name)
        self.assertEqual(len(self.dates), 1)


if __name__ == "__main__":
    unittest.main()
