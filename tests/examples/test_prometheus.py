"""The files of examples/prometheus, tried with a real exporter and a real Prometheus where there are any.

`make test-prometheus` installs both and runs this; servers.py tells how to run it by hand.
"""

import json
import re
import shutil
import subprocess
import time
import unittest
import urllib.request

from servers import PATIENCE, PROJECT, BareServer, Case, Server, unused_port

FILES = PROJECT / "examples/prometheus"
SCRIPT = FILES / "bf.lua"
EXPORTER = shutil.which("prometheus-redis-exporter") or shutil.which("redis_exporter")
PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")


def section(client):
    """INFO bf, as the server has it."""
    lines = client.execute_command("INFO", "bf")
    return {name: value for name, value in lines.items() if name.startswith("bf_")}


def as_number(version):
    """A version as MODULE LIST has it: two digits for each part."""
    number = 0
    for part in version.split("."):
        number = 100 * number + int(part)
    return number


class LimitedServer(Server):
    """One that refuses what is larger than a small filter."""

    ARGUMENTS = ("bf-max-filter-bytes", "1000")


class ScriptTest(Case):
    def figures(self, server):
        with server.client() as client:
            flat = client.eval(SCRIPT.read_text(), 0)
        return {name.decode(): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def test_every_figure_is_told(self):
        """A figure that the exporter never shows is one that nobody is alerted by."""
        server, client = self.start()
        client.execute_command("BF.ADD", "key", "item")
        told = section(client)
        self.assertEqual(self.figures(server), {**told, "bf_version": as_number(told["bf_version"])})
        self.assertEqual((told["bf_filters"], told["bf_items_added"]), (1, 1))

    def test_a_server_without_the_module_has_none(self):
        """The exporter would take an error of the script for a server that is down."""
        server, _ = self.start(BareServer())
        self.assertEqual(self.figures(server), {})


@unittest.skipIf(PROMTOOL is None, "there is no promtool; `make test-prometheus` installs it")
class RulesTest(unittest.TestCase):
    def test_each_alert_comes_when_it_should(self):
        """A rule with a mistyped name is silent for ever."""
        for words in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
            done = subprocess.run([PROMTOOL, *words], cwd=FILES, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        tested = (FILES / "rules_test.yml").read_text()
        for alert in alerts():
            self.assertIn(f'{{alertname="{alert}"}}', tested)


def alerts():
    return re.findall(r"- alert: (\w+)", (FILES / "rules.yml").read_text())


@unittest.skipIf(EXPORTER is None, "there is no redis_exporter; `make test-prometheus` installs it")
class ScrapeTest(Case):
    def run_in_background(self, *words):
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def fetch(self, url):
        """What is there, once it is there."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                    return answer.read().decode()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def export(self, server, *words):
        """Starts an exporter of that server; gives its address."""
        address = f"127.0.0.1:{unused_port(self)}"
        options = ["-redis.addr", f"redis://127.0.0.1:{server.port}", "-web.listen-address", address]
        self.run_in_background(EXPORTER, *options, "-script", str(SCRIPT), *words)
        return address

    def test_what_the_rules_ask_for_is_scraped(self):
        """An alert on a name that no exporter has never comes. The exporter has no more rights than the page says."""
        server, client = self.start()
        client.execute_command("BF.ADD", "key", "item")
        page = (PROJECT / "docs/operations.md").read_text()
        [rights] = re.findall(r"`ACL SETUSER watcher (.*?)`", page)
        client.execute_command("ACL", "SETUSER", "watcher", *rights.split())
        address = self.export(server, "-redis.user", "watcher", "-redis.password", "secret")
        scraped = self.fetch(f"http://{address}/metrics")
        names = set(re.findall(r"^(redis_\w+)", scraped, re.MULTILINE))
        rules = re.sub(r"^#.*$", "", (FILES / "rules.yml").read_text(), flags=re.MULTILINE)
        self.assertEqual(set(re.findall(r"redis_\w+", rules)) - names, set())
        figures = dict(re.findall(r'^redis_script_values\{[^}]*\bkey="(\w+)"[^}]*\} (.*)$', scraped, re.MULTILINE))
        self.assertEqual(set(figures), set(section(client)))
        version = str(as_number(section(client)["bf_version"]))
        self.assertEqual((figures["bf_filters"], figures["bf_version"]), ("1", version))
        self.assertIn("\nredis_exporter_last_scrape_error{err=\"\"} 0\n", scraped)

    @unittest.skipIf(PROMETHEUS is None, "there is no prometheus; `make test-prometheus` installs it")
    def test_an_alert_of_a_real_server(self):
        """All links of the chain: a refusal, the module's figure, the script, the exporter, the rule, the alert."""
        server, client = self.start(LimitedServer())
        address = self.export(server)
        self.fetch(f"http://{address}/metrics")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(FILES / "rules.yml")],
            "scrape_configs": [{"job_name": "redis", "static_configs": [{"targets": [address]}]}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        own = f"127.0.0.1:{unused_port(self)}"
        options = [f"--web.listen-address={own}", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        self.run_in_background(PROMETHEUS, *options)
        deadline = time.monotonic() + PATIENCE
        firing = set()
        # A refusal shows as an increase only after a scrape without it.
        while "BloomFilterRefused" not in firing and time.monotonic() < deadline:
            time.sleep(0.5)
            with self.assertRaisesRegex(Exception, "Insufficient memory to create filter"):
                client.execute_command("BF.RESERVE", "large", "0.01", "10000")
            answer = json.loads(self.fetch(f"http://{own}/api/v1/alerts"))
            firing = {alert["labels"]["alertname"] for alert in answer["data"]["alerts"]}
        self.assertEqual(firing, {"BloomFilterRefused"})


if __name__ == "__main__":
    unittest.main()
