"""Tables in Markdown of what was measured, and how they come into a page.

In a page a table stands between two comments, which name the command that makes it and the table:

    <!-- make compare: memory -->
    ...
    <!-- end of memory -->
"""

import math
import re
import statistics

# The module that the others are compared with, and the one without a filter.
OWN, FLOOR = "libbloom", "floor"
MARKED = re.compile(r"^<!-- (make [a-z-]+): (\w+) -->\n(.*?)^<!-- end of (\w+) -->", re.DOTALL | re.MULTILINE)
NOTHING = "–"
# What the server counts, since not each module's `MEMORY USAGE` has what the allocator adds.
ACCOUNTED = "accounted bits/item"
# Fewer wrong answers than these tell only what a rate is at most.
FEW = 5


# ---- Pages ---------------------------------------------------------------------------------------


def text(results, command):
    """All tables that there are results for, with their marks."""
    return "\n".join(f"## {name}\n\n{marked(command, name, one)}\n" for name, one in all_of(results).items())


def all_of(results):
    """Each table by its name."""
    tables = {}
    for name, write in TABLES.items():
        try:
            tables[name] = write(results)
        except MissingResults:
            pass
    return tables


class MissingResults(Exception):
    """What a table needs was not measured."""


def of(results, name):
    if name not in results:
        raise MissingResults(name)
    return results[name]


def marked(command, name, table):
    return f"<!-- {command}: {name} -->\n{table.strip()}\n<!-- end of {name} -->"


def put_into(page, command, tables):
    """The page with the tables that `command` makes in the places that are marked for them.

    A place whose table there are no results for stays as it is.
    """

    def replaced(found):
        maker, name, _, end = found.groups()
        if name != end:
            raise ValueError(f"`{name}` is not ended before `{end}` is")
        if maker != command or name not in tables:
            if maker == command and name not in TABLES:
                raise ValueError(f"there is no table `{name}`")
            return found[0]
        return marked(command, name, tables[name])

    return MARKED.sub(replaced, page)


# ---- Figures -------------------------------------------------------------------------------------


def table(head, rows):
    """A table of cells that are text already."""
    lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def figure(number):
    """Three digits, and no more than three decimals."""
    if number is None or isinstance(number, float) and math.isnan(number):
        return NOTHING
    if isinstance(number, str):
        return number
    size = abs(number)
    return f"{number:,.{0 if size >= 100 or number == int(number) else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def times(number):
    """A ratio."""
    return NOTHING if number is None else f"{number:.2f}" if number < 10 else f"{number:.0f}"


def ratio(one, other):
    """One figure over another one, where there are both."""
    return one / other if isinstance(one, (int, float)) and isinstance(other, (int, float)) and other else None


def rivals(modules):
    """The modules that are compared with this one."""
    return [name for name in modules if name not in (OWN, FLOOR)] if OWN in modules else []


def beside(head, rows, write=figure):
    """A table of one figure of each module, and of the others' over this module's.

    `rows`: by their names, each {module: figure}, where modules may be missing.
    """
    modules = list(dict.fromkeys(module for row in rows.values() for module in row))
    compared = rivals(modules)
    cells = [
        [name, *(write(row.get(module)) for module in modules)]
        + [times(ratio(row.get(module), row.get(OWN))) for module in compared]
        for name, row in rows.items()
    ]
    return table([head, *modules, *(f"{module}/{OWN}" for module in compared)], cells)


def one_figure(rows, name):
    return {row: {module: figures[name] for module, figures in modules.items()} for row, modules in rows.items()}


def poisson_interval(hits):
    """The means at which a count like this one is not improbable, with 95 % confidence: the exact interval
    (Garwood's), which leaves 2.5 % on either side."""
    half = 0.025
    if hits > 5000:
        # Far from zero a count is as good as normal, and the sum of its probabilities long.
        width = statistics.NormalDist().inv_cdf(1 - half) * math.sqrt(hits)
        return hits - width, hits + width
    least = 0.0 if hits == 0 else bisected(lambda mean: 1 - at_most(hits - 1, mean) - half, 0.0, hits + 1.0)
    return least, bisected(lambda mean: half - at_most(hits, mean), float(hits), 2.0 * hits + 20)


def at_most(hits, mean):
    """The probability of so many hits or fewer."""
    if mean == 0:
        return 1.0
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(hits + 1))


