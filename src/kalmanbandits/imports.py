"""Forks while another thread imports: the child would wait for ever for a thread that it does not have.

Python holds a lock for each module that is being imported, and a child inherits it from whichever thread was
at it. So a fork waits until no other thread imports, and holds Python's own import lock while it happens,
so that none begins.
"""

from __future__ import annotations

import _imp
import importlib
import os
import threading
import time

PATIENCE = 20.0  # seconds: an import that takes longer may be waiting for this very thread


def wait_for_imports() -> None:
    """Wait until no other thread is importing, for a while."""
    deadline = time.monotonic() + PATIENCE
    while _others_import() and time.monotonic() < deadline:
        time.sleep(0.002)


def _others_import() -> bool:
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    owners = [getattr(reference(), "owner", None) for reference in list(locks.values())]
    return any(owner not in (None, threading.get_ident()) for owner in owners)


def _before() -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        _imp.acquire_lock()
        if not _others_import() or time.monotonic() > deadline:
            return
        _imp.release_lock()
        time.sleep(0.002)


def watch_forks() -> None:
    """Do so before every fork of this process."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before, after_in_parent=_imp.release_lock, after_in_child=_imp.release_lock
        )
