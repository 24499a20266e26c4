"""Tables in Markdown of what was measured."""


def text(results):
    """All tables that there are results for."""
    machine = results["machine"]
    tables = [f"{machine['server']}, {machine['processor']}, {machine['system']}\n"]
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
    return "\n".join(tables)


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
