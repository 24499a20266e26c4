"""Plots of what was measured."""

import matplotlib

import tables

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402 (the backend comes first)

# One colour for each module, the same in every plot, told apart without colour by its marker.
STYLES = [("#555555", "o"), ("#c1440e", "s"), ("#0b6e99", "^"), ("#8a6d00", "D"), ("#6b2fa0", "v"), ("#2a7f3f", "P")]


def write(results, folder):
    """Draws what there is of the results."""
    matplotlib.rcParams.update({"svg.hashsalt": "bloom", "svg.fonttype": "none", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3})
    styles = Styles()
    for name, draw in {"sizes": sizes, "errors": errors, "growth": growth, "rates": rates}.items():
        if name in results:
            draw(results[name], styles)
            pyplot.tight_layout()
            pyplot.savefig(folder / f"{name}.svg", metadata={"Date": None})
            pyplot.close()


def one_plot():
    _, axes = pyplot.subplots(figsize=(6.4, 4))
    return axes


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


def processor_time(results, styles, label, **scale):
    axes = one_plot()
    for module, (xs, ys) in by_module(results).items():
        axes.plot(xs, ys, **styles[module])
    axes.set(xscale="log", xlabel=label, ylabel="processor time of the server, µs an item", **scale)
    axes.legend()


def sizes(results, styles):
    processor_time(results["BF.MEXISTS"], styles, "items that the filter is made for (BF.MEXISTS of 100)", ylim=(0, None))


def errors(results, styles):
    axes = one_plot()
    for module, points in results.items():
        axes.plot(*zip(*points), **styles[module])
    axes.axhline(0.01, color="black", linewidth=1, linestyle="--", label="promised")
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set(ylim=(0, None), xlabel="items added, in capacities", ylabel="false positive rate, measured")
    axes.legend()


def growth(results, styles):
    axes = one_plot()
    for module, points in results.items():
        axes.plot(*zip(*points), **styles[module])
    axes.set(xscale="log", ylim=(0, 80), xlabel="items of a filter that BF.ADD made", ylabel="bits per item, MEMORY USAGE")
    axes.legend()


def rates(results, styles):
    """The measured rate over the promised one with its interval, a plot for each size."""
    reserved = [one for one in results if one["how"] == "reserved"]
    counts = sorted({one["items"] for one in reserved})
    _, plots = pyplot.subplots(1, len(counts), figsize=(3.2 * len(counts), 4), sharey=True)
    for axes, items in zip(plots, counts):
        for place, module in enumerate(reserved[0]["hits"]):
            for one in reserved:
                if one["items"] == items:
                    expected, hits = one["questions"] * one["rate"], one["hits"][module]
                    least, most = (end / expected for end in tables.poisson_interval(hits))
                    # Without a hit there is only an upper end.
                    middle = max(hits, 0.5) / expected
                    style = {**styles[module], "label": module if one["rate"] == 1e-2 else None}
                    style["markersize"] *= hits > 0
                    error = [[middle - max(least, 1e-3)], [most - middle]]
                    axes.errorbar([one["rate"] * 1.25**place], [middle], error, capsize=2, linestyle="", **style)
        axes.axhline(1, color="black", linewidth=1, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="promised rate", title=f"{items:,} items")
        axes.minorticks_off()
    plots[0].set(ylabel="measured rate over the promised one")
    plots[0].legend()