def bisected(rising, low, high):
    """Where a rising function is 0."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


# ---- The tables ----------------------------------------------------------------------------------


def millions(items):
    items = int(items)
    return f"{items // 10**6:,} million" if items % 10**6 == 0 and items else f"{items:,}"


def options(results, name):
    return results.get("options", {}).get(name, {})


def version(number):
    """A module's version number as people write it."""
    # RedisBloom has the one number between its versions, valkey-bloom the other before its first.
    odd = {999_999: "not released", 1: "0.1"}
    return odd.get(number) or f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def promised(rate):
    return f"{rate:g}".replace("e-0", "e-")


def machine(results):
    about = of(results, "machine")
    modules = ", ".join(f"{name} {version(number)}" for name, number in of(results, "versions").items() if name != FLOOR and number)
    return f"{about['server']}, {about['allocator']}; {about['processor']}; {about['system']}; {about['day']}. {modules}.\n"


def processor_time(rows):
    return "Processor time of the server, µs an item:\n\n" + beside(
        "", one_figure(rows, "cpu us/item"), lambda number: NOTHING if number is None else f"{number:.3f}"
    )


def throughput(rows):
    return (
        processor_time(rows)
        + "\nRequests a second, in thousands; more is better:\n\n"
        + beside("", {name: {module: one / 1000 for module, one in row.items()} for name, row in one_figure(rows, "requests/s").items()})
    )


def commands(results):
    rows = of(results, "commands")
    items = millions(options(results, "commands").get("items", 0))
    return f"A filter for {items} items at 0.01, half full; half of the items asked for are there.\n\n" + throughput(rows)


def chain(results):
    rows, items = of(results, "chain"), millions(options(results, "chain").get("chain", 0))
    return (
        f"A filter that the first add made, grown to {items} items; half of the items asked for are there.\n\n"
        + throughput(rows)
    )


def calls(results):
    return "Processor time of the server, µs a call, pipelined.\n\n" + beside("", one_figure(of(results, "calls"), "cpu us/call"))


def latency(results):
    found = of(results, "latency")
    modules = list(dict.fromkeys(module for row in found.values() for module in row))
    shares = list(dict.fromkeys(share for row in found.values() for one in row.values() for share in one))
    rows = [
        [situation, *(f"{row[module][share]:,.0f}" if module in row else NOTHING for module in modules for share in shares)]
        for situation, row in found.items()
    ]
    items, stored = (millions(options(results, "latency").get(size, 0)) for size in ("items", "stored"))
    return (
        f"µs until one client, the only one, has its reply. A filter for {items} items at 0.01, half full; for the save "
        f"one for {stored}, a quarter full.\n\n"
        + table(["", *(f"{module} {share}" for module in modules for share in shares)], rows)
    )


def sizes(results):
    found = of(results, "sizes")
    rows = {
        f"{command} of 100, made for {int(size):,}": {module: one["cpu us/item"] for module, one in modules.items()}
        for command, sizes in found.items()
        for size, modules in sizes.items()
    }
    return "Processor time of the server, µs an item; filters at 0.01, half full.\n\n" + beside("", rows)


def memory(results):
    rows = {
        f"{how}, {millions(items)} items": {module: one.get(ACCOUNTED) or reached(one) for module, one in modules.items()}
        for how, sizes in of(results, "memory").items()
        for items, modules in sizes.items()
    }
    return "Bits an item at 0.01, as the server counts them (`used_memory`), rounded up by its allocator:\n\n" + beside("", rows)


def reached(one):
    return f"had {millions(one['reached'])} after {one['seconds']:.0f} s"


def growth(results):
    found = of(results, "growth")
    rows = {}
    for module, points in found.items():
        # Of three points of each layer those where it has just been added, and where it is full.
        for at, (items, bits) in enumerate(points):
            if at % 3 != 1:
                rows.setdefault(f"{items:,} items, {'full' if at % 3 else 'with a new layer'}", {})[module] = bits
    head = "Bits an item at 0.01, as the server counts them (`used_memory`):"
    return f"{machine(results)}\n{head}\n\n{beside('', rows)}"


def over_promise(hits, expected):
    """The measured rate over the promised one, which few wrong answers do not tell."""
    return hits / expected if hits >= FEW else f"at most {times(poisson_interval(hits)[1] / expected)}"


