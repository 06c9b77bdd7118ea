"""Save files: a ZIP archive of `header.json` and one `.npy` file for each field of the memory.

The header holds the format and its version, the policy's description, the seed, the rounds done, the open
choices and the versions of the software that wrote it. Nothing is pickled; `numpy.load` and `unzip` open it.
A file is written beside its final place, flushed to disk and moved over it, so that a reader sees the old
one or the new one, whole.
"""

from __future__ import annotations

import io
import json
import os
import platform
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from kalmanbandits import __version__
from kalmanbandits.durability import write_atomically
from kalmanbandits.errors import FileFormatError
from kalmanbandits.policies.spec import FORMAT, Memory, Spec

NAME = "kalmanbandits agent"
HEADER = "header.json"
ABOUT = ("name", "format", "policy", "versions")  # of the header; all else in it is the agent's position


def write(path: str | os.PathLike[str], spec: Spec, memory: Memory, position: dict[str, Any]) -> None:
    """Write an agent to `path`, atomically."""
    versions = {"kalmanbandits": __version__, "numpy": np.__version__, "python": platform.python_version()}
    header = {"name": NAME, "format": FORMAT, "policy": spec.to_dict(), **position, "versions": versions}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(HEADER, json.dumps(header, indent=1))
        for name in lasting_fields(memory):
            field = io.BytesIO()
            np.lib.format.write_array(field, np.ascontiguousarray(memory[name]), allow_pickle=False)
            archive.writestr(f"{name}.npy", field.getvalue())
    write_atomically(Path(path), content.getvalue())


def lasting_fields(memory: Memory) -> list[str]:
    """The fields worth saving: those named `work_…` are written before they are read."""
    return [name for name in memory.dtype.names or () if not name.startswith("work_")]


def read(path: str | os.PathLike[str]) -> tuple[Spec, Memory, dict[str, Any]]:
    """The description, memory and position that `write` put at `path`."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(HEADER))
            if not isinstance(header, dict) or header.get("name") != NAME:
                raise FileFormatError(f"{path} is a ZIP archive, but not a saved agent")
            if header["format"] != FORMAT:
                raise FileFormatError(
                    f"{path} has format {header['format']}, this version reads {FORMAT} "
                    f"(it was written by kalmanbandits {header['versions']['kalmanbandits']})"
                )
            spec = _described(path, header["policy"])
            memory = _read_fields(path, archive, spec)
            position = {name: value for name, value in header.items() if name not in ABOUT}
    except OSError:
        raise  # not found, not readable: Python's own message names the file
    except FileFormatError:
        raise
    except Exception as error:  # whatever a foreign or damaged file may cause on its way through the readers
        raise FileFormatError(f"{path} is cut short, damaged, or not a saved agent: {error}") from error
    return spec, memory, position


def _described(path: Any, policy: dict[str, Any]) -> Spec:
    if policy["policy"] not in Spec.known:
        raise FileFormatError(
            f"{path} is of a policy that is not known here, {policy['policy']!r} "
            "(one of your own: import the file that defines it first)"
        )
    return Spec.from_dict(policy)


def _read_fields(path: Any, archive: zipfile.ZipFile, spec: Spec) -> Memory:
    memory = spec.memory()
    for name in lasting_fields(memory):
        field = np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
        expected = memory[name]
        if field.shape != expected.shape or field.dtype != expected.dtype:
            raise FileFormatError(
                f"{path}: field {name!r} must be {expected.dtype} of shape {expected.shape[1:]}, "
                f"got {field.dtype} of shape {field.shape[1:]}"
            )
        memory[name] = field
    return memory
