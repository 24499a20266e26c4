#!/usr/bin/env python3
"""Plots of what was measured: measure.py draws its results.

`plots.py benches/crates.md docs/performance` draws crates.svg from the page's first table.
"""

import sys
import textwrap
from pathlib import Path

import matplotlib
import tables
from matplotlib import pyplot, ticker

pyplot.switch_backend("svg")

# The colour and the marker of each module and crate, the same in every plot. What stands after a comma in a name is
# a way to use it, with the colour and the marker of the name before it, hollow and dashed.
STYLES = {
    "libbloom": ("#c1440e", "s"),
    "redisbloom": ("#0b6e99", "^"),
    "valkey-bloom": ("#8a6d00", "D"),
    "floor": ("#555555", "o"),
    "plain": ("#7a4a21", "<"),
    "classic": ("#d98a5f", ">"),
    "fastbloom": ("#6b2fa0", "v"),
    "bloomfilter": ("#c2187a", "X"),
    "sbbf-rs": ("#2a7f3f", "P"),
}
OTHER = ("black", "x")
# Pages may be dark, so the background is white everywhere. Text stays text, in whatever font the reader has.
LOOK = {
    "svg.hashsalt": "bloom",
    "svg.fonttype": "none",
    "figure.figsize": (6.4, 4.2),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.grid": True,
    "axes.titlesize": 10,
    "grid.alpha": 0.3,
    "legend.framealpha": 1,
}
# Of the small print.
LETTERS_A_LINE = 112


def write(results, folder):
    """Draws what there is of the results."""
    for draw in sizes, errors, growth, rates:
        if draw.__name__ in results:
            save(draw, results[draw.__name__], tables.machine(results), folder)


def save(draw, figures, measured_with, folder):
    """Draws a plot and writes below it what it was measured with."""
    with matplotlib.rc_context(LOOK):
        title, note = draw(figures)
        pyplot.suptitle(title, x=0.01, horizontalalignment="left", fontsize=11.5, fontweight="bold")
        lines = [line for part in (note, measured_with) for line in textwrap.wrap(part, LETTERS_A_LINE)]
        pyplot.gcf().supxlabel("\n".join(lines), x=0.01, horizontalalignment="left", fontsize=7.5, color="#333333")
        pyplot.savefig(folder / f"{draw.__name__}.svg", metadata={"Date": None})
        pyplot.close()


def style(name):
    of, _, way = name.partition(", ")
    colour, marker = STYLES.get(of, OTHER)
    return {"color": colour, "marker": marker, "markersize": 5, "label": name} | (
        {"markerfacecolor": "white", "linestyle": "--"} if way else {}
    )


def lines(axes, points, **looks):
    """A line for each module, from {module: [(x, y)]}."""
    for module, of_module in points.items():
        axes.plot(*zip(*of_module), **style(module), **looks)


def of_items(axes):
    """An axis of items, which is logarithmic, beside one that begins at 0."""
    axes.set(xscale="log", ylim=(0, None))
    axes.xaxis.set_major_formatter(ticker.EngFormatter())
    axes.minorticks_off()


# ---- The plots: each gives its title, and a note that stands below it -----------------------------


def sizes(results):
    axes, points = pyplot.gca(), {}
    for size, modules in results["BF.MEXISTS"].items():
        for module, figures in modules.items():
            points.setdefault(module, []).append((int(size), figures["cpu us/item"]))
    lines(axes, points)
    of_items(axes)
    axes.set(xlabel="items that the filter is made for", ylabel="µs an item (the server's processor time)")
    axes.legend()
    note = "BF.MEXISTS of 100 items in filters at 0.01 that are half full; half of the items are there."
    return "Less is better: processor time of a query, by the size of the filter", note


def errors(results):
    axes = pyplot.gca()
    lines(axes, results)
    axes.axhline(0.01, color="black", linewidth=1, linestyle="--", label="promised")
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set(ylim=(0, None), xlabel="items added, in capacities", ylabel="measured rate of false positives")
    axes.legend()
    note = "A filter for 100,000 items at 0.01, which grows when it is full."
    return "The fuller a filter, the more often it errs", note


def growth(results):
    axes = pyplot.gca()
    # An almost empty first layer takes so many bits an item that nothing else could be told apart.
    lines(axes, {module: [point for point in points if point[0] >= 100] for module, points in results.items()}, markevery=6)
    of_items(axes)
    axes.set(xlabel="items added", ylabel="bits an item (used_memory)")
    axes.legend()
    note = "Filters that the first add made, at 0.01; they take most just after a layer was added, and least when it is full."
    return "Less is better: memory for each item of a filter that grows", note


def rates(results):
    """The measured rate over the promised one with its interval, a plot for each size."""
    reserved = [one for one in results if one["how"] == "reserved"]
    counts = sorted({one["items"] for one in reserved})
    _, plots = pyplot.subplots(1, len(counts), sharey=True, squeeze=False)
    for axes, items in zip(plots[0], counts):
        for place, module in enumerate(reserved[0]["hits"]):
            for one in (one for one in reserved if one["items"] == items):
                hits, expected = one["hits"][module], one["questions"] * one["rate"]
                least, most = (end / expected for end in tables.poisson_interval(hits))
                looks = style(module) | {"linestyle": "", "capsize": 2}
                if one["rate"] != 1e-2:
                    looks["label"] = None
                x = one["rate"] * 1.4 ** (place - 1)
                if hits < tables.FEW:
                    axes.errorbar(x, most, most * 0.6, uplims=True, **looks | {"marker": ""})
                else:
                    axes.errorbar(x, hits / expected, [[hits / expected - least], [most - hits / expected]], **looks)
        axes.axhline(1, color="black", linewidth=1, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="promised rate", title=f"{items:,} items")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    plots[0][0].set(ylabel="measured rate over the promised one")
    plots[0][-1].legend(loc="upper right")
    note = (
        "Reserved filters that are full. Bars: the interval that has the rate with 95 %. Arrows: at most so much, "
        f"where fewer than {tables.FEW} answers were wrong."
    )
    return "At 1 or below, a filter keeps the error rate that it promised", note


def crates(rows):
    """From the lines of the page's first table, a plot for each of three kinds of calls."""
    names, _, *rows = rows
    kinds = list(dict.fromkeys(row[1] for row in rows))
    _, ((first, second), (third, last)) = pyplot.subplots(2, 2, figsize=(6.4, 5.4), sharey=True)
    for axes, kind in zip((first, second, third), kinds, strict=True):
        of_kind = [row for row in rows if row[1] == kind]
        columns = list(enumerate(names))[2:]
        lines(axes, {name: [(int(row[0]), float(row[column])) for row in of_kind] for column, name in columns})
        axes.set(xlabel="items in the filter", ylabel="ns an item", title=kind)
    # They share the axis, so all lines come first.
    for axes in first, second, third:
        of_items(axes)
    last.axis("off")
    last.legend(*first.get_legend_handles_labels(), loc="center")
    note = "Filters at 0.01 with the same measured rate of false positives; add and query of present or absent items."
    return "The larger a filter in a Rust program, the longer an item takes", note


if __name__ == "__main__":
    page, folder = map(Path, sys.argv[1:])
    parts = page.read_text().split("\n\n")
    first = next(at for at, part in enumerate(parts) if part.startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in parts[first].splitlines()]
    # The paragraph before the table says what it was measured with.
    save(crates, rows, parts[first - 1], folder)