def rates(results):
    found = of(results, "rates")
    modules = list(found[0]["hits"])
    rows = []
    for one in found:
        row = [f"{one['how']}, {one['items']:,} items", promised(one["rate"]), figure(one["questions"] / 1e6)]
        for module in modules:
            hits, expected = one["hits"][module], one["questions"] * one["rate"]
            found_rate = over_promise(hits, expected)
            if isinstance(found_rate, str):
                row.append(f"{found_rate} ({hits} hit{'s' * (hits != 1)})")
            else:
                least, most = (times(end / expected) for end in poisson_interval(hits))
                row.append(f"**{times(found_rate)}** ({least} to {most}), {hits:,}")
        rows.append(row)
    caption = (
        "The measured rate of false positives over the promised one, with the interval that has it with 95 %, and the "
        f"wrong answers (hits). Fewer than {FEW} hits tell only what the rate is at most. Filters are filled with as many "
        "items as they are for."
    )
    return f"{caption}\n\n{table(['filter', 'promised', 'million questions', *modules], rows)}"


def by_figure(found):
    """From {module: {figure: number}} the rows of a table."""
    names = dict.fromkeys(name for figures in found.values() for name in figures)
    return {name: {module: figures.get(name) for module, figures in found.items()} for name in names}


def persistence(results):
    items = millions(options(results, "persistence").get("stored", 0))
    return f"A filter reserved for {items} items at 0.01, and full.\n\n" + beside("", by_figure(of(results, "persistence")))


def loading(results):
    found = {
        module: {f"{name}, {which}": one for name, figures in of_module.items() for which, one in figures.items()}
        for module, of_module in of(results, "loading").items()
    }
    items = millions(options(results, "loading").get("stored", 0))
    return f"A filter for {items} items at 0.01, half full.\n\n" + beside("", by_figure(found))


def without(results):
    rows = []
    for name, one in of(results, "without").items():
        rows.append(
            [name, figure(one["bytes/item"]), figure(one["add, requests/item"])]
            + [f"{one[f'{what}, cpu us/item']:.3f}" for what in ("add", "present", "absent")]
            + [f"{one['false positives']:.2%}" if "false positives" in one else "none"]
        )
    items = millions(options(results, "without").get("urls", 0))
    return f"{items} URLs of 33 bytes; processor time of the server, µs an item.\n\n" + table(
        ["", "bytes an item", "requests an item", "add", "ask, present", "ask, absent", "false positives"], rows
    )


def packed(results):
    items = millions(options(results, "packed").get("items", 0))
    return (
        f"A filter for {items} items at 0.01, half full; items of 30 bytes, half of them in it. Modules without these "
        "commands get the same items in `BF.MEXISTS` and `BF.MADD`.\n\n" + processor_time(of(results, "packed"))
    )


def long_list(results):
    found = of(results, "long_list")
    items = millions(options(results, "long_list").get("listed", 0))
    rows = {way: {module: one["items/s"] / 1e6 for module, one in modules.items()} for way, modules in found.items()}
    spent = {way: {module: one["cpu us/item"] for module, one in modules.items()} for way, modules in found.items()}
    sent = [[way, figure(next(iter(modules.values()))["bytes sent/item"])] for way, modules in found.items()]
    return (
        f"{items} URLs of 33 bytes, one connection. Million items a second:\n\n"
        + beside("", rows)
        + "\nProcessor time of the server, µs an item:\n\n"
        + beside("", spent)
        + "\n"
        + table(["", "bytes sent an item"], sent)
    )


def windows(results):
    found = alone(results, "windows")
    rows = [
        [name, one["keeps"], one["false positives"], f"{one['bytes']:.1f}"]
        + [f"{one[what]:.2f}" for what in ("new", "again", "asked")]
        for name, one in found.items()
    ]
    of_run = options(results, "windows")
    caption = f"{of_run['windowed']:,} items in a window of {of_run['window']} s; processor time of the server, µs an item.\n\n" if of_run else ""
    return caption + table(["way", "an item is found for", "false positives", "bytes an item", "new, µs", "again, µs", "asked for, µs"], rows)


def unions(results):
    rows = [
        [*cells, gigabytes(one["memcpy, bytes/s"])]
        + [f"{one[when] / 1e6:.0f}" for when in ("before, bytes", "at most, bytes", "then, bytes")]
        for cells, one in zip(times_of_unions(results), united(results).values(), strict=True)
    ]
    return table([*head_of_unions(results), "memcpy, GB/s", "used, MB", "at most, MB", "then, MB"], rows)


