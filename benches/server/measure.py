#!/usr/bin/env python3
"""Measures modules side by side: the same server program, the same load, in turn, again and again.

    measure.py [--server redis-server] [--out results.json] [--items N] [--only NAME] ... name=path[,argument...] ...

The first module is the one that the others are compared with. What is measured, each under its own name:

    commands     one filter of --items items: single and multi-item commands, pipelined and not
    chain        the same of a filter that grew from the default to --chain items, and its memory
    packed       packed commands, beside BF.MEXISTS and BF.MADD of the modules that have none
    log          bytes of the append-only file and of the replication stream, packed and not
    batches      processor time by the number of items in a command
    sizes        processor time by the size of the filter
    errors       the false positive rate by how full the filter is, beyond its capacity too
    growth       bits per item of a filter that grows from the default
    persistence  huge filters, copy-on-write, saving, loading, the append-only file, freeing
    loading      SAVE and DEBUG RELOAD of one filter that is half full, with and without the file's checksum

Figures are medians over --rounds rounds in which the modules take turns. The load is redis-benchmark's, whose
own work is most of what an unpipelined request costs; the server's processor time per item leaves it out. Nothing
is asserted: this measures.
"""

import argparse
import json
import os
import platform
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

ITEM = "http://example.com/p/__rand_int__"  # redis-benchmark replaces the word by 12 digits
KEY = "filter"
ERROR_RATE = 0.01

# name, command, items a command, pipelined commands, clients
WORKLOADS = [
    ("BF.EXISTS, one by one", "bf.exists", 1, 1, 50),
    ("BF.ADD, one by one", "bf.add", 1, 1, 50),
    ("BF.EXISTS, 64 pipelined", "bf.exists", 1, 64, 20),
    ("BF.ADD, 64 pipelined", "bf.add", 1, 64, 20),
    ("BF.MEXISTS of 100", "bf.mexists", 100, 4, 10),
    ("BF.MADD of 100", "bf.madd", 100, 4, 10),
    ("BF.MEXISTS of 1000", "bf.mexists", 1000, 1, 4),
    ("BF.MADD of 1000", "bf.madd", 1000, 1, 4),
]


