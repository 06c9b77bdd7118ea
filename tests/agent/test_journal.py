"""The journal: it continues exactly, refuses what is not its own, and a full disk changes nothing."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from agent_worlds import Follower, bits, reward

import kalmanbandits as kb
from kalmanbandits.agent import journal as journals
from kalmanbandits.agent import log
from kalmanbandits.errors import FileFormatError, InvalidArgument, JournalError, RoundError

POLICY = kb.UBSS(arms=3, window=2)


def drive(agent, first, last, held):
    """Rounds with every kind of call; `held` are the tickets kept back."""
    for t in range(first, last):
        if t % 10 == 4 and not agent.open_tickets:
            arm = agent.select()
            agent.update(arm, reward(t, arm)) if t % 20 == 4 else agent.skip()
            continue
        held.append(agent.ask(available=[0, 1] if t % 6 == 0 else None))
        if t % 3 == 0:
            agent.tell_many([(ticket, reward(*ticket)) for ticket in held[-2:]])
            del held[-2:]
        elif t % 7 == 0:
            agent.expire(held.pop(0))
        elif len(held) > 4:
            ticket = held.pop(0)
            agent.tell(ticket.number, reward(*ticket))


def closed(agent, held):
    agent.tell_many([(ticket, reward(*ticket)) for ticket in held])
    return bits(agent)


@pytest.mark.parametrize(
    "policy", [POLICY, kb.KalmanGreedy(kb.systems.rotation(theta=2.0)), Follower(arms=2)]
)
@pytest.mark.parametrize("fsync", [True, False])
def test_opened_again_and_again_it_is_an_agent_that_never_stopped(policy, fsync, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "LONG", 1500)  # so that there are snapshots too
    path = tmp_path / "journal"
    whole, ours, theirs = kb.Agent(policy, seed=4), [], []
    for part in range(8):
        with kb.Agent.open(
            path, policy if part % 2 else None if part else policy, seed=4, fsync=fsync
        ) as agent:
            assert agent.rounds == whole.rounds
            assert agent.open_tickets == whole.open_tickets
            assert agent.open_arm == whole.open_arm
            drive(agent, 25 * part, 25 * part + 25, ours)
        drive(whole, 25 * part, 25 * part + 25, theirs)
        if part == 3 and isinstance(policy, kb.UBSS):
            with kb.Agent.open(path) as agent:
                assert agent.add_arm() == whole.add_arm()
                agent.retire_arm(1)
                whole.retire_arm(1)
                monkeypatch.setattr(sys.modules[__name__], "drive", drive_without_masks)
    assert ours == theirs
    names = sorted(os.listdir(path))
    assert len(names) == 3  # old snapshots and logs are gone
    assert int(names[0][:8]) > 2
    with kb.Agent.open(path) as agent:
        assert closed(agent, ours) == closed(whole, theirs)


def drive_without_masks(agent, first, last, held):
    for t in range(first, last):
        held.append(agent.ask())
        if t % 3:
            ticket = held.pop(t % len(held))
            agent.tell(ticket, reward(*ticket))


def played(path, rounds=12):
    agent = kb.Agent.open(path, POLICY)
    held = []
    drive(agent, 1, rounds, held)
    return agent, held


def only(path, ending):
    (found,) = path.glob(f"*.{ending}")
    return found


def test_a_record_torn_at_any_byte_never_happened(tmp_path):
    path = tmp_path / "journal"
    agent, held = played(path)
    before = agent.memory.tobytes(), agent.open_tickets, agent.rounds
    whole = only(path, "log").read_bytes()
    agent.tell_many([(ticket, 0.5) for ticket in held])
    after = agent.memory.tobytes()
    agent.close()
    file = only(path, "log")
    content = file.read_bytes()
    for length in range(len(whole), len(content)):
        file.write_bytes(content[:length])
        with kb.Agent.open(path) as again:
            assert before == (again.memory.tobytes(), again.open_tickets, again.rounds)
            assert file.stat().st_size == len(whole)
    for junk in (bytes(500), os.urandom(500), content[len(whole) + 3 :]):  # what a power cut may leave behind
        file.write_bytes(whole + junk)
        with kb.Agent.open(path) as again:
            assert before == (again.memory.tobytes(), again.open_tickets, again.rounds)
            again.tell_many([(ticket, 0.5) for ticket in held])
            assert again.memory.tobytes() == after
        with kb.Agent.open(path) as again:
            assert again.memory.tobytes() == after
            with pytest.raises(RoundError, match="which is closed"):
                again.tell(held[0], 0.5)


def test_damage_to_what_was_on_disk_is_not_taken_for_the_end(tmp_path):
    path = tmp_path / "journal"
    agent, _ = played(path)
    agent.close()
    file = only(path, "log")
    content = file.read_bytes()
    last = log.RECORD_SIZE + log.EVENT_SIZE
    for place in range(log.HEADER_SIZE, len(content) - 2 * last, 23):
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(FileFormatError, match=f"{file.name} is damaged at byte"):
            kb.Agent.open(path)
    for place in range(log.HEADER_SIZE):
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(FileFormatError, match=file.name):
            kb.Agent.open(path)
    file.write_bytes(content)
    kb.Agent.open(path).close()


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "journal"
    agent, held = played(path)
    with pytest.raises(JournalError, match=rf"{path} is open already, in process {os.getpid()} "):
        kb.Agent.open(path, POLICY)
    script = f"import kalmanbandits as kb; kb.Agent.open({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "JournalError" in done.stderr
    assert "is open already" in done.stderr
    agent.tell(held[0], 1.0)  # the first one is not disturbed
    agent.close()
    agent.close()
    with pytest.raises(JournalError, match="is closed"):
        agent.ask()
    assert agent.rounds == 8  # what it knows can still be read
    kb.Agent.open(path).close()


def test_an_agent_that_is_dropped_gives_its_journal_free(tmp_path):
    agent, _ = played(tmp_path / "journal")
    del agent
    kb.Agent.open(tmp_path / "journal").close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_copy_does_not_write(tmp_path):
    agent, held = played(tmp_path / "journal")
    child = os.fork()
    if child == 0:
        try:
            agent.tell(held[0], 1.0)
        except JournalError as error:
            os._exit(7 if "forked from" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    agent.tell(held[0], 1.0)
    agent.close()


@pytest.mark.parametrize(
    ("policy", "seed", "message"),
    [
        (kb.UBSS(arms=3, window=1), None, "window is 2 there and 1 here"),
        (kb.UBSS(arms=4, window=2), None, "arms is 3 there and 4 here"),
        (
            kb.UCB(arms=3, scale=2.0),
            None,
            "policy is 'UBSS' there and 'UCB' here, .*scale is left out there and 2.0",
        ),
        (POLICY, 5, "seed must be 0, with which the journal at .* was begun, or left out, got 5"),
        (None, 5, "seed must be 0"),
    ],
)
def test_the_journal_of_another_agent_is_refused_with_the_difference(policy, seed, message, tmp_path):
    played(tmp_path / "journal")[0].close()
    with pytest.raises(InvalidArgument, match=message):
        kb.Agent.open(tmp_path / "journal", policy, seed=seed)
    kb.Agent.open(tmp_path / "journal").close()  # the refusal has let go of it


def test_the_founding_policy_opens_a_journal_whose_arms_have_changed(tmp_path):
    with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
        agent.add_arm()
        agent.retire_arm(0)
    with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
        assert agent.policy.arms == 4
        assert agent.retired == (0,)


def test_foreign_folders_and_files_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="policy must be given: there is no journal at"):
        kb.Agent.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="policy must be given"):
        kb.Agent.open(tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == []
    with pytest.raises(JournalError, match="No such file"):
        kb.Agent.open(tmp_path / "no" / "such", POLICY)
    (tmp_path / "file").write_text("hello")
    with pytest.raises(JournalError, match="Not a directory"):
        kb.Agent.open(tmp_path / "file", POLICY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    with pytest.raises(FileFormatError, match=r"holds 'notes.txt' and no journal"):
        kb.Agent.open(tmp_path / "other", POLICY)
    assert os.listdir(tmp_path / "other") == ["notes.txt"]  # not even a lock is left there
    with pytest.raises(InvalidArgument, match="policy must be one that an agent can play"):
        kb.Agent.open(tmp_path / "oracle", kb.Clairvoyant(kb.systems.rotation(theta=1.0)))
    assert not (tmp_path / "oracle").exists()


def test_mixed_missing_and_newer_files_are_refused(tmp_path):
    for name in ("a", "b"):
        played(tmp_path / name)[0].close()
    a, b = only(tmp_path / "a", "log"), only(tmp_path / "b", "log")
    content = a.read_bytes()
    shutil.copy(b, a)
    with pytest.raises(FileFormatError, match="files of two journals were mixed"):
        kb.Agent.open(tmp_path / "a")
    a.write_bytes(content[:8] + (99).to_bytes(4, "little") + content[12:])
    with pytest.raises(FileFormatError, match="has format 99, this version reads 1"):
        kb.Agent.open(tmp_path / "a")
    a.unlink()
    with pytest.raises(FileFormatError, match=r"00000001\.log is missing"):
        kb.Agent.open(tmp_path / "a")
    a.write_bytes(content)
    snapshot = only(tmp_path / "a", "agent")
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="cut short, damaged"):
        kb.Agent.open(tmp_path / "a")
    kb.Agent(POLICY).save(snapshot)
    with pytest.raises(FileFormatError, match="is a saved agent and of no journal"):
        kb.Agent.open(tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header["journal"].update(format=7), "has journal format 7, this version reads 1"),
        (lambda header: header["journal"].update(id="none"), "does not say which journal it is of"),
        (lambda header: header["journal"].pop("founded"), "does not say which journal it is of"),
        (lambda header: header.update(rounds=-3), "does not hold an agent of this version"),
        (lambda header: header["policy"].update(policy="Mine"), "not known here, 'Mine' .* import the file"),
    ],
)
def test_a_snapshot_whose_header_makes_no_sense_is_refused(change, message, tmp_path):
    played(tmp_path / "a")[0].close()
    snapshot = only(tmp_path / "a", "agent")
    with zipfile.ZipFile(snapshot) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["header.json"])
    change(header)
    with zipfile.ZipFile(snapshot, "w") as archive:
        for name, content in (parts | {"header.json": json.dumps(header)}).items():
            archive.writestr(name, content)
    with pytest.raises(FileFormatError, match=message):
        kb.Agent.open(tmp_path / "a")


def state(agent):
    return (
        agent.memory.tobytes(),
        agent.open_tickets,
        agent.rounds,
        agent.open_arm,
        agent.policy,
        agent.retired,
    )


CALLS = [
    lambda agent, held: agent.ask(),
    lambda agent, held: agent.tell(held[0], 1.0),
    lambda agent, held: agent.tell_many([(ticket, 1.0) for ticket in held]),
    lambda agent, held: agent.expire(held[0]),
    lambda agent, held: agent.add_arm(),
    lambda agent, held: agent.retire_arm(2),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("function", ["pwrite", "fdatasync"])
def test_on_a_full_disk_nothing_happened(function, call, tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    before = state(agent)
    usual = getattr(os, function)

    def full(handle, *more):
        if function == "pwrite":
            usual(handle, more[0][:5], more[1])  # a torn write
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(JournalError, match=r"and nothing was changed: No space left on device") as caught:
            call(agent, held)
        assert caught.value.errno == errno.ENOSPC
        assert state(agent) == before
    call(agent, held)
    assert state(agent) != before
    after = state(agent)
    agent.close()
    with kb.Agent.open(tmp_path / "journal") as again:
        assert state(again) == after


def test_one_failed_flush_fails_every_call_that_waits_for_it(tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    before = state(agent)
    usual = os.fdatasync

    def full(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", full)
    for ticket in held:
        with pytest.raises(JournalError, match="Input/output error"):
            agent.tell(ticket, 1.0)
    monkeypatch.setattr(os, "fdatasync", usual)
    agent.ask()
    agent.close()
    with kb.Agent.open(tmp_path / "journal") as again:
        assert again.open_tickets[:-1] == before[1]
        assert again.rounds == before[2]


def test_a_limit_on_the_size_of_files(tmp_path):
    path = tmp_path / "journal"
    child = os.fork()
    if child == 0:
        try:
            agent, held = played(path)
            size = only(path, "log").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 10**6))
            agent.ask()  # 33 bytes: the last that fits
            before = state(agent)
            for _ in range(2):
                with pytest.raises(JournalError, match="nothing was changed: File too large"):
                    agent.tell(held[0], 1.0)
                assert state(agent) == before
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10**6, size + 10**6))
            agent.tell(held[0], 1.0)
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with kb.Agent.open(path) as again:
        assert again.rounds == 8


def test_a_folder_that_may_not_be_written():
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if os.getuid() == 0:
                    os.setuid(65534)  # root may write anywhere
                for path in (folder, folder / "journal"):
                    with pytest.raises(JournalError, match=rf"{path} cannot be opened: Permission denied"):
                        kb.Agent.open(path, POLICY)
                code = 7
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    finally:
        folder.rmdir()


def test_a_snapshot_that_cannot_be_written_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "LONG", 300)
    path = tmp_path / "journal"
    agent, held = played(path, 3)
    for name in ("fsync", "replace"):  # of the log's header, of the snapshot; of its move
        with monkeypatch.context() as patch:

            def full(*_):
                raise OSError(errno.ENOSPC, "No space left on device")

            patch.setattr(os, name, full)
            drive(agent, 3, 30, held)
        number = only(path, "agent").stem
        assert sorted(os.listdir(path)) == [f"{number}.agent", f"{number}.log", "lock"]
    drive(agent, 30, 60, held)
    assert int(only(path, "agent").stem) > int(number)
    after = state(agent)
    agent.close()
    with kb.Agent.open(path) as again:
        assert state(again) == after


@pytest.mark.parametrize("where", ["after", "before"])
def test_a_call_that_is_interrupted_happened_or_did_not(where, tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    before = state(agent)
    usual = os.pwrite

    def interrupted(handle, content, place):
        if where == "after":
            usual(handle, content, place)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.tell(held[0], 1.0)
    agent.ask()  # follows the file again
    agent.expire(agent.open_tickets[-1])
    assert (agent.rounds, held[0] in agent.open_tickets) == (
        (before[2] + 2, False) if where == "after" else (before[2] + 1, True)
    )
    after = state(agent)
    agent.close()
    with kb.Agent.open(tmp_path / "journal") as again:
        assert state(again) == after


def test_a_power_cut_loses_nothing_acknowledged(tmp_path, monkeypatch):
    """The disk keeps what was flushed: the names of files with their folder, their bytes with themselves."""
    monkeypatch.setattr(journals, "LONG", 600)
    path, names, kept, disks = tmp_path / "journal", {}, {}, []
    data, full = os.fdatasync, os.fsync
    acknowledged = (0, 0)  # rounds begun, and closed

    def keep(handle):
        found = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if not found.is_dir():
            kept[found.stat().st_ino] = found.read_bytes()
        elif found == path:
            names.clear()
            names.update({entry.name: entry.stat().st_ino for entry in path.iterdir()})
        disks.append((acknowledged, {name: kept.get(inode, b"") for name, inode in names.items()}))

    monkeypatch.setattr(os, "fdatasync", lambda handle: (data(handle), keep(handle))[0])
    monkeypatch.setattr(os, "fsync", lambda handle: (full(handle), keep(handle))[0])
    agent, held = kb.Agent.open(path, kb.UCB(arms=3)), []
    opened = len(disks)
    for t in range(1, 60):
        drive(agent, t, t + 1, held)
        acknowledged = (agent.rounds + len(agent.open_tickets), agent.rounds)
        disks.append((acknowledged, disks[-1][1]))
    assert int(only(path, "agent").stem) > 3
    agent.close()
    monkeypatch.undo()
    for place, ((begun, closed), files) in enumerate(disks[opened:]):
        after = tmp_path / f"after-{place}"
        after.mkdir()
        for name, content in files.items():
            (after / name).write_bytes(content)
        with kb.Agent.open(after, fsync=False) as again:
            assert again.rounds >= closed
            assert again.rounds + len(again.open_tickets) >= begun


def test_a_record_that_was_rolled_back_is_not_acknowledged_later(tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    journal = agent._journal
    agent._lock.acquire()  # a thread that has written, and is slow to wait for the flush
    agent._record(log.Event(log.REWARDED, held[0].number, 1.0))
    slow = journal.written
    agent._mutex.release()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda handle: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
        with pytest.raises(JournalError, match="broken"):
            agent.tell(held[1], 1.0)
    assert agent.ask()
    with pytest.raises(JournalError, match="nothing was changed: an earlier flush failed"):
        journal.commit(slow)
    assert held[0] in agent.open_tickets
    agent.close()


def test_what_a_killed_process_left_in_the_system_is_flushed_first(tmp_path, monkeypatch):
    agent, _ = played(tmp_path / "journal")
    agent.close()
    flush, flushed = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")))
    kb.Agent.open(tmp_path / "journal").close()
    assert flushed == [str(only(tmp_path / "journal", "log"))]
    monkeypatch.setattr(os, "fsync", flush)


def test_a_disk_that_stays_broken_stops_the_agent_until_it_works(tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    before = state(agent)

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        for name in ("fdatasync", "fsync", "ftruncate"):
            patch.setattr(os, name, broken)
        with pytest.raises(JournalError, match="nothing was changed: Input/output error"):
            agent.tell(held[0], 1.0)
        for _ in range(2):
            with pytest.raises(JournalError, match="still cannot be written; the agent stays as it is"):
                agent.ask()
    ticket = agent.ask()
    assert (agent.rounds, agent.open_tickets) == (before[2], (*before[1], ticket))
    agent.close()


def test_bad_settings_are_refused_before_anything_is_made(tmp_path):
    for bad in (0, "1", 2.5):
        with pytest.raises(InvalidArgument, match="max_open must be"):
            kb.Agent.open(tmp_path / "journal", POLICY, max_open=bad)
    with pytest.raises(InvalidArgument, match="seed must be"):
        kb.Agent.open(tmp_path / "journal", POLICY, seed=-1)
    assert not (tmp_path / "journal").exists()
    with kb.Agent.open(tmp_path / "journal", POLICY, max_open=2) as agent:
        agent.ask()
        agent.ask()
    with kb.Agent.open(tmp_path / "journal") as agent, pytest.raises(RoundError, match="max_open = 2"):
        agent.ask()
    with kb.Agent.open(tmp_path / "journal", max_open=3) as agent:
        agent.ask()
