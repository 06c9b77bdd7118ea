"""The online face: order of calls, refusals, explanations, and files."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kalmanbandits as kb
from kalmanbandits import Agent, simulate
from kalmanbandits.errors import FileFormatError, InvalidArgument, InvalidType, RoundError

SYSTEM = kb.systems.rotation(theta=2.0)


def fed(spec=None, rounds=25, seed=1):
    agent = Agent(spec or kb.UBSS(arms=2), seed=seed)
    for t in range(rounds):
        agent.update(agent.select(), float(np.sin(t) * 3))
    return agent


def test_select_is_repeatable_until_the_round_is_closed():
    agent = fed()
    arm = agent.select()
    assert [agent.select() for _ in range(3)] == [arm] * 3
    assert agent.open_arm == arm
    agent.update(arm, 1.0)
    assert agent.open_arm is None
    assert agent.rounds == 26


def test_calls_out_of_order_are_refused():
    agent = fed()
    with pytest.raises(RoundError, match=r"update\(0, …\) needs an open round"):
        agent.update(0, 1.0)
    with pytest.raises(RoundError, match="skip needs an open round"):
        agent.skip()
    arm = agent.select()
    with pytest.raises(RoundError, match=f"arm must be {arm}, the one select\\(\\) gave, got {1 - arm}"):
        agent.update(1 - arm, 1.0)
    with pytest.raises(RoundError, match="which is open"):
        agent.select(available=[1 - arm])
    assert agent.rounds == 25


@given(
    reward=st.one_of(
        st.sampled_from(
            [float("nan"), float("inf"), -float("inf"), None, "1.0", [1.0], 1j, np.array([1.0, 2.0])]
        ),
        st.text(max_size=3),
        st.binary(max_size=3),
    )
)
@settings(deadline=None, max_examples=40)
def test_bad_rewards_change_nothing(reward):
    agent = fed()
    arm = agent.select()
    before = agent.memory.tobytes()
    with pytest.raises(InvalidArgument, match="reward must be"):
        agent.update(arm, reward)
    assert agent.memory.tobytes() == before
    assert agent.open_arm == arm


def test_a_reward_beyond_all_floats_is_refused():
    agent = fed()
    arm = agent.select()
    with pytest.raises(InvalidArgument, match=r"reward must be below 1\.8e308 in size"):
        agent.update(arm, 10**400)
    agent.update(arm, 1.0)


@pytest.mark.parametrize("reward", [1, np.float32(1.0), np.int64(1), np.float64(1), np.array(1.0), True])
def test_numbers_of_every_kind_are_rewards(reward):
    agent, plain = fed(), fed()
    agent.update(agent.select(), reward)
    plain.update(plain.select(), 1.0)
    assert agent.memory.tobytes() == plain.memory.tobytes()


@pytest.mark.parametrize("arm", [-1, 2, 10**9, 0.0, 1.5, "0", None, True])
def test_bad_arms_are_refused(arm):
    agent = fed()
    agent.select()
    with pytest.raises(InvalidArgument, match="arm must be"):
        agent.update(arm, 1.0)


@pytest.mark.parametrize("available", [[], [2], [-1], ["0"], [0.0], 3, [True]])
def test_bad_lists_of_arms_are_refused(available):
    agent = fed()
    with pytest.raises(InvalidArgument, match="available must"):
        agent.select(available=available)
    assert agent.open_arm is None


@pytest.mark.parametrize(
    "policy", [kb.Clairvoyant(SYSTEM), kb.FullInformation(SYSTEM), "UBSS", kb.UBSS, None]
)
def test_only_policies_play(policy):
    with pytest.raises(InvalidType, match="policy must be one that an agent can play"):
        Agent(policy)


def test_oracles_are_refused_by_name():
    with pytest.raises(InvalidType, match=r"got Clairvoyant .*`simulate` only"):
        Agent(kb.Clairvoyant(SYSTEM))
    with pytest.raises(InvalidType, match=r"got the class UCB \(make one of it, such as UCB\(arms=3\)\)"):
        Agent(kb.UCB)


def test_explanations_are_those_of_the_choice_and_print():
    agent = fed(rounds=60)
    before = agent.memory.tobytes()
    told = agent.explain()
    assert agent.memory.tobytes() == before
    assert told.choice == agent.select() == int(np.argmax(told.index))
    np.testing.assert_allclose(told.index, told.prediction + told.uncertainty)
    text = str(told)
    assert "prediction" in text
    assert text.count("\n") == 3
    assert "→" in text
    assert told.pulls.sum() == 60


def test_a_saved_agent_continues_in_another_process(tmp_path, fresh):
    path = tmp_path / "agent.kb"
    agent = fed(kb.KalmanLookahead(SYSTEM), rounds=40, seed=3)
    arm = agent.select()
    agent.save(path)
    script = (
        "import sys, kalmanbandits as kb\n"
        "agent = kb.Agent.load(sys.argv[1])\n"
        "choices = [agent.open_arm]\n"
        "agent.update(agent.open_arm, 2.5)\n"
        "for t in range(30):\n"
        "    choices.append(agent.select()); agent.update(choices[-1], float(t % 7 - 3))\n"
        "print(choices)\n"
    )
    output = fresh.run("-c", script, path)
    choices = [arm]
    agent.update(arm, 2.5)
    for t in range(30):
        choices.append(agent.select())
        agent.update(choices[-1], float(t % 7 - 3))
    assert json.loads(output.stdout) == choices


def test_the_file_is_what_the_documentation_says(tmp_path):
    path = tmp_path / "agent"
    agent = fed(kb.KalmanGreedy(SYSTEM))
    agent.save(path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
    assert header["name"] == "kalmanbandits agent"
    assert (header["seed"], header["rounds"], header["open"]) == (1, 25, -1)
    assert header["versions"]["kalmanbandits"] == kb.__version__
    assert kb.LinearGaussianSystem.from_dict(header["policy"]["system"]) == SYSTEM
    with np.load(path, allow_pickle=False) as fields:
        np.testing.assert_array_equal(fields["z"][0], agent.memory["z"])
    assert os.listdir(tmp_path) == ["agent"]  # nothing left beside it


def test_every_truncation_is_noticed(tmp_path):
    path, cut = tmp_path / "agent", tmp_path / "cut"
    fed().save(path)
    content = path.read_bytes()
    for length in [0, 1, 10, len(content) // 2, len(content) - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(FileFormatError, match="cut short, damaged, or not a saved agent"):
            Agent.load(cut)


def test_damage_and_foreign_files_are_noticed(tmp_path):
    path = tmp_path / "agent"
    fed().save(path)
    content = bytearray(path.read_bytes())
    for place in range(40, len(content) - 40, len(content) // 20):
        damaged = tmp_path / "damaged"
        damaged.write_bytes(
            bytes(content[:place]) + bytes([content[place] ^ 0xFF]) + bytes(content[place + 1 :])
        )
        try:
            loaded = Agent.load(damaged)
        except FileFormatError:
            continue
        assert loaded.memory.tobytes() == fed().memory.tobytes()  # a byte that nobody reads
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    for name in ("text", "foreign.npz"):
        with pytest.raises(FileFormatError):
            Agent.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Agent.load(tmp_path / "nothing")


def test_another_format_is_refused_by_number(tmp_path):
    path = tmp_path / "agent"
    fed().save(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "header.json":
                content = content.replace(b'"format": 1', b'"format": 99')
            new.writestr(name, content)
    with pytest.raises(FileFormatError, match="has format 99, this version reads 1"):
        Agent.load(tmp_path / "new")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "agent"
    agent = fed()
    agent.save(path)
    content = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    agent.update(agent.select(), 1.0)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        agent.save(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["agent"]


def test_agent_plays_run_0_of_its_seed():
    result = simulate(SYSTEM, {"U": kb.UBSS(arms=2, window=3)}, rounds=500, seed=11, trace=True)
    agent = Agent(kb.UBSS(arms=2, window=3), seed=11)
    for arm, reward in zip(result.choice.values[0, 0], result.received.values[0, 0], strict=True):
        assert agent.select() == arm
        agent.update(int(arm), float(reward))


def test_an_arm_below_0_is_no_arm_with_nothing_open():
    agent = fed()
    before = agent.memory.tobytes()
    with pytest.raises(InvalidArgument, match="arm must be from 0 to 1, got -1"):
        agent.update(-1, 1.0)
    assert agent.memory.tobytes() == before


def test_agents_of_one_shape_share_one_type():
    # Numba finds machine code by the type object; equal ones that are not the same cost three times the call.
    one, other = kb.UBSS(arms=2).memory(), kb.UBSS(arms=2).memory()
    assert one.dtype is other.dtype
