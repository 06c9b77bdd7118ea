"""The public surface: every callable that a user may reach by a public name, found by looking."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import kalmanbandits as kb

BESIDE = ("kalmanbandits.reporting", "kalmanbandits.streams", "kalmanbandits.integrations.gymnasium")


def public_callables() -> dict[str, Callable[..., Any]]:
    """Functions, classes and public methods, by the shortest name that leads to them."""
    found: dict[str, Callable[..., Any]] = {}
    packages = [kb, *(getattr(kb, name) for name in kb._PACKAGES)]
    packages += [importlib.import_module(name) for name in BESIDE]
    for package in packages:
        names = getattr(package, "__all__", [])
        if package.__name__ in ("kalmanbandits.errors", "kalmanbandits.streams"):
            own = {n: v for n, v in vars(package).items() if getattr(v, "__module__", "") == package.__name__}
            names = [n for n, v in own.items() if inspect.isfunction(v) and not n.startswith("_")]
        for name in names:
            value = getattr(package, name)
            if not callable(value) or inspect.ismodule(value):
                continue
            if isinstance(value, type) and issubclass(value, Exception):
                continue
            label = f"{package.__name__.removeprefix('kalmanbandits').lstrip('.')}.{name}".lstrip(".")
            if value in found.values():
                continue
            found[label] = value
            if isinstance(value, type):
                found |= {f"{label}.{method}": f for method, f in methods(value).items()}
    return found


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """The public methods that a class of this package defines or inherits from one."""
    result = {}
    for name, value in inspect.getmembers(kind, callable):
        if name.startswith("_") or not getattr(value, "__module__", "").startswith("kalmanbandits"):
            continue
        if inspect.isfunction(value) or inspect.ismethod(value):
            result[name] = value
    return result


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a call may be given, without `self`."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.name not in ("self", "cls") and p.kind not in (p.VAR_KEYWORD,)]
