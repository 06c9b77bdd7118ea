"""Damage the machine code of a kernel on disk in many ways, and ask for it again each time.

    python damaged_kernels.py COUNT [SEED]

Prints how many files were damaged and how many of them were used all the same. A process of its own: a
damaged kernel that is run may end it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import numpy as np

from kalmanbandits.compilation import cache_folder, entry


@entry
def cube(x):
    """The kernel that is damaged."""
    return x * x * x


@entry
def square(x):
    """Another kernel, whose sound file is put in the place of the first one's."""
    return x * x


def damaged(sound: bytes, other: bytes, seed: int) -> Iterator[bytes]:
    """Contents that `sound` may turn into: never itself."""
    chance = np.random.default_rng(seed)
    yield from (b"", sound[:-1], sound + b"\0", other, sound[32:], bytes(len(sound)))
    while True:
        content = bytearray(sound)
        at = int(chance.integers(len(sound)))
        match chance.integers(5):
            case 0:
                content[at] ^= 1 << int(chance.integers(8))
            case 1:
                del content[at:]
            case 2:
                content[at : at + 4096] = bytes(len(content[at : at + 4096]))
            case 3:
                content[at : at + 64] = chance.bytes(len(content[at : at + 64]))
            case 4:
                content[at:at] = chance.bytes(1 + int(chance.integers(16)))
        if bytes(content) != sound:
            yield bytes(content)


def main(count: int, seed: int = 0) -> None:
    """Damage `count` files."""
    assert (cube(3.0), square(3.0)) == (27.0, 9.0)
    folder = cache_folder()
    assert folder is not None
    (path,), (other,) = folder.glob("cube-*.bin"), folder.glob("square-*.bin")
    sound, place = path.read_bytes(), cube.targetctx
    (signature,) = cube.signatures
    assert cube._cache.load_overload(signature, place) is not None
    used = 0
    contents = damaged(sound, other.read_bytes(), seed)
    for number in range(count):
        path.write_bytes(next(contents))
        used += cube._cache.load_overload(signature, place) is not None
        if number % 100 == 0:  # all the way: the next call compiles, is right, and repairs the file
            again = entry(cube.py_func)
            assert again(3.0) == 27.0
            assert not again.stats.cache_hits
            assert cube._cache.load_overload(signature, place) is not None
    path.unlink()
    for stranger in (lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to("/dev/zero")):
        stranger()
        assert cube._cache.load_overload(signature, place) is None
        path.rmdir() if path.is_dir() else path.unlink()
    path.write_bytes(sound)
    assert cube._cache.load_overload(signature, place) is not None
    path.chmod(0o666)  # whoever may write it may have written it
    assert cube._cache.load_overload(signature, place) is None
    print(f"{count} damaged files, {used} used")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