def united(results):
    return alone(results, "unions")


def alone(results, name):
    """The results of a measurement, also where its own script gives no others."""
    return results if "machine" not in results else of(results, name)


def head_of_unions(results):
    size = next(iter(united(results).values()))["filter, bytes"]
    return [f"filters of {size / 1e6:.0f} MB", "ms", "GB/s of what is united"]


def times_of_unions(results):
    return [[name, f"{one['s'] * 1e3:.1f}", gigabytes(one["bytes/s"])] for name, one in united(results).items()]


def gigabytes(rate):
    return figure(rate / 1e9) if rate else ""


def log(results):
    rows = [
        [module, name, f"{one['AOF, bytes']:,}", f"{one['stream, bytes']:,}"]
        for module, figures in of(results, "log").items()
        for name, one in figures.items()
    ]
    return table(["module", "items", "AOF, bytes", "stream, bytes"], rows)


def summary(results):
    """What most people ask first, a line each."""
    rows = lines(results)
    return machine(results) + "\n" + beside("", rows)


def short(results):
    """Of the summary what a page that is not about figures has room for, with what other modules do better."""
    shown = (
        "BF.MEXISTS of 1000, 20 million items",
        "BF.ADD that makes a filter",
        "memory, reserved for a tenth",
        "memory, grown from the default",
        "false positives, grown from the default",
    )
    chosen = {label: figures for label, figures in lines(results).items() if label.startswith(shown)}
    if not chosen:
        raise MissingResults("short")
    return machine(results) + "\n" + beside("", chosen)


def lines(results):
    """The lines of the summary, as far as there are results."""
    rows = {}

    def take(label, name, *path, write=lambda number: number):
        """A figure of each module, where it was measured."""
        found = results.get(name, {})
        for step in path:
            found = found.get(step, {})
        if found:
            rows[label] = {module: write(one) for module, one in found.items() if module != FLOOR}

    def cpu(one):
        return one["cpu us/item"]

    for name, size, made in [("commands", "items", "reserved"), ("chain", "chain", "grown")]:
        items = millions(options(results, name).get(size, 0))
        for workload in "BF.EXISTS, one by one", "BF.EXISTS, 64 pipelined", "BF.MEXISTS of 1000", "BF.MADD of 1000":
            take(f"{workload}, {items} items {made}: server µs an item", name, workload, write=cpu)
    take("BF.ADD that makes a filter: server µs a call", "calls", "BF.ADD, new key", write=lambda one: one["cpu us/call"])
    for how, sizes in results.get("memory", {}).items():
        # The largest size that all of them reached.
        full = [items for items, modules in sizes.items() if all(ACCOUNTED in one for one in modules.values())]
        if full:
            label = f"memory, {how}, {millions(full[-1])} items: bits an item"
            take(label, "memory", how, full[-1], write=lambda one: one[ACCOUNTED])
    small = {module: dict(map(tuple, points)).get(100) for module, points in results.get("growth", {}).items()}
    if any(small.values()):
        rows["memory, of the default size and full, 100 items: bits an item"] = small
    for one in results.get("rates", []):
        if (one["items"], one["rate"]) in [(1000, 1e-6), (max(two["items"] for two in results["rates"]), 1e-2)]:
            label = f"false positives, {one['how']}, {one['items']:,} items at {promised(one['rate'])}: measured over promised"
            expected = one["questions"] * one["rate"]
            rows[label] = {module: over_promise(hits, expected) for module, hits in one["hits"].items()}
    take("BF.ADDPACKED of 10,000, or BF.MADD: server µs an item", "packed", "BF.ADDPACKED of 10,000, LINES", write=cpu)
    items = millions(options(results, "persistence").get("stored", 0))
    for name, figures in by_figure(results.get("persistence", {})).items():
        if name.startswith(("SAVE, compression yes", "load, compression yes", "memory of a saving", "copied on write")):
            rows[f"{items} items: {name}"] = figures
        elif name.startswith("append-only file of"):
            rows[name] = figures
    if not rows:
        raise MissingResults("summary")
    return rows


TABLES = {
    function.__name__: function
    for function in [
        *[summary, short, commands, chain, calls, latency, sizes, memory, growth, rates, persistence, without],
        *[packed, windows, unions, long_list, log, loading],
    ]
}
