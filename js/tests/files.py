"""Writes files of filters for the tests, each with what the Python package says of it, to FOLDER/cases.json.

    python files.py FOLDER

Whole files are of every layout and size. Damaged ones are made of them: cut, with bits flipped, records moved or left out,
and with fields that are forged under a right checksum.
"""

import base64
import json
import random
import struct
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "python/tests"))

from hashes import SECRET, xxh3_128  # noqa: E402
from libbloom import Filter, FormatError  # noqa: E402

PROBES = 3000
DAMAGED = 1200
MADE = 120
# When items come to a window, and the seconds between them.
FIRST, STEP = 1_790_000_000, 30
# More than a layer of a forged header may have before it is taken for too large here.
MOST_BYTES = 1 << 24


def items(count, prefix="item "):
    return [f"{prefix}{number}" for number in range(count)]


def odd_items():
    """Texts and bytes of every length that a hash treats in a way of its own, and texts beyond ASCII."""
    texts = ["grün", "日本語", "\U0001f600" * 9, "\0", "é" * 300, "x" * 4096, "ü" * 5000]
    lengths = [*range(0, 300), 511, 512, 513, 1023, 1024, 1025, 1088, 2049, 5000]
    return [text.encode() for text in texts] + [bytes((length + 7 * at) % 256 for at in range(length)) for length in lengths]


def filters():
    """Name and filter, with items that were added to it."""
    for name, layout in [("blocked", "blocked"), ("classic", "classic")]:
        seed = {} if layout == "classic" else {"seed": 2**63 + 1}
        for count, capacity in [(0, 10), (1, 1), (500, 500), (3000, 20), (200_000, 200_000)]:
            made = Filter(capacity, 0.01, layout=layout, **seed)
            made.update(items(count))
            yield f"{name} {count} of {capacity}", made, items(min(count, 2000))
        made = Filter(400, 1e-6, layout=layout, **seed)
        made.update(odd_items())
        yield f"{name} odd", made, odd_items()
        made = Filter(3, 0.05, layout=layout, expansion=1, **seed)
        made.update(items(150))
        yield f"{name} of many layers", made, items(150)
        # Layers of more than a chunk, of which only a few are not zero.
        made = Filter(40_000_000, 0.01, layout=layout, **seed)
        made.update(items(2))
        yield f"{name} sparse", made, items(2)
    for rate in [0.25, 1e-4, 1e-12, 1e-30]:
        made = Filter(100, rate, seed=3, fixed=True)
        made.update(items(100))
        yield f"blocked at {rate}", made, items(100)
    made = Filter(1000, 0.1, seed=4)
    made.update(items(1000))
    made.except_(items(300) + items(500, "probe "))
    yield "exceptions", made, items(1000)
    merged = Filter(100, 0.1, seed=4) | made
    yield "merged", merged, items(1000)


def windows():
    """Name, filter with a window, its items, and the times of queries: with all slices, with some, and with none."""
    for refresh in [False, True]:
        made = Filter(40, 0.05, seed=10, window=3600, slices=4, refresh=refresh)
        some = items(250) + items(20)
        for number, item in enumerate(some):
            made.add(item, now=FIRST + STEP * number)
        last = FIRST + STEP * len(some)
        for after in [0, 1800, 3000, 10_000]:
            yield f"window, refresh {refresh}, after {after}", made, some, last + after


def additions(rng):
    """Random options, with how many items were added, and how many of these before the first file was written."""
    for number in range(MADE):
        growth = rng.choice(["fixed", "growing", "reserved"])
        own = {"capacity": int(2 ** rng.uniform(0, 15)), "error_rate": rng.choice([10 ** rng.uniform(-9, -0.5), 0.01, 0.3, 1e-30])}
        own["seed"] = rng.choice([0, 1, 2**53, 2**64 - 1, rng.getrandbits(64)])
        if growth != "fixed":
            own["expansion"] = rng.choice([1, 2, 2, 3, 32768 if own["capacity"] < 9 else 4])
        most = own["capacity"] if growth == "fixed" else 4 * own["capacity"] + 50
        count = rng.randrange(most + 1)
        yield own, growth, count, rng.randrange(count + 1)


