"""Random numbers by address.

A number is a function of its address `(key, purpose, index)`, not of what was drawn before it:

    key     = mix(seed) + run                                    one for each run of a simulation
    word    = Philox4x32-10(counter = (index // 4, purpose), key)[index mod 4]
    uniform = (word + ½) / 2³²           normal = Φ⁻¹(uniform)

so work may be cut, reordered, repeated or resumed anywhere. Φ⁻¹ is a piecewise cubic, 32 pieces for each
binary order of magnitude of the tail probability, within 2e-9 of the true inverse. There is no rejection:
one address gives one deviate, with the same few operations on every processor.

Philox: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

>>> key = stream_key(seed=7, run=0)
>>> float(normal(key, PROCESS, 12)) == float(normal(key, PROCESS, 12))
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.compilation import entry, jit
from kalmanbandits.errors import Array, whole
from kalmanbandits.inverse_normal import inverse_normal

Key = Any  # np.uint64 at run time; a record's address in the stream

# Purposes: what a number is for. Streams of different purposes never meet.
INITIAL_STATE = np.uint64(0)
PROCESS = np.uint64(1)
MEASUREMENT = np.uint64(2)
POLICY = np.uint64(3)
EVERY_ARM = np.uint64(4)
TIES = np.uint64(5)

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_TWO, _FOUR, _THREE, _ONE = np.uint64(2), np.uint64(4), np.uint64(3), np.uint64(1)
_SIGN, _REST = np.uint64(31), np.uint64(0x7FFFFFFF)
_PIECE, _BIAS = np.uint64(47), np.uint64(1023 << 5)
_FRACTION, _UNIT = np.uint64((1 << 47) - 1), 2.0**-47


def inverse_normal_pieces(pieces: int = 32) -> Array:
    """Coefficients of the cubics of Φ⁻¹ on p = odd·2⁻³³, by octave of the odd number.

    Parameters
    ----------
    pieces : int
        Cubics for each octave, a power of two.

    Returns
    -------
    ndarray, shape (32 · pieces, 4)
        A row of rising powers for each cubic.
    """
    pieces = whole("pieces", pieces, 1, "a power of two", below=2**16)
    octave, piece = np.divmod(np.arange(32 * pieces), pieces)
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(4) + 0.5) / 4)  # Chebyshev's, on [0, 1]
    p = np.exp2(octave[:, None] - 33.0) * (1 + (piece[:, None] + nodes) / pieces)
    values = np.array([[inverse_normal(x) for x in row] for row in p.T.tolist()])
    return np.ascontiguousarray(np.linalg.solve(np.vander(nodes, increasing=True), values).T)


_PIECES = inverse_normal_pieces()


def stream_key(seed: int, run: int = 0) -> np.uint64:
    """The key of one run under a seed; the runs of one seed never share a key.

    Parameters
    ----------
    seed : int
        From 0 to 2⁶⁴ − 1.
    run : int
        From 0 to 2⁶⁴ − 1.

    Returns
    -------
    numpy.uint64
        The key, which all random numbers of the run have in their addresses.

    Examples
    --------
    >>> stream_key(seed=7, run=1) - stream_key(seed=7, run=0)
    np.uint64(1)
    """
    seed, run = whole("seed", seed, 0), whole("run", run, 0)
    # The finaliser of SplitMix64 (Steele, Lea, Flood 2014): seeds 0, 1, 2 … lie far apart.
    z = (seed + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return np.uint64(((z ^ (z >> 31)) + run) % 2**64)


@jit
def philox(block: Any, purpose: Any, key: Key) -> Any:
    """Four random 32-bit words at counter `(block, purpose)`: ten rounds of Philox4x32."""
    c0, c1, c2, c3 = block & _LOW, block >> _32, purpose & _LOW, purpose >> _32
    k0, k1 = key & _LOW, key >> _32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@jit
def word(key: Key, purpose: Any, index: Any) -> Any:
    """The random 32-bit word at an address."""
    index = np.uint64(index)
    c0, c1, c2, c3 = philox(index // _FOUR, purpose, key)
    lane = index & _THREE
    low = c0 if lane == 0 else c1
    high = c2 if lane == _TWO else c3
    return low if lane < _TWO else high


@jit
def uniform(key: Key, purpose: Any, index: Any) -> Any:
    """The number of (0, 1) at an address."""
    return (np.float64(word(key, purpose, index)) + 0.5) * 2.0**-32


@jit
def normal_from_word(w: Any) -> Any:
    """Φ⁻¹((w + ½) / 2³²): the half from the top bit, the distance into its tail from the others."""
    upper = w >> _SIGN
    tail = _REST - (w & _REST) if upper else w & _REST
    odd = np.float64(_TWO * tail + _ONE)
    bits = odd.view(np.uint64)  # exponent: the octave of the tail probability; then 5 bits of piece; the rest
    a = _PIECES[(bits >> _PIECE) - _BIAS]
    f = np.float64(bits & _FRACTION) * _UNIT
    x = ((a[3] * f + a[2]) * f + a[1]) * f + a[0]
    return -x if upper else x


@jit
def normal(key: Key, purpose: Any, index: Any) -> Any:
    """The standard normal deviate at an address."""
    return normal_from_word(word(key, purpose, index))


@jit
def fill_normals(out: Any, key: Key, purpose: Any, first: Any) -> None:
    """Write the standard normal deviates at addresses `first`, `first + 1`, … into the flat array `out`."""
    n = out.shape[0]
    index = np.uint64(first)
    i = 0
    while i < n and (index & _THREE) != 0:  # up to a whole block
        out[i] = normal(key, purpose, index)
        i += 1
        index += _ONE
    block = index // _FOUR
    while i + 4 <= n:
        w0, w1, w2, w3 = philox(block, purpose, key)
        out[i] = normal_from_word(w0)
        out[i + 1] = normal_from_word(w1)
        out[i + 2] = normal_from_word(w2)
        out[i + 3] = normal_from_word(w3)
        i += 4
        block += _ONE
    index = block * _FOUR
    while i < n:
        out[i] = normal(key, purpose, index)
        i += 1
        index += _ONE


@entry
def normals(out: Any, key: Key, purpose: Any, first: Any) -> None:
    """`fill_normals` for callers in Python."""
    fill_normals(out, key, purpose, first)
