"""Save files: a ZIP archive of `header.json` and one `.npy` file for each field of the memory.

The header holds the format and its version, the policy's description, the seed, the rounds done, the open
choices and the versions of the software that wrote it. Nothing is pickled; `numpy.load` and `unzip` open it.
A file is written beside its final place, flushed to disk and moved over it, so that a reader sees the old
one or the new one, whole. What is read is not trusted: nothing is unpacked beyond the size that the declared
policy gives it.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import platform
import zipfile
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from kalmanbandits import __version__
from kalmanbandits.durability import open_regular, write_atomically
from kalmanbandits.errors import FileFormatError, InvalidType, file_path, has, shown
from kalmanbandits.policies.spec import FORMAT, Memory, Spec

NAME = "kalmanbandits agent"
HEADER = "header.json"
HISTORY = "agent/history.npy"
ABOUT = ("name", "format", "policy", "versions")  # of the header; all else in it is the agent's position
LONGEST_HEADER = 2**25  # bytes
DENSEST = 1100  # bytes that one byte of a ZIP archive can stand for, at most

Target = str | os.PathLike[str] | BinaryIO


class Saved(NamedTuple):
    """What a save file holds."""

    spec: Spec
    memory: Memory
    position: dict[str, Any]
    history: Any = None


def pack(spec: Spec, memory: Memory, position: dict[str, Any], history: object = None) -> bytes:
    """The content of a save file."""
    versions = {"kalmanbandits": __version__, "numpy": np.__version__, "python": platform.python_version()}
    header = {"name": NAME, "format": FORMAT, "policy": spec.to_dict(), **position, "versions": versions}
    try:
        text = json.dumps(header, indent=1)
    except (TypeError, ValueError) as error:
        raise InvalidType(
            f"policy must have parameters that JSON can hold, got {type(spec).__name__}: {error}"
        ) from error
    if len(text) > LONGEST_HEADER:
        raise InvalidType(f"a header of {len(text)} bytes cannot be saved (close some of the open choices)")
    content = io.BytesIO()
    archive = zipfile.ZipFile(content, "w")
    try:
        _put(archive, HEADER, text)
        for name in lasting_fields(memory):
            _put(archive, f"{name}.npy", _packed(memory[name]))
        if history is not None:  # not compressed, so that its size is that of the file
            _put(archive, HISTORY, _packed(history), zipfile.ZIP_STORED)
    except BaseException:
        archive.fp = None  # or closing it would complain of a member that was interrupted
        raise
    archive.close()
    return content.getvalue()


def _put(archive: zipfile.ZipFile, name: str, content: str | bytes, kind: int = zipfile.ZIP_DEFLATED) -> None:
    """A member without a date: equal agents make equal files, and a clock that is wrong does no harm."""
    member = zipfile.ZipInfo(name)
    member.external_attr = 0o644 << 16
    archive.writestr(member, content, kind, compresslevel=1)


def write(target: Target, content: bytes) -> None:
    """Write the content of a save file to a path, atomically, or to an open binary file."""
    if not has(target, "write"):
        write_atomically(file_path("target", target, "or give a binary file"), content)
        return
    stream: Any = target
    try:
        _write_all(stream, content)
    except (TypeError, ValueError) as error:  # of text, closed, or only to be read
        raise InvalidType(f"target must be a path or a binary file, got {shown(target)}: {error}") from error


def _write_all(stream: Any, content: bytes) -> None:
    """Write to an open file. One without a buffer may take a part only, on a disk that fills, say."""
    left = memoryview(content)
    while isinstance(stream, io.RawIOBase) and len(left):
        taken = stream.write(left)
        if not taken:
            raise BlockingIOError(
                errno.EAGAIN, f"It takes no more, {len(left)} of {len(content)} bytes are left", shown(stream)
            )
        left = left[taken:]
    if len(left):
        stream.write(content)


def lasting_fields(memory: Memory) -> list[str]:
    """The fields worth saving: those named `work_…` are written before they are read."""
    return [name for name in memory.dtype.names or () if not name.startswith("work_")]


def read(source: Target | bytes) -> Saved:
    """What `pack` made, from a path, an open binary file, or the content itself."""
    name = "the agent" if isinstance(source, bytes) else source
    place = None
    if not isinstance(source, bytes) and not has(source, "read"):
        place = file_path("source", source, "or give a binary file")
    try:
        if isinstance(source, bytes):
            return _read(name, io.BytesIO(source))
        if place is not None:
            with os.fdopen(open_regular(place), "rb") as file:
                return _read(name, file)
        stream: Any = source
        return _read(name, stream if stream.seekable() else io.BytesIO(stream.read()))
    except FileFormatError:
        raise
    except Exception as error:  # whatever a foreign or damaged file may cause on its way through the readers
        if isinstance(source, bytes) and _is_sound(source):
            raise  # it came from elsewhere, such as the handler of a signal
        if isinstance(error, OSError) and error.filename is not None and error.errno != errno.EINVAL:
            raise  # it could not be opened, and Python's own message names it
        raise FileFormatError(
            f"{name} is cut short, damaged, or not a saved agent: {error!s:.300}"
        ) from error


def _is_sound(content: bytes) -> bool:
    try:
        _read("the agent", io.BytesIO(content))
    except Exception:
        return False
    return True


def _read(path: Any, file: Any) -> Saved:
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        header = json.loads(_member(archive, HEADER, LONGEST_HEADER))
        if not isinstance(header, dict) or header.get("name") != NAME:
            raise FileFormatError(f"{path} is a ZIP archive, but not a saved agent")
        if header["format"] != FORMAT:
            raise FileFormatError(
                f"{path} has format {shown(header['format'])}, this version reads {FORMAT} "
                f"(it was written by kalmanbandits {shown(header['versions']['kalmanbandits'])})"
            )
        spec = _described(path, header["policy"])
        memory = _read_fields(path, archive, spec, size)
        history = None
        if HISTORY in archive.namelist():
            if archive.getinfo(HISTORY).compress_type != zipfile.ZIP_STORED:
                raise FileFormatError(f"{path}: its history must not be compressed")
            history = _unpacked(_member(archive, HISTORY, size))
    return Saved(spec, memory, {name: header[name] for name in header if name not in ABOUT}, history)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A member of the archive, of at most so many bytes; the size it declares is not trusted."""
    if archive.getinfo(name).file_size <= most:
        with archive.open(name) as member:
            content = member.read(most + 1)
        if len(content) <= most:
            return content
    raise ValueError(f"{name} would take more than the {most} bytes that it may have")


