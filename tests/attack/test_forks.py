"""Forks while other threads compile, import or open journals: a child can do the same, and nothing breaks."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path

import pytest

import kalmanbandits as kb
from forked_processes import in_a_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_a_child_forked_while_a_thread_compiles_can_compile():
    from numba.core.compiler_lock import global_compiler_lock

    holding, compiled = threading.Event(), threading.Event()

    def compile_for_long() -> None:
        with global_compiler_lock:
            holding.set()
            compiled.wait(1.0)

    def take_the_lock() -> None:
        with global_compiler_lock:
            pass

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    holding.wait()
    in_a_child(take_the_lock)
    compiled.set()
    thread.join()


def test_a_child_forked_while_a_thread_imports_can_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for number in range(5):
        name = f"slow_{number}"
        (tmp_path / f"{name}.py").write_text("import time\nbegun = True\ntime.sleep(0.2)\ndone = True\n")
        thread = threading.Thread(target=importlib.import_module, args=(name,))
        thread.start()
        while not getattr(sys.modules.get(name), "begun", False):
            pass
        in_a_child(lambda name=name: importlib.import_module(name).done)
        thread.join()


def test_children_forked_while_threads_open_and_close_journals(tmp_path):
    """They would inherit what SQLite knows of its locks without the locks, and write at the same time."""

    def play(folder: Path) -> None:
        with kb.Agent.open(folder, kb.UCB(arms=2)) as agent:
            agent.tell(agent.ask(), 1.0)

    places, stop, counts = [tmp_path / str(number) for number in range(3)], threading.Event(), [0, 0, 0]

    def keep_playing(number: int) -> None:
        while not stop.is_set():
            play(places[number])
            counts[number] += 1

    threads = [threading.Thread(target=keep_playing, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_a_child(lambda: [play(place) for place in places])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for place, count in zip(places, counts, strict=True):
        with kb.Agent.open(place) as agent:
            assert agent.rounds == count + 10
