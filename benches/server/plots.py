"""Plots of what was measured."""

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402 (the backend comes first)

# One colour for each module, the same in every plot, told apart without colour by its marker.
STYLES = [("#555555", "o"), ("#c1440e", "s"), ("#0b6e99", "^"), ("#8a6d00", "D"), ("#6b2fa0", "v"), ("#2a7f3f", "P")]


def write(results, folder):
    """Draws what there is of the results."""
    matplotlib.rcParams.update({"svg.hashsalt": "bloom", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3})
    styles = Styles()
    for name, draw in {"batches": batches, "sizes": sizes, "errors": errors, "growth": growth}.items():
        if name in results:
            figure, axes = pyplot.subplots(figsize=(6.4, 4))
            draw(axes, results[name], styles)
            axes.legend()
            figure.tight_layout()
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            pyplot.close(figure)


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