def added(folder):
    """Files of filters that items were added to in two steps, which another program must make alike."""
    cases = []
    for number, (own, growth, count, half) in enumerate(additions(random.Random(2))):
        made = Filter(**own, fixed=growth == "fixed", growing=growth == "growing")
        paths = [str(folder / f"added {number}.{step}.bloom") for step in range(2)]
        for path, some in zip(paths, [range(half), range(half, count)]):
            made.update(f"item {at}" + at % 40 * "é" for at in some)
            made.save(path)
        cases.append({**own, "seed": str(own["seed"]), "growth": growth, "count": count, "half": half, "paths": paths})
    return cases


def answers(made, some, now=None):
    probes = items(PROBES, "probe ")
    return {
        **({} if now is None else {"now": 1000 * now}),
        "items": [item.hex() if isinstance(item, bytes) else item.encode().hex() for item in some],
        "items_found": made.contains_many(some, now=now),
        "probes_found": [number for number, found in enumerate(made.contains_many(probes, now=now)) if found],
        "figures": [len(made), made.capacity, made.error_rate, made.layers],
    }


def checksum(data):
    return struct.pack("<QQ", *xxh3_128(data, SECRET))


def joined(header, rest):
    """A file of less than 16 MiB with this header and what is behind it, under right checksums."""
    head = struct.pack("<8sIIQ24x", b"\x89BLOOM\r\n", 1, 0, len(header))
    data = head + checksum(head + header) + header + rest
    return data + checksum(data[:64] + bytes(8) + data) + head[:8]


def forged(rng, file):
    """A file that was changed by somebody who knows the format."""
    end = 64 + struct.unpack_from("<Q", file, 16)[0]
    header, rest = bytearray(file[64:end]), bytearray(file[end:-24])
    kind = rng.randrange(7)
    if kind < 3:
        header[rng.randrange(len(header))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        width = rng.choice([4, 8])
        place = rng.randrange(len(header)) // 4 * 4
        value = rng.choice([0, 1, 2, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1, rng.getrandbits(64)])
        header[place : place + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    elif kind == 4:
        rest[rng.randrange(len(rest))] ^= 1 << rng.randrange(8)
    elif kind == 5:
        at, to = (rng.randrange(len(rest) // 64) * 64 for _ in range(2))
        rest[at : at + 64], rest[to : to + 64] = rest[to : to + 64], rest[at : at + 64]
    else:
        rest = rng.choice([rest[:-64], rest + bytes(64), rest[64:]])
    return joined(bytes(header), bytes(rest))


def damaged(rng, file):
    kind = rng.randrange(4)
    if kind == 0:
        return file[: rng.randrange(len(file))]
    if kind == 1:
        changed = bytearray(file)
        changed[rng.choice([rng.randrange(len(file)), rng.randrange(min(len(file), 200))])] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind == 2:
        at, length = rng.randrange(len(file)), rng.randrange(1, 40)
        return rng.choice([file[:at] + file[at + length :], file[:at] + rng.randbytes(length) + file[at:]])
    return forged(rng, file)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    cases, small = [], []
    whole = [(name, made, some, None) for name, made, some in filters()]
    for number, (name, made, some, now) in enumerate([*whole, *windows()]):
        path = folder / f"{number}.bloom"
        made.save(path)
        cases.append({"name": name, "path": str(path), **answers(made, some, now)})
        if path.stat().st_size < 10_000:
            small.append((path.read_bytes(), some, now))
    rng = random.Random(1)
    wrong = []
    for number in range(DAMAGED):
        file, some, now = rng.choice(small)
        file = forged(rng, file) if number % 2 else damaged(rng, file)
        case = {"file": base64.b64encode(file).decode()}
        try:
            read = Filter.from_bytes(file, max_bytes=MOST_BYTES)
            case.update(answers(read, some[:100], now))
        except FormatError as error:
            case["error"] = str(error)
        except MemoryError:
            case["large"] = True
        wrong.append(case)
    (folder / "cases.json").write_text(json.dumps({"whole": cases, "damaged": wrong, "added": added(folder)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