# What follows the key of a packed command, and each item in its data. All items have 30 bytes.
SHORT_ITEM = b"http://ex.com/item" + b"__rand_int__"
FORMS = {
    "LINES": (["LINES"], SHORT_ITEM + b"\n"),
    "WIDTH": (["WIDTH", str(len(SHORT_ITEM))], SHORT_ITEM),
    "PREFIXED": (["PREFIXED"], struct.pack("<I", len(SHORT_ITEM)) + SHORT_ITEM),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--benchmark", default="redis-benchmark")
    parser.add_argument("--out", type=Path, default=Path("results.json"))
    parser.add_argument("--items", type=int, default=20_000_000, help="of the filter of `commands`")
    parser.add_argument("--chain", type=int, default=12_000_000, help="items of the filter of `chain`")
    parser.add_argument("--stored", type=int, default=100_000_000, help="items of the filter of `persistence`")
    parser.add_argument("--huge", type=int, default=5 * 10**9, help="of the filter that is reserved and not used")
    parser.add_argument("--requests", type=int, default=400_000, help="items of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="again for more")
    parser.add_argument("modules", nargs="+", metavar="name=path[,argument...]")
    options = parser.parse_args()
    modules = dict(module.split("=", 1) for module in options.modules)

    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    results["machine"] = machine(options.server)
    print(f"# {results['machine']}", flush=True)
    for name in options.only or MEASUREMENTS:
        print(f"\n## {name}", flush=True)
        results[name] = MEASUREMENTS[name](options, modules)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def machine(server):
    """What the figures were measured on."""
    version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    processors = Path("/proc/cpuinfo")
    models = [line for line in processors.read_text().splitlines() if "model name" in line] if processors.exists() else []
    model = models[0].split(":")[1].strip() if models else platform.processor()
    return {
        "server": " ".join(version.split()[:3]),
        "processor": f"{os.cpu_count()} x {model}",
        "system": f"{platform.system()} {platform.release()}",
    }


class Server:
    """A server of a module's, in a directory of its own."""

    def __init__(self, options, module, *settings):
        self.options, self.settings = options, settings
        self.module = module.split(",")
        self.dir = Path(tempfile.mkdtemp(prefix="measure-"))
        self.start()

    def start(self):
        """Starts it; gives the seconds until it answers."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        path, *arguments = self.module
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [self.options.server, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.dir)]
            + ["--save", "", "--appendonly", "no", *self.settings]
            + ["--loadmodule", os.path.abspath(path), *arguments],
            stdout=(self.dir / "log").open("w"),
            stderr=subprocess.STDOUT,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=600)
        while True:
            try:
                self.client.ping()
                return time.perf_counter() - begin
            except (redis.ConnectionError, redis.BusyLoadingError):
                if self.process.poll() is not None:
                    sys.exit((self.dir / "log").read_text())
                time.sleep(0.005)

    def __call__(self, *command):
        return self.client.execute_command(*command)

    def knows(self, command):
        """Whether it has the command, which takes more than a key."""
        try:
            self(command, KEY)
        except redis.ResponseError as error:
            return "unknown command" not in str(error)

    def seconds(self, *command):
        """How long a command takes, and its reply."""
        begin = time.perf_counter()
        reply = self(*command)
        return time.perf_counter() - begin, reply

    def info(self, section, name):
        return self.client.info(section)[name]

    def processor_seconds(self):
        cpu = self.client.info("cpu")
        return cpu["used_cpu_user"] + cpu["used_cpu_sys"]

    def load(self, command, items, width=1, pipeline=1, clients=2, distinct=None, wait=True, form=None):
        """Sends `items` items, each drawn from `distinct`; gives items a second.

        With a `form` they are packed, or where the server has no such command sent as other batches are.
        """
        requests = max(items // width, 1)
        words, data = [ITEM] * width, b""
        if form:
            # "plain": the same items, not packed.
            words, item = FORMS.get(form, ([], b""))
            packed = command.replace("bf.m", "bf.") + "packed"
            if item and self.knows(packed):
                if b"\0" in item:
                    # redis-benchmark finds no word behind a zero.
                    return self.send([packed, KEY, *words], item, items, width, distinct or items)
                # An argument has 128 KiB at most: longer ones come from the standard input.
                command, data = packed, item * width
            else:
                words = [SHORT_ITEM.decode()] * width
        benchmark = subprocess.Popen(
            [self.options.benchmark, "-p", str(self.port), "-n", str(requests), "-r", str(distinct or items)]
            + ["-P", str(pipeline), "-c", str(clients), "--csv", *(["-x"] if data else []), command, KEY, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if not wait:
            benchmark.stdin.close()
            return benchmark
        lines = benchmark.communicate(data)[0].decode().split("\n")
        figures = [line for line in lines if line.startswith('"') and not line.startswith('"test"')]
        return float(figures[-1].split('","')[1]) * width

    def send(self, command, item, items, width, distinct):
        """The same by this program: all commands are made before the first one is sent."""
        commands = self.client.pipeline(transaction=False)
        for _ in range(max(items // width, 1)):
            numbers = (b"%012d" % random.randrange(distinct) for _ in range(width))
            commands.execute_command(*command, b"".join(item.replace(b"__rand_int__", number) for number in numbers))
        begin = time.perf_counter()
        commands.execute()
        return items / (time.perf_counter() - begin)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Together:
    """A server for each module."""

    def __init__(self, options, modules, *settings):
        self.servers = {name: Server(options, module, *settings) for name, module in modules.items()}

    def __enter__(self):
        return self.servers

    def __exit__(self, *_):
        for server in self.servers.values():
            server.remove()


def taking_turns(servers, rounds, measure):
    """The median over the rounds of each of the figures that `measure` gives for a server."""
    figures = {name: [] for name in servers}
    for _ in range(rounds):
        for name, server in servers.items():
            figures[name].append(measure(server))
    return {
        name: {figure: statistics.median(one[figure] for one in of_server) for figure in of_server[0]}
        for name, of_server in figures.items()
    }


def throughput(options, servers, distinct, workloads=None, prepare=None):
    """Each workload on each server, which `prepare` makes ready: the adds of one workload are not there in the next."""
    results = {}
    head = f"{'':<26}{'module':<12}{'items/s':>12}{'ratio':>7}{'cpu us/item':>13}{'ratio':>7}"
    print(head)
    for name, command, width, pipeline, clients, *form in workloads or WORKLOADS:
        items = options.requests * (1 if width * pipeline == 1 else 4)
        if prepare:
            for server in servers.values():
                prepare(server)

        def measure(server):
            before = server.processor_seconds()
            rate = server.load(command, items, width, pipeline, clients, distinct, form=form[0] if form else None)
            spent = server.processor_seconds() - before
            return {"items/s": rate, "cpu us/item": spent / items * 1e6}

        results[name] = taking_turns(servers, options.rounds, measure)
        first = next(iter(results[name].values()))
        for module, figures in results[name].items():
            rate, spent = figures["items/s"], figures["cpu us/item"]
            print(
                f"{name:<26}{module:<12}{rate:>12.0f}{rate / first['items/s']:>7.2f}"
                f"{spent:>13.4f}{spent / first['cpu us/item']:>7.2f}",
                flush=True,
            )
    return results


def commands(options, modules):
    def fill(server):
        server("DEL", KEY)
        server("BF.RESERVE", KEY, ERROR_RATE, options.items)
        server.load("bf.madd", options.items, 1000)

    with Together(options, modules) as servers:
        # About a third of what is asked for was added; with what a workload adds in five rounds, the filter is not full yet.
        return throughput(options, servers, 2 * options.items, prepare=fill)


def packed(options, modules):
    def fill(server):
        server("DEL", KEY)
        server("BF.RESERVE", KEY, ERROR_RATE, options.items)
        server.load("bf.madd", options.items, 1000, form="WIDTH")

    workloads = [
        (f"BF.{verb}PACKED of {width}, {form}", command, width, 1, 4, form)
        for verb, command in [("EXISTS", "bf.mexists"), ("ADD", "bf.madd")]
        for width in [1000, 10_000]
        for form in FORMS
    ]
    with Together(options, modules) as servers:
        # The filter has 63 % of the items that it was filled with, so half of these, for which it has room.
        return throughput(options, servers, int(1.26 * options.items), workloads, prepare=fill)


def log(options, modules):
    """Bytes that are written for new items, and for items of which nine of ten were there, in commands of 1,000."""
    results, items = {}, 10_000_000
    for name, module in with_filters(modules).items():
        for mix, distinct in [("new", 2 * 10**9), ("nine of ten repeated", items // 10)]:
            for form in [None, *FORMS]:
                server = Server(options, module, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
                replica = Server(options, module, "--replicaof", f"127.0.0.1 {server.port}")
                try:
                    if form and not server.knows("bf.addpacked"):
                        continue
                    while server.info("replication", "connected_slaves") == 0 or replica.info("replication", "master_link_status") != "up":
                        time.sleep(0.1)
                    server("BF.RESERVE", KEY, ERROR_RATE, items)
                    before = server.info("replication", "master_repl_offset")
                    server.load("bf.madd", items, 1000, distinct=distinct, form=form or "plain")
                    stream = server.info("replication", "master_repl_offset") - before
                    files = [path for path in server.dir.rglob("*") if "aof" in path.name and path.is_file()]
                    figures = {"AOF, bytes": sum(path.stat().st_size for path in files), "stream, bytes": stream}
                    label = f"{mix}, {form or 'BF.MADD'}"
                    results.setdefault(name, {})[label] = figures
                    print(f"{label:<32}{name:<14}{figures}", flush=True)
                finally:
                    replica.remove()
                    server.remove()
    return results


def chain(options, modules):
    def grow(server):
        server("DEL", KEY)
        return server.load("bf.madd", options.chain * 2, 1000, distinct=options.chain)

    with Together(options, modules) as servers:
        memory = {}
        for name, server in servers.items():
            rate = grow(server)
            memory[name] = server("MEMORY", "USAGE", KEY)
            print(f"{name}: {memory[name]} bytes, grown at {rate:.0f} items/s", flush=True)
        workloads = [workload for workload in WORKLOADS if workload[2] * workload[3] > 1]
        found = throughput(options, servers, 2 * options.chain, workloads, prepare=grow)
        return {"memory": memory, "commands": found}


def batches(options, modules):
    widths = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    workloads = [(f"BF.MEXISTS of {width}", "bf.mexists", width, max(1, 100 // width), 4) for width in widths]
    with Together(options, modules) as servers:
        for server in servers.values():
            server("BF.RESERVE", KEY, ERROR_RATE, options.items)
            server.load("bf.madd", options.items, 1000)
        found = throughput(options, servers, 2 * options.items, workloads)
    return dict(zip(map(str, widths), found.values()))


def sizes(options, modules):
    results = {}
    for items in [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]:
        with Together(options, modules) as servers:
            for server in servers.values():
                server("BF.RESERVE", KEY, ERROR_RATE, items)
                server.load("bf.madd", items, 1000)
            workload = (f"{items:.0e} items", "bf.mexists", 100, 4, 10)
            results[str(items)] = throughput(options, servers, 2 * items, [workload])[workload[0]]
    return results


def with_filters(modules):
    """Without the modules that have no filter."""
    return {name: module for name, module in modules.items() if not module.endswith(",floor")}


def in_batches(server, command, items):
    """How many of the items are answered with 1."""
    ones, batch = 0, []
    for item in items:
        batch.append(item)
        if len(batch) == 1000:
            ones += sum(server(command, KEY, *batch))
            batch.clear()
    return ones + (sum(server(command, KEY, *batch)) if batch else 0)


def errors(options, modules):
    capacity, probes, results = 100_000, 200_000, {}
    with Together(options, with_filters(modules)) as servers:
        for name, server in servers.items():
            server("BF.RESERVE", KEY, ERROR_RATE, capacity)
            results[name] = []
            for step in range(1, 41):
                in_batches(server, "BF.MADD", (f"in:{i}" for i in range((step - 1) * capacity // 10, step * capacity // 10)))
                found = in_batches(server, "BF.MEXISTS", (f"out:{i}" for i in range(probes)))
                results[name].append([step / 10, found / probes])
            at_capacity, at_end = results[name][9][1], results[name][-1][1]
            print(f"{name}: {at_capacity:.5f} at capacity, {at_end:.5f} at 4 times that", flush=True)
    return results


def growth(options, modules):
    results = {}
    with Together(options, with_filters(modules)) as servers:
        for name, server in servers.items():
            results[name], added = [], 0
            for exponent in range(14, 46):
                target = int(10 ** (exponent / 7))
                in_batches(server, "BF.MADD", (str(i) for i in range(added, target)))
                added = target
                results[name].append([added, server("MEMORY", "USAGE", KEY) * 8 / added])
            print(f"{name}: {results[name][-1][1]:.2f} bits per item at {added} items", flush=True)
    return results


def private_bytes(pid):
    """Memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def saved_in_background(server):
    """Saves in a child; gives the most memory that it had of its own while it did."""
    server("BGSAVE")
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    own = 0
    while server.info("persistence", "rdb_bgsave_in_progress"):
        try:
            own = max([own, *(private_bytes(child) for child in children.read_text().split())])
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        time.sleep(0.01)
    return own


def copied_on_write(server):
    """The share of a filter of about 1 GiB that 100,000 new items make the kernel copy during a BGSAVE."""
    server("BF.RESERVE", KEY, ERROR_RATE, 820_000_000)
    server.load("bf.madd", 20_000_000, 1000)  # enough for each of its pages
    used = server("MEMORY", "USAGE", KEY)
    server("CONFIG", "SET", "rdbcompression", "no")
    # The child waits after the key, so that it is there until all items are added.
    server("CONFIG", "SET", "rdb-key-save-delay", 4_000_000)
    server("BGSAVE")
    server.load("bf.madd", 100_000, 50, distinct=10**9)
    in_time = server.info("persistence", "rdb_bgsave_in_progress")
    while server.info("persistence", "rdb_bgsave_in_progress"):
        time.sleep(0.05)
    return server.info("persistence", "rdb_last_cow_size") / used if in_time else float("nan")


def persistence(options, modules):
    results = {}
    stored = {name: module for name, module in modules.items() if "baseline" not in module}
    for name, module in stored.items():
        results[name] = of = {}
        server = Server(options, module)
        try:
            resident = server.info("memory", "used_memory_rss")
            usual = min(server.seconds("PING")[0] for _ in range(20))
            seconds, _ = server.seconds("BF.RESERVE", "huge", 0.0001, options.huge)
            of[f"BF.RESERVE of {options.huge:.0e} items at 1e-4, ms beyond a PING"] = (seconds - usual) * 1e3
            of["resident bytes that it takes"] = server.info("memory", "used_memory_rss") - resident
            server("UNLINK", "huge")

            server("BF.RESERVE", KEY, ERROR_RATE, options.stored)
            server.load("bf.madd", options.stored, 1000)
            used = server("MEMORY", "USAGE", KEY)
            of["filter, bytes"] = used
            for compression in ["yes", "no"]:
                saves, starts = [], []
                for _ in range(options.rounds):
                    server("CONFIG", "SET", "rdbcompression", compression)
                    saves.append(server.seconds("SAVE")[0])
                    server.stop()
                    starts.append(server.start())
                of[f"SAVE with compression {compression}, s"] = statistics.median(saves)
                of[f"file with compression {compression}, bytes"] = (server.dir / "dump.rdb").stat().st_size
                of[f"start with compression {compression}, s"] = statistics.median(starts)

            of["memory of a saving child's own, bytes"] = saved_in_background(server)
            of["DEL, ms"] = server.seconds("DEL", KEY)[0] * 1e3
            of["copy-on-write of 100,000 new items in 1 GiB, share of it"] = copied_on_write(server)
        finally:
            server.remove()

        log = Server(options, module, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
        try:
            log("BF.RESERVE", KEY, ERROR_RATE, 1_000_000)
            log.load("bf.madd", 1_000_000, 100, distinct=10_000)
            files = [path for path in log.dir.rglob("*") if "aof" in path.name and path.is_file()]
            of["AOF of 1,000,000 adds of 10,000 items, bytes"] = sum(path.stat().st_size for path in files)
        finally:
            log.remove()
        for figure, value in of.items():
            print(f"{name:<12}{figure:<60}{value:>16.3f}", flush=True)
    return results


def reloaded(server):
    """Seconds that a server takes to save, and to load what it saved."""
    save, _ = server.seconds("SAVE")
    load, _ = server.seconds("DEBUG", "RELOAD", "NOSAVE")
    return {"SAVE, s": save, "DEBUG RELOAD NOSAVE, s": load}


def loading(options, modules):
    results = {}
    settings = ["--enable-debug-command", "yes", "--rdbcompression", "no"]
    with Together(options, with_filters(modules), *settings) as servers:
        servers = {name: server for name, server in servers.items() if "baseline" not in modules[name]}
        for server in servers.values():
            server("BF.RESERVE", KEY, ERROR_RATE, options.stored)
            server.load("bf.madd", options.stored // 2, 1000)
            server("SAVE")
        for checksum in ["yes", "no"]:
            for server in servers.values():
                server.stop()
                server.settings = [*settings, "--rdbchecksum", checksum]
                server.start()
            rounds = {name: [] for name in servers}
            for _ in range(options.rounds):
                for name, server in servers.items():
                    rounds[name].append(reloaded(server))
            first = next(iter(rounds.values()))
            for name, of_server in rounds.items():
                for figure in of_server[0]:
                    seconds, others = [one[figure] for one in of_server], [one[figure] for one in first]
                    median, least = statistics.median(seconds), min(seconds)
                    label = f"{figure[:-3]}, checksum {checksum}"
                    results.setdefault(name, {})[label] = {"median, s": median, "least, s": least}
                    print(
                        f"{label:<36}{name:<14}median {median:.3f} s ({median / statistics.median(others):.2f}), "
                        f"least {least:.3f} s ({least / min(others):.2f})",
                        flush=True,
                    )
    return results


MEASUREMENTS = {
    function.__name__: function
    for function in [commands, chain, packed, log, batches, sizes, errors, growth, persistence, loading]
}

if __name__ == "__main__":
    main()
