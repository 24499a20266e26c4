#!/usr/bin/env python3
"""Measures modules side by side: the same server program, the same load, in turn, again and again.

    measure.py [--for compare] [--server redis-server] [--out folder] [--only NAME] ... name=path[,argument...] ...

`make bench-server` measures what the module costs beyond what no module can do without, and `make compare` others'
modules beside it. Where a module is called `floor`, it has no filter; what only this module has is measured of the
one that is called `libbloom`. What is measured, each under its own name:

    commands     one filter of --items items: single and multi-item commands, pipelined and not
    chain        the same of a filter that grew from the default to --chain items
    calls        calls that make a filter, and calls for one or two items
    latency      what a client waits for replies: single and multi-item commands, while a filter grows or is saved
    sizes        processor time by the size of the filter, up to --largest
    memory       bits an item of filters of --largest items and fewer, by how they were made
    growth       bits an item of a filter that grows from the default
    rates        the false positive rate of full filters over the promised one
    errors       the false positive rate by how full the filter is, beyond its capacity too
    persistence  huge filters, saving, loading, copy-on-write, the append-only file, freeing
    loading      SAVE and DEBUG RELOAD of one filter that is half full, with and without the file's checksum
    log          bytes of the append-only file and of the replication stream, packed and not
    without      the same items in a SET, and in a filter of SETBIT that the client makes
    packed       packed commands, beside BF.MEXISTS and BF.MADD of the modules that have none
    windows      a filter with a window beside what is used where there is none (windows.py)
    unions       filters united and intersected (sets.py)
    long_list    a long list of items sent through one connection

Figures are medians over --rounds rounds in which the modules take turns. Where requests a second are counted, the
load is redis-benchmark's, whose own work is most of what an unpipelined request costs; the server's processor time
an item leaves it out. Nothing is asserted: this measures.

The results are kept in the folder as results.json, those of earlier runs too as far as they are not measured again and
are of the same machine, server and modules.
All tables (tables.md) and plots are made from them; --into puts the tables and plots into pages that have places
for them, and --only none measures nothing before.
"""

import argparse
import json
import re
import shutil
import time
from pathlib import Path

import plots
import tables
from measurements import BENCH, COMPARE, MEASUREMENTS
from servers import Server, machine

# Each option's default, its default with --quick, and what it is of.
SIZES = {
    "items": (20_000_000, 500_000, "items of the filter of `commands` and `packed`"),
    "chain": (10_000_000, 300_000, "items of the filter of `chain`"),
    "calls": (100_000, 5_000, "calls of each command of `calls`"),
    "waits": (50_000, 5_000, "single calls in a situation of `latency`"),
    "largest": (100_000_000, 1_000_000, "items of the largest filter of `sizes`, `memory` and `growth`"),
    "full": (1_000_000, 100_000, "items of the largest filter of `rates`"),
    "stored": (100_000_000, 2_000_000, "items of the filter of `persistence` and `loading`"),
    "huge": (5 * 10**9, 5 * 10**9, "items of the filter that is reserved and not used"),
    "urls": (10_000_000, 200_000, "items of `without`"),
    "listed": (2_000_000, 100_000, "items of `long_list`"),
    "windowed": (200_000, 20_000, "items in a window of `windows`"),
    "window": (10, 2, "seconds of a window of `windows`"),
    "megabytes": (50, 2, "of a filter of `unions`"),
    "requests": (400_000, 20_000, "items of a measurement of requests a second"),
    "seconds": (45, 3, "for the questions of one rate of `rates`, a third where it is above 1e-5"),
    "patience": (240, 10, "seconds that a filter may take to grow to a size of `memory`"),
    "rounds": (3, 1, "in which the modules take turns"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="purpose", choices=["bench-server", "compare"], default="bench-server")
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--benchmark", default="redis-benchmark")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the results, tables and plots")
    parser.add_argument("--into", type=Path, action="append", default=[], metavar="PAGE", help="again for more")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes, and figures that mean little")
    parser.add_argument("--only", action="append", choices=[*MEASUREMENTS, "none"], help="again for more")
    for name, (usual, quick, help) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, help=f"{help} (default: {usual:,}, quick: {quick:,})")
    parser.add_argument("modules", nargs="*", metavar="name=path[,argument...]")
    options = parser.parse_args()
    for name, (usual, quick, _) in SIZES.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
    modules = dict(module.split("=", 1) for module in options.modules)

    options.out.mkdir(parents=True, exist_ok=True)
    stored = options.out / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    usual = COMPARE if options.purpose == "compare" else BENCH
    names = [name for name in options.only or [function.__name__ for function in usual] if name != "none"]
    if names:
        run = {"machine": machine(options.server), "versions": versions(options, modules)}
        if results and not alike(run, results):
            results = {}
        results.update(run)
        print(f"# {results['machine']} {results['versions']}", flush=True)
    for name in names:
        print(f"\n## {name}", flush=True)
        begin = time.monotonic()
        results[name] = MEASUREMENTS[name](options, modules)
        results.setdefault("options", {})[name] = {size: getattr(options, size) for size in SIZES}
        results.setdefault("seconds", {})[name] = round(time.monotonic() - begin)
        stored.write_text(json.dumps(results, indent=1) + "\n")
        print(f"({results['seconds'][name]} s)", flush=True)
    write(results, options)


def alike(run, other):
    """Whether two runs differ in nothing but their day."""
    days = [{**one["machine"], "day": None, "versions": one["versions"]} for one in (run, other)]
    return days[0] == days[1]


def versions(options, modules):
    """The number that each module gives as its version. One that the server does not load is told of at once."""
    found = {}
    for name, module in modules.items():
        server = Server(options, module)
        found[name] = server.version()
        server.remove()
    return found


def write(results, options):
    """Tables and plots, in the folder and in the pages."""
    command = f"make {options.purpose}"
    (options.out / "tables.md").write_text(tables.text(results, command))
    plots.write(results, options.out)
    for page in options.into:
        text = page.read_text()
        page.write_text(tables.put_into(text, command, tables.all_of(results)))
        for link in re.findall(r"!\[[^\]]*\]\(([^)]*\.svg)\)", text):
            drawn = options.out / Path(link).name
            if drawn.exists():
                shutil.copy(drawn, page.parent / link)


if __name__ == "__main__":
    main()
