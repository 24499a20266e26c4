"""What is measured of modules side by side, each in a function of its own that gives its figures."""

import argparse
import hashlib
import statistics
import time
from pathlib import Path

import numpy
import redis

import sets
import windows as ways_to_forget
from load import AT_ONCE, FORMS, ITEM, SHORT_ITEM, Connection, bit_commands, draw, keyed_batches, packed_batches, send, send_to_all
from load import batches as known
from servers import DEFAULT_CAPACITY, KEY, Server, Together, at_the_same_time
from tables import OWN

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
# Calls that make a filter: name, command, and what follows its key.
CREATIONS = [
    ("BF.ADD, new key", "BF.ADD", ["x"]),
    ("BF.MADD of 2, new key", "BF.MADD", ["x", "y"]),
    ("BF.INSERT CAPACITY 1000 of 1, new key", "BF.INSERT", ["CAPACITY", "1000", "ITEMS", "x"]),
    ("BF.RESERVE of 1000", "BF.RESERVE", [str(ERROR_RATE), "1000"]),
]
# Calls for one or two items of a filter that is there: name, the words before the items, and their number.
SHORT = [
    ("BF.EXISTS", ["BF.EXISTS", KEY], 1),
    ("BF.ADD", ["BF.ADD", KEY], 1),
    ("BF.MADD of 2", ["BF.MADD", KEY], 2),
    ("BF.INSERT of 1", ["BF.INSERT", KEY, "ITEMS"], 1),
]
# The commands in the order in which those that change nothing come first.
QUESTIONS_FIRST = sorted(WORKLOADS, key=lambda workload: "add" in workload[1])
# Of a rate: how many are asked at once, and how many wrong answers tell it well enough.
QUESTIONS, ENOUGH = 20_000, 400


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


def with_filters(modules):
    """Without the module that has no filter."""
    return {name: module for name, module in modules.items() if not module.endswith(",floor")}


def throughput(options, servers, distinct, workloads=None, items=None):
    """Requests a second, and processor time an item, of each workload on each server."""
    results = {}
    for name, command, width, pipeline, clients, *form in workloads or WORKLOADS:
        # One by one a request takes so long that fewer will do.
        of_each = options.requests // 2 if width * pipeline == 1 else items or 2 * options.requests

        def measure(server):
            before = server.processor_seconds()
            rate = draw(server, command, of_each, width, pipeline, clients, distinct, form=form[0] if form else None)
            spent = server.processor_seconds() - before
            return {"requests/s": rate / width, "items/s": rate, "cpu us/item": spent / of_each * 1e6}

        results[name] = taking_turns(servers, options.rounds, measure)
        show(name, {module: of["cpu us/item"] for module, of in results[name].items()}, "us/item")
    return results


def show(what, figures, unit=""):
    """Tells how far it is."""
    print(f"{what}: {', '.join(f'{name} {figure:.4g}' for name, figure in figures.items())} {unit}", flush=True)


def reserve(servers, items, *words):
    for server in servers.values():
        server("BF.RESERVE", KEY, ERROR_RATE, items, *words)


def grow_from_default(servers, rate=ERROR_RATE):
    for server in servers.values():
        server.begin(rate)


