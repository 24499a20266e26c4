#!/usr/bin/env python3
"""Measures modules side by side: the same server program, the same load, in turn, again and again.

    measure.py [--server redis-server] [--out folder] [--items N] [--only NAME] ... name=path[,argument...] ...

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
from pathlib import Path

import plots
import tables
from measurements import MEASUREMENTS
from servers import machine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--benchmark", default="redis-benchmark")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the results, tables and plots")
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

    options.out.mkdir(parents=True, exist_ok=True)
    stored = options.out / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    results["machine"] = machine(options.server)
    print(f"# {results['machine']}", flush=True)
    for name in options.only or MEASUREMENTS:
        print(f"\n## {name}", flush=True)
        results[name] = MEASUREMENTS[name](options, modules)
        stored.write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "tables.md").write_text(tables.text(results))
    plots.write(results, options.out)


if __name__ == "__main__":
    main()