def _described(path: object, policy: dict[str, Any]) -> Spec:
    if policy["policy"] not in Spec.known:
        raise FileFormatError(
            f"{path} is of a policy that is not known here, {shown(policy['policy'])} "
            "(one of your own: import the file that defines it first)"
        )
    return Spec.from_dict(policy)


def _read_fields(path: object, archive: zipfile.ZipFile, spec: Spec, size: int) -> Memory:
    dtype = spec.dtype()
    fields: Any = dtype.fields or {}
    bytes_needed = sum(kind.itemsize for name, (kind, *_) in fields.items() if not name.startswith("work_"))
    if bytes_needed > DENSEST * size:  # before any memory is taken
        raise FileFormatError(
            f"{path} has {size} bytes, and its policy needs {bytes_needed} (it was cut, or made up)"
        )
    memory = spec.memory()
    for name in lasting_fields(memory):
        expected = memory[name]
        field = _unpacked(_member(archive, f"{name}.npy", expected.nbytes + 4096))
        if field.shape != expected.shape or field.dtype != expected.dtype:
            raise FileFormatError(
                f"{path}: field {name!r} must be {expected.dtype} of shape {expected.shape[1:]}, "
                f"got {field.dtype} of shape {field.shape[1:]}"
            )
        memory[name] = field
    check_memory = getattr(spec, "check_memory", None)
    if check_memory is not None:
        check_memory(memory)
    return memory


def _packed(values: object) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.ascontiguousarray(values), allow_pickle=False)
    return content.getvalue()


def _unpacked(content: bytes) -> Any:
    """The array in a `.npy` file. Its header may declare more than there is: NumPy would take that memory."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > len(content):
        raise ValueError(f"an array of {dtype} and shape {shape} cannot be in {len(content)} bytes")
    values = np.frombuffer(content, dtype, math.prod(shape), file.tell())
    return values.reshape(shape, order="F" if fortran else "C").copy()