def half_full(servers, items, item=ITEM):
    """A filter for so many items that has half of them: drawn from all, half of a question's are there."""
    reserve(servers, items)
    send_to_all(servers, ["BF.MADD", KEY], range(items // 2), item=item)


# ---- Throughput ----------------------------------------------------------------------------------


def commands(options, modules):
    with Together(options, modules) as servers:
        half_full(servers, options.items)
        return throughput(options, servers, options.items, QUESTIONS_FIRST)


def chain(options, modules):
    with Together(options, modules) as servers:
        grow_from_default(servers)
        send_to_all(servers, ["BF.MADD", KEY], range(options.chain))
        workloads = [workload for workload in QUESTIONS_FIRST if workload[2] * workload[3] > 1]
        # They take long where a filter has many layers, and those that add should not make it grow much more.
        return throughput(options, servers, 2 * options.chain, workloads, items=options.requests)


def calls(options, modules):
    """Processor time of calls that make a filter, and of those for one or two items of a filter that is there."""
    calls = {name: keyed_batches(command, range(options.calls), rest) for name, command, rest in CREATIONS}
    for name, words, width in SHORT:
        calls[name] = known(words, range(options.calls * width), width, ahead=AT_ONCE * width)
    results = {}
    with Together(options, with_filters(modules)) as servers:
        for name, parts in calls.items():
            parts = list(parts)

            def measure(server):
                server("FLUSHALL", "SYNC")
                server("BF.RESERVE", KEY, ERROR_RATE, 2 * options.calls)
                spent = server.processor_seconds()
                with Connection(server) as connection:
                    for data, replies in parts:
                        connection.send(data, replies)
                    connection.finish()
                return {"cpu us/call": (server.processor_seconds() - spent) / options.calls * 1e6}

            able = {module: server for module, server in servers.items() if server.knows(name.split()[0].rstrip(","))}
            results[name] = taking_turns(able, options.rounds, measure)
            show(name, {module: of["cpu us/call"] for module, of in results[name].items()}, "us/call")
    return results


def latency(options, modules):
    """What the only client of a server waits for a reply, µs: the waits of all rounds together."""
    waits = {}
    with Together(options, with_filters(modules)) as servers:
        for _ in range(options.rounds):
            for name, server in servers.items():
                for situation, some in waits_in_a_round(options, server):
                    waits.setdefault(situation, {}).setdefault(name, []).extend(some)
    results = {}
    for situation, found in waits.items():
        results[situation] = {name: percentiles(some) for name, some in found.items()}
        show(situation, {name: of["p99.9"] for name, of in results[situation].items()}, "us, 99.9 %")
    return results


def waits_in_a_round(options, server):
    """Each situation, and the nanoseconds that its calls took."""
    half, calls = options.items // 2, options.waits
    with Connection(server) as client:
        server("BF.RESERVE", KEY, ERROR_RATE, options.items)
        send(server, ["BF.MADD", KEY], range(half))
        for command, width in ("BF.EXISTS", 1), ("BF.ADD", 1), ("BF.MEXISTS", 1000), ("BF.MADD", 1000):
            # Half of the items are there.
            some = calls * width // 2 if width == 1 else calls * width // 20
            of = f" of {width:,}" if width > 1 else ""
            yield f"{command}{of}", client.waits([command, KEY], range(half - some, half + some), width)
        server("DEL", KEY)
        server.begin(ERROR_RATE)
        yield "BF.ADD, the filter grows from the default", client.waits(["BF.ADD", KEY], range(4 * calls), 1)
        yield "BF.MADD of 1,000, it grows on", client.waits(["BF.MADD", KEY], range(4 * calls, options.chain), 1000)
        server("DEL", KEY)
        server("BF.RESERVE", KEY, ERROR_RATE, options.stored)
        send(server, ["BF.MADD", KEY], range(options.stored // 4))
        server("BGSAVE")
        added = client.waits(["BF.ADD", KEY], range(ABSENT, ABSENT + calls // 10), 1)
        if not server.info("persistence", "rdb_bgsave_in_progress"):
            raise RuntimeError("the save was over before the calls")
        yield "BF.ADD during a BGSAVE", added
        until_done(server, "rdb_bgsave_in_progress")
        server("FLUSHALL", "SYNC")


def percentiles(nanoseconds):
    shares = numpy.quantile(numpy.array(nanoseconds) / 1e3, [0.5, 0.99, 0.999, 1])
    return dict(zip(["p50", "p99", "p99.9", "longest"], map(float, shares)))


def sizes(options, modules):
    results = {}
    size = 10_000
    while size <= options.largest:
        with Together(options, modules) as servers:
            half_full(servers, size)
            for command in "BF.MEXISTS", "BF.MADD":
                workload = (f"{command} of 100, {size:,} items", command, 100, 4, 10)
                [found] = throughput(options, servers, size, [workload]).values()
                results.setdefault(command, {})[str(size)] = found
        size *= 10
    return results


# ---- What only this module has -------------------------------------------------------------------


def packed(options, modules):
    workloads = [
        (f"BF.{verb}PACKED of {width:,}, {form}", command, width, 1, 4, form)
        for verb, command in [("EXISTS", "bf.mexists"), ("ADD", "bf.madd")]
        for width in [1000, 10_000]
        for form in FORMS
    ]
    with Together(options, modules) as servers:
        half_full(servers, options.items, SHORT_ITEM)
        return throughput(options, servers, options.items, workloads)


def windows(options, modules):
    """Ways to tell what came lately, as windows.py measures them."""
    return ways_to_forget.ways(
        argparse.Namespace(
            server=options.server, module=modules[OWN], items=options.windowed, window=options.window
        )
    )


def unions(options, modules):
    """Unions and intersections, as sets.py measures them."""
    return sets.combinations(
        argparse.Namespace(
            server=options.server, module=modules[OWN], sources=8, megabytes=options.megabytes, rounds=options.rounds
        )
    )


def long_list(options, modules):
    """One connection sends a long list of new items: seconds for a million of them, and the server's."""
    results, items = {}, options.listed
    with Together(options, modules) as servers:
        for way, width in {"BF.ADD, 1,000 pipelined": 1, "BF.MADD of 1,000": 1000, "BF.ADDPACKED of 10,000": 10_000}.items():
            able = {name: server for name, server in servers.items() if width <= 1000 or server.knows("bf.addpacked")}
            if width > 1000:
                parts = list(packed_batches(["BF.ADDPACKED", KEY, "LINES", "COUNT"], range(items), ITEM + b"\n", width))
            else:
                parts = list(known(["BF.ADD" if width == 1 else "BF.MADD", KEY], range(items), width))

            def measure(server):
                server("DEL", KEY)
                server("BF.RESERVE", KEY, ERROR_RATE, items)
                spent, begin = server.processor_seconds(), time.perf_counter()
                with Connection(server) as connection:
                    for data, replies in parts:
                        connection.send(data, replies)
                    connection.finish()
                taken = time.perf_counter() - begin
                spent = server.processor_seconds() - spent
                return {"items/s": items / taken, "cpu us/item": spent / items * 1e6}

            results[way] = taking_turns(able, options.rounds, measure)
            sent = sum(len(data) for data, _ in parts) / items
            for of in results[way].values():
                of["bytes sent/item"] = sent
            show(way, {name: of["items/s"] for name, of in results[way].items()}, "items/s")
    return results


# ---- Memory --------------------------------------------------------------------------------------


def memory(options, modules):
    """Bytes of filters that have 1, 10 and 100 million items, by how they were made."""
    modules, sizes, results = with_filters(modules), [], {}
    size = options.largest
    while size >= 10_000 and len(sizes) < 3:
        sizes.insert(0, size)
        size //= 10
    made = {"reserved": (1, []), "NONSCALING": (1, ["NONSCALING"]), "reserved for a tenth": (10, [])}
    for how, (part, words) in made.items():
        for items in sizes:
            with Together(options, modules) as servers:
                empty = {name: server.used_memory() for name, server in servers.items()}
                reserve(servers, items // part, *words)
                if part > 1 or items < options.largest:
                    # A filter of one layer has all of its memory before anything is added.
                    at_the_same_time(servers, lambda server: send(server, ["BF.MADD", KEY], range(items)))
                results.setdefault(how, {})[str(items)] = {name: held(server, empty[name], items) for name, server in servers.items()}
                show(f"{how}, {items:,}", {name: of["bits/item"] for name, of in results[how][str(items)].items()}, "bits/item")
    results["grown from the default"] = grown(options, modules, sizes)
    return results


def grown(options, modules, sizes):
    """Measures a filter that the first add made: of each size, as far as it gets in time."""
    with Together(options, modules) as servers:
        empty = {name: server.used_memory() for name, server in servers.items()}
        figures = {name: {} for name in servers}
        grow_from_default(servers)

        def grow(name):
            end = time.perf_counter() + options.patience
            added, step = 0, max(sizes[0] // 10, 1000)
            while added < sizes[-1] and time.perf_counter() < end:
                send(servers[name], ["BF.MADD", KEY], range(added, added + step))
                added += step
                if added in sizes:
                    figures[name][added] = held(servers[name], empty[name], added)
            for items in sizes:
                figures[name].setdefault(items, {"reached": added, "seconds": options.patience})

        at_the_same_time({name: name for name in servers}, grow)
        results = {str(items): {name: of[items] for name, of in figures.items()} for items in sizes}
        for items, of in results.items():
            show(f"grown to {items}", {name: one.get("bits/item", float("nan")) for name, one in of.items()}, "bits/item")
        return results


def held(server, empty, items):
    """What a filter takes, as MEMORY USAGE says and as the server accounts for."""
    used = server.used_memory() - empty
    return {"bits/item": server.memory_usage() * 8 / items, "accounted bits/item": used * 8 / items}


def growth(options, modules):
    """Of a filter that began with the default capacity and doubles: just after each layer was added, half-way, and
    where it is full."""
    modules = with_filters(modules)
    results, added, layer = {name: [] for name in modules}, 0, DEFAULT_CAPACITY
    with Together(options, modules) as servers:
        # With a first filter the server makes what it keeps.
        grow_from_default(servers)
        send_to_all(servers, ["BF.MADD", KEY], range(20_000))
        for server in servers.values():
            server("FLUSHALL", "SYNC")
        empty = {name: server.used_memory() for name, server in servers.items()}
        grow_from_default(servers)
        while added + layer <= options.largest:
            first = added
            for end in first + max(layer // 25, 5), first + layer // 2, first + layer:
                send_to_all(servers, ["BF.MADD", KEY], range(added, end))
                added = end
                for name, server in servers.items():
                    results[name].append([added, (server.used_memory() - empty[name]) * 8 / added])
            layer *= 2
    show(f"{added:,} items", {name: points[-1][1] for name, points in results.items()}, "bits/item")
    return results


# ---- False positives -----------------------------------------------------------------------------


def errors(options, modules):
    capacity, probes, results = 100_000, 200_000, {}
    with Together(options, with_filters(modules)) as servers:
        reserve(servers, capacity)
        for step in range(1, 41):
            send_to_all(servers, ["BF.MADD", KEY], range((step - 1) * capacity // 10, step * capacity // 10))
            found = send_to_all(servers, ["BF.MEXISTS", KEY], range(ABSENT, ABSENT + probes))
            for name, ones in found.items():
                results.setdefault(name, []).append([step / 10, ones / probes])
    for step in 9, 39:
        show(f"at {(step + 1) / 10} capacities", {name: points[step][1] for name, points in results.items()})
    return results


def rates(options, modules):
    """Each rate that is promised: how many of so many questions are answered wrongly once the filters are full."""
    modules, results = with_filters(modules), []
    for items, filters in {1000: 50, 10_000: 10, options.full: 1}.items():
        for rate in [1e-2, 1e-3, 1e-4, 1e-6, 1e-8]:
            with Together(options, modules) as servers:
                keys = [f"{KEY}:{number}" for number in range(filters)]
                for number, key in enumerate(keys):
                    for server in servers.values():
                        server("BF.RESERVE", key, rate, items)
                    send_to_all(servers, ["BF.MADD", key], range(number * items, (number + 1) * items))
                results.append({"how": "reserved", "items": items, "rate": rate, "filters": filters} | asked(options, servers, keys, rate))
    for rate in [1e-2, 1e-3, 1e-4]:
        with Together(options, modules) as servers:
            grow_from_default(servers, rate)
            send_to_all(servers, ["BF.MADD", KEY], range(options.full))
            results.append({"how": "grown from the default", "items": options.full, "rate": rate, "filters": 1} | asked(options, servers, [KEY], rate))
    return results


def asked(options, servers, keys, rate):
    """Asks all servers the same, for items that were never added, until all have answered wrongly often enough to tell
    their rates, or for so many seconds."""
    end = time.perf_counter() + (options.seconds if rate < 1e-5 else options.seconds / 3)
    connections = {name: Connection(server) for name, server in servers.items()}
    questions = 0
    while True:
        for key in keys:
            numbers = range(ABSENT + questions, ABSENT + questions + QUESTIONS)
            for data, replies in known(["BF.MEXISTS", key], numbers):
                for connection in connections.values():
                    connection.send(data, replies)
            questions += QUESTIONS
        hits = {name: connection.total for name, connection in connections.items()}
        if min(hits.values()) > ENOUGH or time.perf_counter() > end:
            break
    hits = {name: connection.finish() for name, connection in connections.items()}
    for connection in connections.values():
        connection.socket.close()
    show(f"{len(keys)} filters at {rate}, {questions:,} questions", hits, "hits")
    return {"questions": questions, "hits": hits}


# ---- Persistence ---------------------------------------------------------------------------------


def private_bytes(pid):
    """Memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def until_done(server, what):
    """Waits until a child has done its work; gives the most memory that it had of its own."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    own = 0
    while server.info("persistence", what):
        try:
            own = max([own, *(private_bytes(child) for child in children.read_text().split())])
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        time.sleep(0.01)
    return own


def reserved_and_not_used(options, server):
    """A huge filter: what it takes to make it, and its memory while nothing is in it."""
    resident = server.info("memory", "used_memory_rss")
    usual = min(server.seconds("PING")[0] for _ in range(20))
    label = f"`BF.RESERVE` of {options.huge:.0e} items at 1e-4, ms beyond a PING"
    try:
        seconds, _ = server.seconds("BF.RESERVE", "huge", 0.0001, options.huge)
    except redis.ResponseError as error:
        return {label: str(error), "resident memory that it takes, MB": None}
    found = {label: (seconds - usual) * 1e3, "resident memory that it takes, MB": (server.info("memory", "used_memory_rss") - resident) / 1e6}
    server("UNLINK", "huge")
    return found


def saved_and_loaded(server, compression):
    """A save, and the load of its file by a server that starts: in one that runs, what was freed would be used again."""
    server("CONFIG", "SET", "rdbcompression", compression)
    save, _ = server.seconds("SAVE")
    server.stop()
    server.start()
    size = (server.dir / "dump.rdb").stat().st_size
    return {"SAVE, s": save, "load, s": server.seconds_of_loading(), "file, MB": size / 1e6}


def copied_on_write(options, server):
    """Memory of a saving child's own, and the share of the filter that new items make the kernel copy meanwhile."""
    server("CONFIG", "SET", "rdbcompression", "yes")
    server("BGSAVE")
    own = until_done(server, "rdb_bgsave_in_progress")
    # The child waits after the key, so that it is there until all items are added.
    server("CONFIG", "SET", "rdb-key-save-delay", 4_000_000)
    server("BGSAVE")
    new = options.stored // 10_000
    send(server, ["BF.MADD", KEY], range(ABSENT, ABSENT + new), 50)
    in_time = server.info("persistence", "rdb_bgsave_in_progress")
    until_done(server, "rdb_bgsave_in_progress")
    server("CONFIG", "SET", "rdb-key-save-delay", 0)
    copied = server.info("persistence", "rdb_last_cow_size") / server.memory_usage()
    return {
        "memory of a saving child's own, compression yes, MB": own / 1e6,
        f"copied on write by {new:,} new items during a BGSAVE, of the filter": copied if in_time else None,
    }


def rewritten(server):
    """The append-only file that is written anew as commands, and what it takes to read it."""
    server("CONFIG", "SET", "aof-use-rdb-preamble", "no")
    server("CONFIG", "SET", "appendfsync", "no")
    begin = time.perf_counter()
    server("CONFIG", "SET", "appendonly", "yes")
    until_done(server, "aof_rewrite_in_progress")
    taken = time.perf_counter() - begin
    try:
        load = server.seconds("DEBUG", "LOADAOF")[0]
    except redis.ResponseError as error:
        load = str(error)
    kind = "append-only file rewritten as commands"
    found = {f"{kind}, s": taken, f"{kind}, MB": server.log_bytes() / 1e6, f"{kind}, its load, s": load}
    server("CONFIG", "SET", "appendonly", "no")
    return found


def persistence(options, modules):
    modules = {name: module for name, module in modules.items() if "baseline" not in module}
    results = {}
    with Together(options, modules, "--enable-debug-command", "yes") as servers:
        for name, server in servers.items():
            results[name] = reserved_and_not_used(options, server)
        reserve(servers, options.stored)
        send_to_all(servers, ["BF.MADD", KEY], range(options.stored))
        for name, server in servers.items():
            results[name]["filter, MB"] = server.memory_usage() / 1e6
        for compression in ["yes", "no"]:
            for name, of in taking_turns(servers, options.rounds, lambda server: saved_and_loaded(server, compression)).items():
                results[name] |= {f"{figure[: figure.index(',')]}, compression {compression}{figure[figure.index(',') :]}": one for figure, one in of.items()}
        for name, server in servers.items():
            results[name] |= copied_on_write(options, server)
            results[name] |= rewritten(server)
            results[name]["`DEL`, ms"] = server.seconds("DEL", KEY)[0] * 1e3
    with Together(options, modules, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0") as servers:
        reserve(servers, 1_000_000)
        for name, server in servers.items():
            draw(server, "bf.madd", 1_000_000, 100, distinct=10_000)
            results[name]["append-only file of 1,000,000 adds of 10,000 items, MB"] = server.log_bytes() / 1e6
    for figure in results[next(iter(results))]:
        print(figure, [results[name].get(figure) for name in results], flush=True)
    return results


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
        half_full(servers, options.stored)
        for server in servers.values():
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


# ---- Without a module ----------------------------------------------------------------------------

HASHES = 7
BITS_AN_ITEM = 9.585  # of a filter of one error in a hundred, whose every bit is drawn for itself


def without(options, modules):
    """Puts the items into a SET, and in a string whose bits the client sets: nine tenths are there when the rest is
    added, and as many are asked for."""
    items, few = options.urls, options.urls // 10
    results = {}
    for way in [TheSet(), TheBits(), *(AFilter(name, module) for name, module in with_filters(modules).items())]:
        server = Server(options, way.module)
        try:
            empty = server.used_memory()
            way.fill(server, items, items - few)
            of = results[way.name] = {}
            for what, numbers, add in [
                ("add", range(items - few, items), True),
                ("present", range(items - few, items), False),
                ("absent", range(ABSENT, ABSENT + few), False),
            ]:
                parts = list(way.commands(numbers, add))
                spent, begin = server.processor_seconds(), time.perf_counter()
                with Connection(server) as connection:
                    for data, replies in parts:
                        connection.send(data, replies)
                    ones = connection.finish()
                of[f"{what}, s"] = time.perf_counter() - begin
                of[f"{what}, cpu us/item"] = (server.processor_seconds() - spent) / few * 1e6
                of[f"{what}, ones"] = ones / few
                of[f"{what}, requests/item"] = sum(replies for _, replies in parts) / few
            of["bytes/item"] = (server.used_memory() - empty) / items
            if way.false_positives:
                of["false positives"] = way.false_positives(server, few)
            print(way.name, of, flush=True)
        finally:
            server.remove()
    return results


class TheSet:
    name, module, false_positives = "a SET: `SADD`, `SMISMEMBER` of 1,000", "", None

    def fill(self, server, _items, there):
        send(server, ["SADD", KEY], range(there))

    def commands(self, numbers, add):
        return known(["SADD" if add else "SMISMEMBER", KEY], numbers)


class TheBits:
    """A filter in a string, made by hand: the client hashes, and sets and asks each bit by a command of its own."""

    name, module = f"{HASHES} `SETBIT`, `GETBIT` an item, pipelined", ""

    def fill(self, server, items, there):
        self.bits = int(items * BITS_AN_ITEM)
        # What SETBIT would have made, at once.
        ones = numpy.zeros(-(-self.bits // 8) * 8, numpy.uint8)
        for start in range(0, there, 100_000):
            ones[self.positions(range(start, min(start + 100_000, there))).ravel()] = 1
        server("SET", KEY, numpy.packbits(ones).tobytes())

    def positions(self, numbers):
        """Each item's bits: two hashes, and their sums."""
        item = ITEM.split(b"_")[0]
        digests = b"".join(hashlib.blake2b(item + b"%012d" % number, digest_size=16).digest() for number in numbers)
        first, second = numpy.frombuffer(digests, numpy.uint64).reshape(-1, 2).T
        probes = numpy.arange(HASHES, dtype=numpy.uint64)
        return (first[:, None] + second[:, None] * probes) % numpy.uint64(self.bits)

    def commands(self, numbers, add):
        words, end = (["SETBIT", KEY], b"$1\r\n1\r\n") if add else (["GETBIT", KEY], b"")
        for start in range(0, len(numbers), 10_000):
            positions = self.positions(numbers[start : start + 10_000]).ravel().astype(numpy.int64)
            yield bit_commands(words, positions, end), len(positions)

    def false_positives(self, server, questions):
        string = numpy.unpackbits(numpy.frombuffer(server("GET", KEY), numpy.uint8))
        return float(string[self.positions(range(ABSENT, ABSENT + questions))].all(axis=1).mean())


class AFilter:
    def __init__(self, name, module):
        self.name, self.module = f"{name}: `BF.MADD`, `BF.MEXISTS` of 1,000", module

    def fill(self, server, items, there):
        server("BF.RESERVE", KEY, ERROR_RATE, items)
        send(server, ["BF.MADD", KEY], range(there))

    def commands(self, numbers, add):
        return known(["BF.MADD" if add else "BF.MEXISTS", KEY], numbers)

    def false_positives(self, server, questions):
        return send(server, ["BF.MEXISTS", KEY], range(ABSENT, ABSENT + questions)) / questions


# What `make bench-server` measures, and `make compare`.
BENCH = [commands, chain, calls, packed, log, sizes, errors, growth, persistence, loading]
COMPARE = [commands, chain, calls, latency, sizes, memory, growth, rates, persistence, without, packed, windows, unions, long_list]
MEASUREMENTS = {function.__name__: function for function in [*COMPARE, *BENCH]}
