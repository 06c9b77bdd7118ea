"""What attacks by disks that fail in the middle have found: a journal that was never whole, locks without an
end, errors without a name. Each once spoilt a folder, hung, or left somebody without a way to go on."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import kalmanbandits as kb
from kalmanbandits.agent import places
from kalmanbandits.durability import flush_folder, lock_file
from kalmanbandits.errors import JournalError

# A disk on which there is room for SQLite's -wal file, and none for the database to grow.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int full(int fd, off_t place) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name);
    return place > 0 && length > 7 && memcmp(name + length - 7, ".sqlite", 7) == 0;
}
#define WRITE(which, offset) \
    ssize_t which(int fd, const void *from, size_t size, offset place) { \
        static ssize_t (*usual)(int, const void *, size_t, offset); \
        if (full(fd, place)) { errno = ENOSPC; return -1; } \
        if (!usual) usual = dlsym(RTLD_NEXT, #which); \
        return usual(fd, from, size, place); \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)
"""
BEGIN = """
import sys, kalmanbandits as kb
try:
    kb.Agent.open(sys.argv[1], kb.UCB(arms=3))
except kb.errors.JournalError as error:
    print(error.errno, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the names of open files")
def test_a_journal_that_was_not_written_whole_gets_no_name(tmp_path: Path) -> None:
    """SQLite closes a database that it could not write wholly without a word: it was `damaged` for ever."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here, to make the disk fail (Debian: apt install gcc libc6-dev)")
    (tmp_path / "full.c").write_text(SHIM)
    command = ["cc", "-shared", "-fPIC", "-o", tmp_path / "full.so", tmp_path / "full.c", "-ldl"]
    subprocess.run(command, check=True)
    run = subprocess.run(
        [sys.executable, "-c", BEGIN, str(tmp_path / "J")],
        env=os.environ | {"LD_PRELOAD": str(tmp_path / "full.so"), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"{errno.ENOSPC} "), run.stdout
    assert "cannot be opened: database or disk is full" in run.stdout
    assert list((tmp_path / "J").iterdir()) == []
    with kb.Agent.open(tmp_path / "J", kb.UCB(arms=3)) as agent:
        assert agent.ask().number == 1


def test_somebodys_lock_on_the_folder_of_a_journal_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may read a folder may lock it; so does a process that was stopped while it opened it."""
    kb.Agent.open(tmp_path / "J", kb.UCB(arms=2)).close()
    theirs = os.open(tmp_path / "J", os.O_RDONLY)
    assert lock_file(theirs)
    monkeypatch.setattr(places, "PATIENCE", 0.2)
    with pytest.raises(JournalError, match="J cannot be opened: the folder is locked by another") as caught:
        kb.Agent.open(tmp_path / "J")
    assert caught.value.errno == errno.EBUSY
    os.close(theirs)
    with kb.Agent.open(tmp_path / "J") as agent:
        assert agent.ask().number == 1


def test_a_lock_that_comes_while_a_journal_is_opened_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is given up in part is free for a moment, in which another process may take it."""
    kb.Agent.open(tmp_path / "J", kb.UCB(arms=2)).close()

    def refused(presence: places.Presence) -> None:
        raise JournalError("locked")

    with monkeypatch.context() as patch:
        patch.setattr(places.Presence, "share", refused)
        with pytest.raises(JournalError, match="locked"):
            kb.Agent.open(tmp_path / "J")
    with kb.Agent.open(tmp_path / "J") as agent:
        assert agent.ask().number == 1
    assert [path.name for path in (tmp_path / "J").iterdir()] == ["journal.sqlite"]


def test_a_folder_that_cannot_be_flushed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command said `[Errno 5] Input/output error`, and not of what."""
    usual = os.fsync

    def broken(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        usual(handle)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error") as caught:
        flush_folder(tmp_path)
    assert caught.value.filename == str(tmp_path)
