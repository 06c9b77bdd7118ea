"""The journal: it continues exactly, refuses what is not its own, and what fails changes nothing."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from agent_worlds import POLICIES, Follower, bits, reward

import kalmanbandits as kb
from forked_processes import in_a_child
from kalmanbandits.agent import database, places, snapshots
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


def drive_without_masks(agent, first, last, held):
    for t in range(first, last):
        held.append(agent.ask())
        if t % 3:
            ticket = held.pop(t % len(held))
            agent.tell(ticket, reward(*ticket))


def closed(agent, held):
    agent.tell_many([(ticket, reward(*ticket)) for ticket in held])
    return bits(agent)


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_every_policy_continues_from_its_journal(tmp_path, policy, minimize):
    """Whatever its index is: -0.0, as that of LARL in the beginning, which SQLite turns into 0.0, or NaN."""
    without = kb.Agent(policy, seed=3, minimize=minimize, history=True)
    for last in (4, 9, 14):
        with kb.Agent.open(tmp_path / "agent", policy, seed=3, minimize=minimize, history=True) as agent:
            while agent.rounds < last:
                pair = agent.ask(), without.ask()
                assert pair[0] == pair[1]
                for each, ticket in zip((agent, without), pair, strict=True):
                    each.tell(ticket, reward(*ticket))
    with kb.Agent.open(tmp_path / "agent", minimize=minimize) as agent:
        np.testing.assert_array_equal(agent.history["index"], without.history["index"])
        assert bits(agent) == bits(without)


def played(path, rounds=12, **options):
    agent = kb.Agent.open(path, POLICY, **options)
    held = []
    drive(agent, 1, rounds, held)
    return agent, held


def state(agent):
    return (
        agent.memory.tobytes(),
        agent.open_tickets,
        agent.rounds,
        agent.open_arm,
        agent.policy,
        agent.retired,
    )


def copied(path, to):
    """The files as they are, as after a kill."""
    shutil.copytree(path, to, ignore=shutil.ignore_patterns("*-shm"))
    return to


@pytest.mark.parametrize(
    "policy", [POLICY, kb.KalmanGreedy(kb.systems.rotation(theta=2.0)), Follower(arms=2)]
)
@pytest.mark.parametrize("fsync", [True, False])
def test_opened_again_and_again_it_is_an_agent_that_never_stopped(policy, fsync, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 60)  # so that there are snapshots too
    path = tmp_path / "journal"
    whole, ours, theirs, move = kb.Agent(policy, seed=4), [], [], drive
    for part in range(8):
        with kb.Agent.open(
            path, policy if part % 2 else None if part else policy, seed=4, fsync=fsync
        ) as agent:
            assert agent.rounds == whole.rounds
            assert agent.open_tickets == whole.open_tickets
            assert agent.open_arm == whole.open_arm
            move(agent, 25 * part, 25 * part + 25, ours)
        move(whole, 25 * part, 25 * part + 25, theirs)
        if part == 3 and isinstance(policy, kb.UBSS):
            with kb.Agent.open(path) as agent:
                assert agent.add_arm() == whole.add_arm()
                for each in (agent, whole):
                    each.retire_arm(1)
                    each.retire_arm(0)
                    each.unretire_arm(0)
            move = drive_without_masks
    assert ours == theirs
    assert os.listdir(path) == ["journal.sqlite"]  # closed: what was beside it is in it
    with kb.Agent.open(path) as agent:
        assert agent._journal._snapshots.newest > 100
        assert closed(agent, ours) == closed(whole, theirs)


def test_a_killed_process_leaves_all_that_was_acknowledged(tmp_path):
    agent, _ = played(tmp_path / "journal")
    before = state(agent)
    assert sorted(os.listdir(tmp_path / "journal")) == [
        "journal.sqlite", "journal.sqlite-shm", "journal.sqlite-wal",
    ]  # fmt: skip
    with kb.Agent.open(copied(tmp_path / "journal", tmp_path / "copy")) as again:
        assert state(again) == before
        with pytest.raises(RoundError, match="which is closed"):
            again.tell(1, 0.5)
    agent.close()


def test_a_commit_torn_at_any_byte_never_happened(tmp_path):
    path, wal = tmp_path / "journal", "journal.sqlite-wal"
    agent, held = played(path)
    before, whole = state(agent), (path / wal).stat().st_size
    agent.tell_many([(ticket, 0.5) for ticket in held])
    after, content = state(agent), (path / wal).read_bytes()
    assert len(content) > whole
    for place, length in enumerate(range(whole, len(content), 31)):
        torn = copied(path, tmp_path / f"torn{place}")
        (torn / wal).write_bytes(content[:length])
        with kb.Agent.open(torn) as again:
            assert state(again) == before
            again.tell_many([(ticket, 0.5) for ticket in held])
            assert state(again) == after
    agent.close()


@pytest.mark.parametrize("fsync", [True, False])
def test_flipped_bits_in_the_file_are_noticed_or_change_nothing(fsync, tmp_path):
    path = tmp_path / "journal"
    agent, _ = played(path, 40, fsync=fsync)
    before = state(agent)
    agent.close()
    content = (path / "journal.sqlite").read_bytes()
    refused = 0
    for place in range(0, len(content), 97):
        (path / "journal.sqlite").write_bytes(
            content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
        )
        try:
            with kb.Agent.open(path, fsync=fsync) as again:
                assert state(again) == before, place
        except (FileFormatError, JournalError, InvalidArgument):
            refused += 1
        for ending in ("-wal", "-shm"):
            (path / f"journal.sqlite{ending}").unlink(missing_ok=True)
    assert refused > 20


@pytest.mark.parametrize("fsync", [True, False])
def test_flipped_bits_before_the_last_commit_are_not_taken_for_the_end(fsync, tmp_path):
    path, wal = tmp_path / "journal", "journal.sqlite-wal"
    agent, _ = played(path, 14, fsync=fsync)
    before, content = state(agent), (path / wal).read_bytes()
    kill = copied(path, tmp_path / "copy")
    agent.close()
    main = (kill / "journal.sqlite").read_bytes()
    page = 1024 + 24
    for place in range(0, len(content) - 4 * page, 211):
        (kill / "journal.sqlite").write_bytes(main)
        damaged = content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :]
        (kill / wal).write_bytes(damaged)
        try:
            with kb.Agent.open(kill, fsync=fsync) as again:
                assert state(again) == before, place  # a frame that a later one replaces
        except FileFormatError as error:
            assert "is damaged at byte" in str(error)  # noqa: PT017
            assert (kill / wal).read_bytes() == damaged  # nothing was touched
        else:
            pytest.fail(f"byte {place} is not noticed")
    with kb.Agent.open(kill, fsync=fsync, recover=True) as again:
        assert again.rounds < before[2] or again.open_tickets != before[1]
    (kept,) = kill.glob("damaged-*")
    assert kept.read_bytes() == damaged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE event SET reward = 1e9 WHERE kind = 'rewarded' AND id > 5", "its checksum is wrong"),
        ("DELETE FROM event WHERE id = 7", "event 7 is missing"),
        ("DELETE FROM event WHERE id > 7", "says that .* events happened, and event 8 is missing"),
        ("UPDATE event SET kind = 'eaten' WHERE id = 7", "event 7: KeyError"),
        ("DELETE FROM snapshot", "it has no snapshot"),
        ("UPDATE snapshot SET agent = x'00'", "its snapshot: the agent is cut short"),
        ("UPDATE journal SET value = 7 WHERE name = 'format'", "has journal format 7, this version reads 2"),
        ("DROP TABLE event", "is damaged: "),
        ("UPDATE sqlite_sequence SET seq = 'x'", "is damaged: it says that -1"),
    ],
)
def test_a_changed_journal_is_refused(change, message, tmp_path):
    path = tmp_path / "journal"
    played(path)[0].close()
    with sqlite3.connect(path / "journal.sqlite") as db:
        db.execute(change)
    db.close()
    with pytest.raises(FileFormatError, match=message):
        kb.Agent.open(path)


def test_files_of_two_journals_are_not_mixed(tmp_path):
    wals = []
    for name in ("a", "b"):
        agent, _ = played(tmp_path / name)
        agent.close()
        with kb.Agent.open(tmp_path / name) as agent:  # what it writes now is in the -wal file alone
            agent.ask()
            wals.append(copied(tmp_path / name, tmp_path / f"{name}-killed") / "journal.sqlite-wal")
    shutil.copy(wals[1], wals[0])
    with pytest.raises(FileFormatError, match=r"is damaged: event .*: its checksum is wrong"):
        kb.Agent.open(tmp_path / "a-killed")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ((2, 99, 10**9, 0.0), "after .* rounds"),
        ((2, None, 10**9, 0.0), "of 3 arms"),
        ((2, None, -1, 0.0), "of 3 arms"),
        ((3, 1, 1.0, 0.0), "its round is not open"),
        ((3, None, float("inf"), 0.0), "is damaged|not open|finite"),
        ((4, 10**6, 0, 0.0), "its round is not open"),
        ((5, 0, 7, 0.0), "after 3 arms"),
        ((6, 0, 3, 0.0), "of 3 arms"),
        ((7, 0, 0, 0.0), "the arm is in use"),
        ((1, None, 0, 0.0), "after .* rounds"),
    ],
)
def test_events_that_cannot_have_happened_are_refused(event, message, tmp_path):
    path = tmp_path / "journal"
    agent, _ = played(path)
    begun = agent.rounds + len(agent.open_tickets)
    agent.close()
    kind, round_, value, when = event
    made_up = kb.agent.events.Event(kind, begun + 1 if round_ is None else round_, value, when)
    with sqlite3.connect(path / "journal.sqlite") as db:
        database.write_events(db, database.last_event(db), [made_up], database.checksum_seed(db))
    db.close()
    with pytest.raises(FileFormatError, match=message):
        kb.Agent.open(path)


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        (kb.UBSS(arms=3, window=1), {}, "window is 2 there and 1 here"),
        (kb.UBSS(arms=4, window=2), {}, "arms is 3 there and 4 here"),
        (kb.UCB(arms=3, scale=2.0), {}, "policy is 'UBSS' there and 'UCB' here, .*scale is left out"),
        (POLICY, {"seed": 5}, "seed must be 0, with which the journal at .* was begun, or left out, got 5"),
        (None, {"seed": 5}, "seed must be 0"),
        (None, {"minimize": True}, "minimize is left out there and True here"),
        (None, {"arms": ["a", "b", "c"]}, "arms is left out there and .'a', 'b', 'c'. here"),
        (None, {"clip": 0.1}, "clip is left out there and 0.1 here"),
        (None, {"minimum_share": {2: 0.1}}, "minimum_share is left out there and .'2': 0.1. here"),
    ],
)  # fmt: skip
def test_the_journal_of_another_agent_is_refused_with_the_difference(policy, options, message, tmp_path):
    played(tmp_path / "journal")[0].close()
    with pytest.raises(InvalidArgument, match=message):
        kb.Agent.open(tmp_path / "journal", policy, **options)
    kb.Agent.open(tmp_path / "journal").close()  # the refusal has let go of it


def test_the_founding_policy_opens_a_journal_whose_arms_have_changed(tmp_path):
    with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
        agent.add_arm()
        agent.retire_arm(0)
    with kb.Agent.open(tmp_path / "journal", POLICY) as agent:
        assert agent.policy.arms == 4
        assert agent.retired == (0,)


def test_bad_settings_are_refused_before_anything_is_made(tmp_path):
    for bad in (0, "1", 2.5):
        with pytest.raises(InvalidArgument, match="max_open must be"):
            kb.Agent.open(tmp_path / "journal", POLICY, max_open=bad)
    for name, bad in {
        "seed": -1, "fsync": 1, "recover": "yes", "history": 0, "ticket_timeout": -1.0, "clip": 2.0,
        "arms": "abc", "minimize": 1, "minimum_share": 0.5, "maximum_share": 0.2, "keep": 7,
    }.items():  # fmt: skip
        with pytest.raises(InvalidArgument, match=f"{name} must"):
            kb.Agent.open(tmp_path / "journal", POLICY, **{name: bad})
    with pytest.raises(InvalidArgument, match="path must be a path, got 7"):
        kb.Agent.open(7, POLICY)
    assert not (tmp_path / "journal").exists()
    with kb.Agent.open(tmp_path / "journal", POLICY, max_open=2) as agent:
        agent.ask()
        agent.ask()
    with kb.Agent.open(tmp_path / "journal") as agent, pytest.raises(RoundError, match="max_open = 2"):
        agent.ask()
    with kb.Agent.open(tmp_path / "journal", max_open=3) as agent:
        agent.ask()


CALLS = [
    lambda agent, held: agent.ask(),
    lambda agent, held: agent.tell(held[0], 1.0),
    lambda agent, held: agent.tell_many([(ticket, 1.0) for ticket in held]),
    lambda agent, held: agent.expire(held[0]),
    lambda agent, held: agent.add_arm(),
    lambda agent, held: agent.retire_arm(2),
]


@pytest.mark.parametrize("call", CALLS)
def test_on_a_full_disk_nothing_happened(call, tmp_path):
    path = tmp_path / "journal"
    agent, held = played(path)
    db = agent._journal.connection.open
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    before = state(agent)
    db.execute(f"PRAGMA max_page_count = {pages}")  # a disk of so many pages
    full = False
    for _ in range(200):  # until the last page is
        try:
            before = state(agent)
            agent.retire_arm(1)
            before = state(agent)
            agent.unretire_arm(1)
        except JournalError as error:
            full = True
            assert error.errno == errno.ENOSPC  # noqa: PT017
            assert "nothing was changed: database or disk is full" in str(error)  # noqa: PT017
            break
    assert full
    assert state(agent) == before
    try:
        call(agent, held)
    except JournalError:
        assert state(agent) == before
        db.execute(f"PRAGMA max_page_count = {2 * pages}")
        call(agent, held)
    assert state(agent) != before
    after = state(agent)
    agent.close()
    with kb.Agent.open(path) as again:
        assert state(again) == after


def test_a_limit_on_the_size_of_files(tmp_path):
    path = tmp_path / "journal"

    def write_too_much():
        agent, held = played(path)
        size = (path / "journal.sqlite-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, 10**8))
        before = state(agent)
        with pytest.raises(JournalError):
            agent.tell(held[0], 1.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**8, 10**8))
        if agent._journal.closed:
            with pytest.raises(JournalError, match="open it again, all that was acknowledged is there"):
                agent.ask()
            agent = kb.Agent.open(path)
        assert state(agent) == before
        agent.tell(held[0], 1.0)

    in_a_child(write_too_much)
    with kb.Agent.open(path) as again:
        assert again.rounds == 8


def test_a_folder_that_may_not_be_written():
    folder = Path(tempfile.mkdtemp())

    def open_it():
        if os.getuid() == 0:
            os.setuid(65534)  # root may write anywhere
        for path in (folder, folder / "journal"):
            with pytest.raises(JournalError, match=rf"{path} cannot be opened: Permission denied"):
                kb.Agent.open(path, POLICY)

    try:
        folder.chmod(0o555)
        in_a_child(open_it)
    finally:
        folder.rmdir()


def test_a_snapshot_that_cannot_be_written_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "LONG", 30)
    path = tmp_path / "journal"
    agent, held = played(path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "packed", lambda play, last: bytes(10**9))  # more than SQLite takes
        drive(agent, 3, 40, held)
    assert agent._journal._snapshots.newest == 0
    drive(agent, 40, 80, held)
    assert agent._journal._snapshots.newest > 60
    after = state(agent)
    agent.close()
    with kb.Agent.open(path) as again:
        assert state(again) == after


@pytest.mark.parametrize("where", ["after", "before"])
def test_a_call_that_is_interrupted_happened_or_did_not(where, tmp_path, monkeypatch):
    agent, held = played(tmp_path / "journal")
    before = state(agent)
    usual = database.write_events

    def interrupted(*arguments):
        if where == "after":
            usual(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(database, "write_events", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.tell(held[0], 1.0)
    assert state(agent) == before  # nobody had counted it yet
    agent.expire(agent.ask())
    after = state(agent)
    agent.close()
    with kb.Agent.open(tmp_path / "journal") as again:
        assert state(again) == after


def test_a_closed_journal_can_be_read_and_not_written(tmp_path):
    agent, held = played(tmp_path / "journal")
    before = state(agent)
    agent.close()
    agent.close()
    assert state(agent) == before
    for call in (lambda: agent.ask(), lambda: agent.tell(held[0], 1.0), lambda: agent.history):
        with pytest.raises(JournalError, match=r"is closed \(open it again with Agent.open\)"):
            call()


def test_network_file_systems_are_refused(tmp_path):
    mounts = (
        "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "44 21 0:50 / /mnt/our\\040files rw - nfs4 server:/files rw\n"
        "45 44 0:51 / /mnt/our\\040files/local rw - ext4 /dev/vdb rw\n"
    )
    for path in ("/mnt/our files/local/x", "/mnt/our files2", "/mnt/other"):
        places.refuse_network(Path(path), mounts)
    with pytest.raises(JournalError, match=r"network file system \(nfs4\).*take a local disk"):
        places.refuse_network(Path("/mnt/our files/x"), mounts)
    places.refuse_network(tmp_path)


def test_a_journal_is_what_the_documentation_says(tmp_path):
    with kb.Agent.open(tmp_path / "journal", kb.UCB(arms=2), arms=["a", "b"]) as agent:
        agent.tell(agent.ask(available=[0]), 1.5)
        agent.ask(available=[1])
    path = tmp_path / "journal" / "journal.sqlite"
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with sqlite3.connect(path) as db:
        rows = db.execute('SELECT round, arm, "index", reward, state FROM history').fetchall()
        assert rows == [(1, 0, float("inf"), 1.5, "rewarded"), (2, 1, float("inf"), None, "open")]
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_time_of_day_may_go_back(tmp_path, monkeypatch):
    agent = kb.Agent.open(tmp_path / "journal", kb.UCB(arms=2))
    agent.ask()
    last = agent.history["chosen"][-1]
    monkeypatch.setattr("time.time", lambda: 1000.0)
    agent.ask()
    assert agent.history["chosen"][-1] >= last
    agent.close()


def test_in_another_process(tmp_path, fresh):
    agent, _ = played(tmp_path / "journal")
    script = (
        "import sys, kalmanbandits as kb\n"
        "with kb.Agent.open(sys.argv[1]) as agent:\n"
        "    print(agent.ask().number, agent.rounds)\n"
    )
    number, rounds = map(int, fresh.run("-c", script, tmp_path / "journal").stdout.split())
    assert rounds == agent.rounds
    assert agent.open_tickets[-1].number == number  # which this process sees
    agent.expire(number)
    agent.close()
