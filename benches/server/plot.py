#!/usr/bin/env python3
"""Draws what measure.py measured, and writes its tables in Markdown.

    plot.py results.json folder
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402 (the backend comes first)

# One colour for each module, the same in every plot, told apart without colour by its marker.
STYLES = [("#555555", "o"), ("#c1440e", "s"), ("#0b6e99", "^"), ("#8a6d00", "D"), ("#6b2fa0", "v"), ("#2a7f3f", "P")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    options.folder.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams.update({"svg.hashsalt": "bloom", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3})

    styles = Styles()
    machine = results["machine"]
    tables = [f"{machine['server']}, {machine['processor']}, {machine['system']}\n"]
    for name, draw in {"batches": batches, "sizes": sizes, "errors": errors, "growth": growth}.items():
        if name in results:
            figure, axes = pyplot.subplots(figsize=(6.4, 4))
            draw(axes, results[name], styles)
            axes.legend()
            figure.tight_layout()
            figure.savefig(options.folder / f"{name}.svg", metadata={"Date": None})
            pyplot.close(figure)
    if "commands" in results:
        tables.append("### One filter\n" + commands(results["commands"]))
    if "chain" in results:
        memory = "\n".join(f"| {name} | {bytes_} |" for name, bytes_ in results["chain"]["memory"].items())
        tables.append("### Grown from the default\n" + commands(results["chain"]["commands"]))
        tables.append("| module | bytes |\n|---|---|\n" + memory + "\n")
    if "packed" in results:
        tables.append("### Packed\n" + commands(results["packed"]))
    if "log" in results:
        tables.append("### What is written for it\n" + log(results["log"]))
    if "persistence" in results:
        tables.append("### Persistence\n" + persistence(results["persistence"]))
    (options.folder / "tables.md").write_text("\n".join(tables))


class Styles(dict):
    """Gives each module its own colour and marker when it is first met."""

    def __missing__(self, name):
        colour, marker = STYLES[len(self) % len(STYLES)]
        self[name] = {"color": colour, "marker": marker, "markersize": 4, "label": name}
        return self[name]


def by_module(results):
    """From {x: {module: figures}}: each module with its xs and its processor times."""
    modules = {}
    for x, of in results.items():
        for module, figures in of.items():
            xs, ys = modules.setdefault(module, ([], []))
            xs.append(int(x))
            ys.append(figures["cpu us/item"])
    return modules


def processor_time(axes, results, styles, label, **scale):
    for module, (xs, ys) in by_module(results).items():
        axes.plot(xs, ys, **styles[module])
    axes.set(xscale="log", xlabel=label, ylabel="processor time of the server, µs an item", **scale)


def batches(axes, results, styles):
    processor_time(axes, results, styles, "items in a BF.MEXISTS", yscale="log")


def sizes(axes, results, styles):
    processor_time(axes, results, styles, "items that the filter is made for (BF.MEXISTS of 100)", ylim=(0, None))


def errors(axes, results, styles):
    for module, points in results.items():
        axes.plot(*zip(*points), **styles[module])
    axes.axhline(0.01, color="black", linewidth=1, linestyle="--", label="promised")
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set(ylim=(0, None), xlabel="items added, in capacities", ylabel="false positive rate, measured")


def growth(axes, results, styles):
    for module, points in results.items():
        axes.plot(*zip(*points), **styles[module])
    axes.set(xscale="log", ylim=(0, 80), xlabel="items of a filter that BF.ADD made", ylabel="bits per item, MEMORY USAGE")


def commands(results):
    modules = list(next(iter(results.values())))
    head = "| workload | " + " | ".join(f"{module}, µs an item" for module in modules) + " |\n"
    lines = ["|---" * (1 + len(modules)) + "|"]
    for name, of in results.items():
        first = of[modules[0]]["cpu us/item"]
        cells = [f"{of[module]['cpu us/item']:.3f} ({of[module]['cpu us/item'] / first:.2f})" for module in modules]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return head + "\n".join(lines) + "\n"


def log(results):
    lines = ["| module | items | AOF, bytes | stream, bytes |", "|---" * 4 + "|"]
    for module, of in results.items():
        lines += [f"| {module} | {name} | {one['AOF, bytes']:,} | {one['stream, bytes']:,} |" for name, one in of.items()]
    return "\n".join(lines) + "\n"


def persistence(results):
    modules = list(results)
    lines = ["| | " + " | ".join(modules) + " |", "|---" * (1 + len(modules)) + "|"]
    for figure in results[modules[0]]:
        cells = " | ".join(f"{results[module][figure]:.4g}" for module in modules)
        lines.append(f"| {figure} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
