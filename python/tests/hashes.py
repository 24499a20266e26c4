"""The published functions that `.bloom` files need, without a library: XXH3, ChaCha20, MurmurHash and SipHash.

Most languages have them; `reader.py` has what is this format's own.
"""

import struct

LOW = 2**64 - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
# XXH3's own secret, for the checksums.
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def u64(data, at, size=8):
    return int.from_bytes(data[at : at + size], "little")


def fold(a, b):
    return (a * b & LOW) ^ (a * b >> 64)


def avalanche(x):
    x = (x ^ x >> 37) * 0x165667919E3779F9 & LOW
    return x ^ x >> 32


def avalanche64(x):
    x = (x ^ x >> 33) * P2 & LOW
    x = (x ^ x >> 29) * P3 & LOW
    return x ^ x >> 32


def xxh3_128(data, secret):
    """The low and the high half of XXH3-128 under a secret of 192 bytes."""
    n, s = len(data), lambda at: u64(secret, at)
    if n == 0:
        return avalanche64(s(64) ^ s(72)), avalanche64(s(80) ^ s(88))
    if n <= 3:
        low = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        swapped = int.from_bytes(low.to_bytes(4, "little"), "big")
        high = (swapped << 13 | swapped >> 19) & 0xFFFFFFFF
        flips = (u64(secret, at, 4) ^ u64(secret, at + 4, 4) for at in (0, 8))
        return tuple(avalanche64(half ^ flip) for half, flip in zip((low, high), flips))
    if n <= 8:
        product = (u64(data, 0, 4) + (u64(data, n - 4, 4) << 32) ^ s(16) ^ s(24)) * (P1 + (n << 2))
        low, high = product & LOW, product >> 64 & LOW
        high = high + (low << 1) & LOW
        low ^= high >> 3
        low = (low ^ low >> 35) * 0x9FB21C651E98DF25 & LOW
        return low ^ low >> 28, avalanche(high)
    if n <= 16:
        low, high = u64(data, 0), u64(data, n - 8)
        product = (low ^ high ^ s(32) ^ s(40)) * P1
        high ^= s(48) ^ s(56)
        low = (product & LOW) + (n - 1 << 54) & LOW
        high = (product >> 64) + high + (high & 0xFFFFFFFF) * (P32_2 - 1) & LOW
        low ^= int.from_bytes(high.to_bytes(8, "little"), "big")
        product = low * P2
        return avalanche(product & LOW), avalanche((product >> 64) + high * P2 & LOW)
    if n <= 240:
        low, high = n * P1 & LOW, 0
        if n <= 128:
            mixes = [(16 * i, n - 16 * (i + 1), 32 * i) for i in reversed(range((n - 1) // 32 + 1))]
        else:
            mixes = [(32 * i, 32 * i + 16, 32 * i if i < 4 else 32 * i - 125) for i in range(n // 32)]
            mixes.append((n - 16, n - 32, 103))
        for turn, (one, two, at) in enumerate(mixes):
            if n > 128 and turn == 4:
                low, high = avalanche(low), avalanche(high)
            (a, b), (c, d) = (struct.unpack_from("<QQ", data, place) for place in (one, two))
            low = (low + fold(a ^ s(at), b ^ s(at + 8)) & LOW) ^ (c + d & LOW)
            high = (high + fold(c ^ s(at + 16), d ^ s(at + 24)) & LOW) ^ (a + b & LOW)
        return avalanche(low + high & LOW), -avalanche(low * P1 + high * P4 + n * P2 & LOW) & LOW
    sums = [P32_3, P1, P2, P3, P4, P32_2, P5, P32_1]
    for turn in range((n - 1) // 64 + 1):
        is_last = turn == (n - 1) // 64
        keys = struct.unpack_from("<8Q", secret, 121 if is_last else turn % 16 * 8)
        for i, word in enumerate(struct.unpack_from("<8Q", data, n - 64 if is_last else 64 * turn)):
            sums[i ^ 1] = sums[i ^ 1] + word & LOW
            sums[i] = sums[i] + ((word ^ keys[i]) & 0xFFFFFFFF) * ((word ^ keys[i]) >> 32) & LOW
        if turn % 16 == 15 and not is_last:
            sums = [(x ^ x >> 47 ^ s(128 + 8 * i)) * P32_1 & LOW for i, x in enumerate(sums)]
    halves = []
    for total, at in [(n * P1, 11), (~(n * P2), 117)]:
        pairs = (fold(sums[i] ^ s(at + 8 * i), sums[i + 1] ^ s(at + 8 * i + 8)) for i in (0, 2, 4, 6))
        halves.append(avalanche(total + sum(pairs) & LOW))
    return tuple(halves)


def chacha20(key, blocks):
    """So many blocks of the key stream (RFC 8439), with nonce 0 and from counter 0."""
    stream = b""
    for counter in range(blocks):
        start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter, 0, 0, 0]
        x = list(start)
        for turn in range(80):
            column, diagonal = turn % 4, turn // 4 % 2
            a, b, c, d = (4 * row + (column + row * diagonal) % 4 for row in range(4))
            for to, add, by, left in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
                x[to] = x[to] + x[add] & 0xFFFFFFFF
                turned = x[by] ^ x[to]
                x[by] = (turned << left | turned >> 32 - left) & 0xFFFFFFFF
        stream += struct.pack("<16I", *(s + y & 0xFFFFFFFF for s, y in zip(start, x)))
    return stream


def murmur64(data, seed):
    """MurmurHash64A."""
    m, end = 0xC6A4A7935BD1E995, len(data) & -8
    h = seed ^ len(data) * m & LOW
    for at in range(0, end, 8):
        k = u64(data, at) * m & LOW
        h = (h ^ (k ^ k >> 47) * m & LOW) * m & LOW
    if data[end:]:
        h = (h ^ u64(data, end)) * m & LOW
    h = (h ^ h >> 47) * m & LOW
    return h ^ h >> 47


def murmur32(data, seed):
    """MurmurHash2, of 32 bits."""
    m, mask, end = 0x5BD1E995, 0xFFFFFFFF, len(data) & -4
    h = seed ^ len(data) & mask
    for at in range(0, end, 4):
        k = u64(data, at, 4) * m & mask
        h = h * m & mask ^ (k ^ k >> 24) * m & mask
    if data[end:]:
        h = (h ^ u64(data, end)) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def siphash13(key, data):
    """SipHash-1-3 under a key of 16 bytes."""
    starts = struct.unpack(">4Q", b"somepseudorandomlygeneratedbytes")
    a, b, c, d = (start ^ half for start, half in zip(starts, struct.unpack("<2Q", key) * 2))

    def turned(x, left):
        return (x << left | x >> 64 - left) & LOW

    end = len(data) & -8
    words = [*struct.unpack(f"<{end // 8}Q", data[:end]), u64(data, end) | len(data) % 256 << 56]
    # A round for each word, and three at the end.
    for at, word in enumerate([*words, 0, 0, 0]):
        c ^= 0xFF if at == len(words) else 0
        d ^= word
        a, c = a + b & LOW, c + d & LOW
        b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
        a, c = turned(a, 32) + d & LOW, c + b & LOW
        b, d = turned(b, 17) ^ c, turned(d, 21) ^ a
        c = turned(c, 32)
        a ^= word
    return a ^ b ^ c ^ d
