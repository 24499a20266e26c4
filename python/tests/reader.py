"""A reader of `.bloom` files of every layout, made from docs/file.md and docs/design.md alone.

It is slow: it shows that the pages suffice, and is a start for readers in other languages.
"""

import math
import struct

from hashes import LOW, SECRET, chacha20, murmur32, murmur64, siphash13, u64, xxh3_128

# The largest prime below 2^64.
PRIME = 2**64 - 59
# Bytes that have a checksum.
PIECE = 2**24


def checksum(data):
    return b"".join(half.to_bytes(8, "little") for half in xxh3_128(data, SECRET))


def multiplier(number):
    """A[0], B[0], A[1], B[1], …: 1, and the outputs of SplitMix64 with their lowest bit set."""
    state = number * 0x9E3779B97F4A7C15 & LOW
    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & LOW
    z = (z ^ z >> 27) * 0x94D049BB133111EB & LOW
    return z ^ z >> 31 | 1


class Reader:
    """A filter of a file's bytes. `now` is the time of its answers, which only filters with a window heed."""

    now = 0

    def __init__(self, data):
        head, end = data[:64], 64 + u64(data, 16)
        header, self.exceptions = data[64:end], set()
        assert head[:16] == b"\x89BLOOM\r\n\1\0\0\0\0\0\0\0" and not any(head[24:48]), "no filter's file"
        assert head[48:] == checksum(head[:48] + header), "a damaged header"
        own = {b"BLOOM\0\0\3": self.read_blocked, b"BLOOM\0\0\2": self.read_valkey}
        # Each layer: when it expires, what its probes need, and its bits.
        self.layers = []
        for size, over, shape in own.get(header[:8], self.read_classic)(header):
            begin = end + -end % (64 if size < 1 << 20 else 4096)
            end = begin + size
            self.layers.append((over, shape, data[begin:end]))
        end += -end % 64
        pieces = enumerate(data[at : min(at + PIECE, end)] for at in range(0, end, PIECE))
        sums = [checksum(head + number.to_bytes(8, "little") + piece) for number, piece in pieces]
        assert data[end:] == b"".join(sums) + head[:8], "a damaged file"

    def read_blocked(self, header):
        self.probes, self.secret = self.blocked_probes, chacha20(header[16:24] + bytes(24), 3)
        exceptions, seconds = struct.unpack_from("<II", header, 40)
        begin, expire = 48, [None] * u64(header, 12, 4)
        if seconds:
            begin, expire = 80 + 24 * u64(header, 60, 4), []
            for at in range(80, begin, 24):
                _, closes, layers = struct.unpack_from("<QQI", header, at)
                expire += layers * [closes + 1000 * seconds]
        end = begin + 48 * len(expire)
        self.exceptions = {(u64(header, i + 8), u64(header, i)) for i in range(end, end + 16 * exceptions, 16)}
        for at, over in zip(range(begin, end, 48), expire):
            lines, g, k = struct.unpack_from("<QII", header, at + 32)
            yield g * lines * 64, over, (lines, g, k)

    def read_classic(self, header):
        _, layers, self.options, _ = struct.unpack_from("<QIII", header)
        self.probes = self.classic_probes
        for at in range(20, 20 + 53 * layers, 53):
            size, bits, _, _, _, hashes, _, n2 = struct.unpack_from("<QQQddIQB", header, at)
            yield size, None, (bits if self.options & 1 else 1 << n2, hashes)

    def read_valkey(self, header):
        layers, rate, tightening, _, self.seed = struct.unpack_from("<IddI32s", header, 12)
        self.probes = self.valkey_probes
        for at in range(68, 68 + 24 * layers, 24):
            capacity, _, size = struct.unpack_from("<QQQ", header, at)
            yield size, None, (8 * size, max(1, math.floor(8 * size / capacity * math.log(2) + 0.5)))

    def blocked_probes(self, item, lines, g, k):
        """The places of an item's bits in a layer, numbered from the lowest bit of its first byte."""
        low, high = xxh3_128(item, self.secret)
        for j in range(g):
            c = low * multiplier(2 * j) & LOW
            w = (c + (high if j else 0)) * multiplier(2 * j + 1) & LOW
            line = (j * lines + (c * lines >> 64)) * 512
            for t in range(k):
                word = ((w >> 61) + t) % 8
                yield line + word * 64 + (w >> 55 - 6 * word) % 64

    def classic_probes(self, item, bits, hashes):
        if self.options & 4:
            a = murmur64(item, 0xC6A4A7935BD1E995)
            b = murmur64(item, a)
        else:
            a = murmur32(item, 0x9747B28C)
            b = murmur32(item, a)
        return ((a + i * b & LOW) % bits for i in range(hashes))

    def valkey_probes(self, item, bits, hashes):
        sized = len(item).to_bytes(8, "little") + item
        a, b = siphash13(self.seed[:16], sized), siphash13(self.seed[16:], sized)
        return ((h if i < 2 else (a + i * b & LOW) % PRIME) % bits for i, h in zip(range(hashes), [a, b] + hashes * [0]))

    def __contains__(self, item):
        if self.exceptions and xxh3_128(item, self.secret) in self.exceptions:
            return False
        return any(
            all(bits[place // 8] >> place % 8 & 1 for place in self.probes(item, *shape))
            for over, shape, bits in self.layers
            if over is None or over > self.now
        )
