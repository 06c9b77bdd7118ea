import dataclasses
import json

import numpy as np
import pytest
from drawn_systems import NICE, systems
from hypothesis import given, settings

from kalmanbandits.systems import LinearGaussianSystem, decoupled, random_walk, rotation

NUMBERS = ["1", "2", "3", "4", "5", "6", "Lemma 1"]


def figures(entry):
    return dict(entry.figures)


def test_the_papers_system():
    report = rotation(theta=5 * np.pi / 8).check()
    assert [entry.number for entry in report.entries] == NUMBERS
    assert report.holds
    assert [entry.holds for entry in report.entries] == [True, None, True, True, True, True, True]
    assert [e.holds_as_printed for e in report.entries] == [True, None, True, None, None, None, False]
    assert figures(report[1])["ρ(Γ)"] == pytest.approx(0.9)
    assert figures(report[4])["tr Σ"] == pytest.approx(548.8, abs=0.05)
    assert figures(report[5])["max |G|, s = 1, Σ"] == pytest.approx(0.917, abs=5e-4)
    assert figures(report[6])["√tr Σ"] == pytest.approx(23.43, abs=5e-3)
    assert figures(report[6])["max c'Σc + σ²"] == pytest.approx(26_916, abs=0.5)
    assert figures(report["Lemma 1"])["best min λ(P_ā−P_a)"] == pytest.approx(-6.53, abs=5e-3)


def test_a_random_walk_fails_and_says_why():
    report = random_walk(arms=2).check()
    assert not report.holds
    assert [e.number for e in report.entries if e.holds is False] == ["1", "3", "4", "6", "Lemma 1"]
    assert report[1].holds_as_printed
    assert "finite horizon" in report[1].sentence
    assert "unseen by arms 0, 1" in report[3].sentence
    assert "Fails: 1, 3, 4, 6, Lemma 1." in str(report)


def test_a_constant_state_needs_no_bound_to_grow():
    report = random_walk(arms=1, step_variance=0.0).check()
    assert report[6].holds is None
    assert "drives only 0 of 1" in report[3].sentence


def test_a_growing_state_fails_as_printed_too():
    report = LinearGaussianSystem([[1.1]], [[1.0]], [[1.0]], 1.0, initial_covariance=[[1.0]]).check()
    assert report[1].holds_as_printed is False
    assert report[3].holds  # it is seen, so the filter follows it
    assert report["Lemma 1"].holds is False


def test_a_start_elsewhere_is_noticed_and_counts_in_the_bound():
    system = dataclasses.replace(decoupled(arms=2), initial_mean=[100.0, 0.0])
    report = system.check()
    assert report[4].holds is False
    assert not report.holds
    assert "at least 100.0" in report[6].sentence


def test_the_printed_start_is_recognised():
    system = LinearGaussianSystem([[0.9]], [[1.0], [2.0]], [[1.0]], 1.0)
    P = system.steady_state_covariances[system.dominance.arm]
    report = dataclasses.replace(system, initial_covariance=P).check()
    assert report[4].holds_as_printed
    assert report[4].holds is False
    assert system.check()[4].holds_as_printed is False


def test_one_scalar_state_has_a_dominating_arm():
    report = LinearGaussianSystem([[0.9]], [[1.0], [2.0]], [[1.0]], 1.0).check()
    assert report["Lemma 1"].holds_as_printed
    assert "Arm 0 dominates." in report["Lemma 1"].sentence
    assert "max |G|, s = 1, P_ā" in figures(report[5])


def test_the_table_is_aligned():
    lines = str(rotation(theta=1.0).check()).splitlines()
    head = lines[2]
    column = head.index("as printed"), head.index("corrected"), head.index("figures")
    for line in lines[4:11]:
        assert all(line[start - 1] == " " and line[start] != " " for start in column)
    assert [line.split("  ")[0] for line in lines[4:11]] == NUMBERS
    assert max(map(len, lines)) <= 125
    assert any("Printed: ρ(Γ) ≤ 1. Needed: ρ(Γ) < 1." in line for line in lines)


@settings(**NICE)
@given(systems())
def test_every_stationary_system_gets_a_plain_report(system):
    report = system.check()
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["holds"] == report.holds
    assert [row["number"] for row in document["assumptions"]] == NUMBERS
    assert report[1].holds
    assert report[4].holds
    assert report["Lemma 1"].holds
    assert figures(report["Lemma 1"])["max ρ(Γ−ΓL_ac_a')"] < 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.system = ""
