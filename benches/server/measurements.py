"""What is measured of modules side by side, each in a function of its own that gives its figures."""

import statistics
import time
from pathlib import Path

from load import FORMS, draw, send
from servers import KEY, Server, Together

ERROR_RATE = 0.01
# Items from here on were never added.
ABSENT = 10**11

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
            rate = draw(server, command, items, width, pipeline, clients, distinct, form=form[0] if form else None)
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
        draw(server, "bf.madd", options.items, 1000)

    with Together(options, modules) as servers:
        # About a third of what is asked for was added; with what a workload adds in five rounds, the filter is not full yet.
        return throughput(options, servers, 2 * options.items, prepare=fill)


def packed(options, modules):
    def fill(server):
        server("DEL", KEY)
        server("BF.RESERVE", KEY, ERROR_RATE, options.items)
        draw(server, "bf.madd", options.items, 1000, form="WIDTH")

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
                    draw(server, "bf.madd", items, 1000, distinct=distinct, form=form or "plain")
                    stream = server.info("replication", "master_repl_offset") - before
                    figures = {"AOF, bytes": server.log_bytes(), "stream, bytes": stream}
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
        return draw(server, "bf.madd", options.chain * 2, 1000, distinct=options.chain)

    with Together(options, modules) as servers:
        memory = {}
        for name, server in servers.items():
            rate = grow(server)
            memory[name] = server.memory_usage()
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
            draw(server, "bf.madd", options.items, 1000)
        found = throughput(options, servers, 2 * options.items, workloads)
    return dict(zip(map(str, widths), found.values()))


def sizes(options, modules):
    results = {}
    for items in [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]:
        with Together(options, modules) as servers:
            for server in servers.values():
                server("BF.RESERVE", KEY, ERROR_RATE, items)
                draw(server, "bf.madd", items, 1000)
            workload = (f"{items:.0e} items", "bf.mexists", 100, 4, 10)
            results[str(items)] = throughput(options, servers, 2 * items, [workload])[workload[0]]
    return results


def with_filters(modules):
    """Without the modules that have no filter."""
    return {name: module for name, module in modules.items() if not module.endswith(",floor")}


def errors(options, modules):
    capacity, probes, results = 100_000, 200_000, {}
    with Together(options, with_filters(modules)) as servers:
        for name, server in servers.items():
            server("BF.RESERVE", KEY, ERROR_RATE, capacity)
            results[name] = []
            for step in range(1, 41):
                send(server, ["BF.MADD", KEY], range((step - 1) * capacity // 10, step * capacity // 10))
                found = send(server, ["BF.MEXISTS", KEY], range(ABSENT, ABSENT + probes))
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
                send(server, ["BF.MADD", KEY], range(added, target))
                added = target
                results[name].append([added, server.memory_usage() * 8 / added])
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
    draw(server, "bf.madd", 20_000_000, 1000)  # enough for each of its pages
    used = server.memory_usage()
    server("CONFIG", "SET", "rdbcompression", "no")
    # The child waits after the key, so that it is there until all items are added.
    server("CONFIG", "SET", "rdb-key-save-delay", 4_000_000)
    server("BGSAVE")
    draw(server, "bf.madd", 100_000, 50, distinct=10**9)
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
            draw(server, "bf.madd", options.stored, 1000)
            used = server.memory_usage()
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
            draw(log, "bf.madd", 1_000_000, 100, distinct=10_000)
            of["AOF of 1,000,000 adds of 10,000 items, bytes"] = log.log_bytes()
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
            draw(server, "bf.madd", options.stored // 2, 1000)
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
