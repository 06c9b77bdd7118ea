"""The paper's assumptions, each held against a system: as printed, and in the form that is needed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kalmanbandits.errors import Array
from kalmanbandits.systems import properties
from kalmanbandits.systems.levels import split_levels
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

_MARK = {True: "holds", False: "fails", None: "-"}
_NO_LAW = "Without a stationary distribution there is no such bound: give a start and a finite horizon."


@dataclass(frozen=True)
class Assumption:
    """One assumption: what the paper prints, what is needed, whether each holds, and the deciding figures.

    `holds_as_printed` and `holds` (the corrected form) are None where the system alone does not decide.
    """

    number: str
    name: str
    printed: str
    required: str
    holds_as_printed: bool | None
    holds: bool | None
    figures: tuple[tuple[str, float], ...]
    sentence: str


@dataclass(frozen=True)
class AssumptionReport:
    """Every assumption of the paper for one system, by its number; print it to read it.

    >>> from kalmanbandits.systems.families import rotation
    >>> report = rotation(theta=5 * np.pi / 8).check()
    >>> report.holds, report["Lemma 1"].holds_as_printed
    (True, False)
    """

    system: str
    entries: tuple[Assumption, ...]
    levels: tuple[float, ...] = ()  # of each arm, where the system has some: the rest is of the deviations

    @property
    def holds(self) -> bool:
        """Whether no assumption fails in its corrected form."""
        return all(entry.holds is not False for entry in self.entries)

    def __getitem__(self, number: str | int) -> Assumption:
        return {entry.number: entry for entry in self.entries}[str(number)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON.

        Returns
        -------
        dict
            The system, whether all holds, and a row per assumption.
        """
        rows = [asdict(entry) | {"figures": dict(entry.figures)} for entry in self.entries]
        levels = {"levels": list(self.levels)} if self.levels else {}
        return {"system": self.system, "holds": self.holds, **levels, "assumptions": rows}

    def __str__(self) -> str:
        rows = [("", "assumption", "as printed", "corrected", "figures")]
        for e in self.entries:
            figures = ", ".join(f"{name} = {value:.6g}" for name, value in e.figures)
            rows.append((e.number, e.name, _MARK[e.holds_as_printed], _MARK[e.holds], figures))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        notes = [_note(entry, widths[0]) for entry in self.entries]
        failing = [e.number for e in self.entries if e.holds is False]
        verdict = (
            f"Fails: {', '.join(failing)}." if failing else "Everything that is needed of the system holds."
        )
        rule = "-" * max(map(len, table))
        about = [self.system, *_about_levels(self.levels)]
        return "\n".join([*about, "", table[0], rule, *table[1:], "", *notes, "", verdict])


def _about_levels(levels: tuple[float, ...]) -> list[str]:
    if not levels:
        return []
    shown = ", ".join(f"{level:.5g}" for level in levels)
    text = (
        f"Its arms pay {shown} on average. What follows is about the deviations from these levels: the "
        "paper's rewards have mean zero. UBSS has no intercept: hand it rewards less a level."
    )
    return ["", *textwrap.wrap(text, 110)]


def _note(entry: Assumption, width: int) -> str:
    same = entry.printed == entry.required
    form = f"Needed: {entry.required}." if same else f"Printed: {entry.printed}. Needed: {entry.required}."
    indent = " " * (width + 2)
    note = textwrap.fill(f"{form} {entry.sentence}", 110, initial_indent=indent, subsequent_indent=indent)
    return entry.number + note[len(entry.number) :]


def check(system: LinearGaussianSystem) -> AssumptionReport:
    """Hold every assumption of the paper, and Lemma 1, against a system.

    Levels, which a fitted system carries in a constant state, are set apart first: the assumptions are about
    the deviations from them.

    Reference: Assumptions 1 to 6 and Lemma 1.

    Parameters
    ----------
    system : LinearGaussianSystem
        The system, with k arms and a state of d dimensions.

    Returns
    -------
    AssumptionReport
        Each assumption by its number: holds or not, with the figure that decides.

    Examples
    --------
    >>> from kalmanbandits.systems.families import random_walk
    >>> [entry.number for entry in check(random_walk(arms=2)).entries if entry.holds is False]
    ['1', '3', '4', '6', 'Lemma 1']
    """
    parts = split_levels(system)
    inner = system if parts is None else parts.deviations
    rows: tuple[Callable[[LinearGaussianSystem], Assumption], ...] = (
        _stability,
        _unknown,
        _controllable_detectable,
        _initial_state,
        _predictor_norm,
        _reward_bound,
        _dominance,
    )
    levels = () if parts is None else tuple(parts.levels.tolist())
    return AssumptionReport(repr(system), tuple(row(inner) for row in rows), levels)


def _stability(system: LinearGaussianSystem) -> Assumption:
    radius, stationary = system.spectral_radius, system.is_stationary
    if stationary:
        sentence = "The state forgets its past, so a stationary distribution exists."
    else:
        sentence = "There is no stationary distribution: give an initial one, and play a finite horizon."
    printed = stationary or radius <= 1 + 1e-9
    return Assumption(
        "1", "stability", "ρ(Γ) ≤ 1", "ρ(Γ) < 1", printed, stationary, (("ρ(Γ)", radius),), sentence
    )


def _unknown(system: LinearGaussianSystem) -> Assumption:
    needed = "the learner knows k, not Γ, C, Q, σ², d"
    figures = (("k", float(system.arms)), ("d", float(system.dimension)))
    sentence = "Says what a learner may use, not what the system is: nothing to decide here."
    return Assumption("2", "unknown to the learner", needed, needed, None, None, figures, sentence)


def _controllable_detectable(system: LinearGaussianSystem) -> Assumption:
    blind = [a for a, seen in enumerate(system.is_detectable) if not seen]
    driven, d = system.controllable_dimension, system.dimension
    faults = []
    if driven < d:
        faults.append(f"The process noise drives only {driven} of {d} directions of the state.")
    if blind:
        faults.append(
            f"A part of the state that does not die out is unseen by arms {', '.join(map(str, blind))}."
        )
    holds = not faults
    needed = "(Γ, Q^½) controllable, (Γ, c_a') detectable for every a"
    figures = (
        ("driven directions", float(driven)),
        ("d", float(d)),
        ("largest unseen ρ", float(system.unseen_radii.max())),
    )
    sentence = " ".join(faults) or "The noise drives every direction, and what an arm does not see dies out."
    return Assumption("3", "controllable, detectable", needed, needed, holds, holds, figures, sentence)


def _initial_state(system: LinearGaussianSystem) -> Assumption:
    printed, required = "ẑ_0 = Γẑ_0 and P_0 = P_ā", "z_0 ~ N(0, Σ)"
    m, P = system.initial_mean, system.initial_covariance
    as_printed: bool | None = None
    dominant = system.dominance.arm
    if dominant is not None:
        fixed = bool(np.allclose(system.transition @ m, m, rtol=1e-9, atol=0.0))
        as_printed = fixed and _close(P, system.steady_state_covariances[dominant])
    figures = [("tr P_0", float(np.trace(P)))]
    if system.is_stationary:
        holds = _close(P, system.stationary_covariance) and not m.any()
        figures.append(("tr Σ", float(np.trace(system.stationary_covariance))))
        start = "starts in" if holds else "does not start in"
        sentence = (
            f"The state {start} its stationary distribution N(0, Σ); P_ā is the covariance of an error."
        )
    else:
        holds = False
        sentence = "There is no stationary distribution to start in; the given start is used as it is."
    return Assumption("4", "initial state", printed, required, as_printed, holds, tuple(figures), sentence)


def _predictor_norm(system: LinearGaussianSystem) -> Assumption:
    printed, required = "‖G_{a|𝐜}‖ ≤ B_G with P̄ = P_ā", "‖G_{a|𝐜}‖ ≤ B_G with P̄ = Σ"
    as_printed: bool | None = None
    holds: bool | None = None
    figures: tuple[tuple[str, float], ...] = ()
    sentence = _NO_LAW
    if system.dominance.arm is not None:
        as_printed = True
        largest = _largest_coefficient(system, system.steady_state_covariances[system.dominance.arm])
        figures += (("max |G|, s = 1, P_ā", largest),)
    if system.is_stationary:
        holds = True
        largest = _largest_coefficient(system, system.common_bound)
        figures += (("max |G|, s = 1, Σ", largest),)
        sentence = f"A finite bound exists; at window 1 the learner's B_G must be at least {largest:.6g}."
    return Assumption("5", "bound B_G", printed, required, as_printed, holds, figures, sentence)


def _reward_bound(system: LinearGaussianSystem) -> Assumption:
    printed = "√tr Z_t ≤ B_R and c_a'P_ā c_a + σ ≤ B_R²"
    required = "√tr Z_t ≤ B_R and c_a'Σc_a + σ² ≤ B_R²"
    if not system.is_stationary:
        # Noise that drives a mode with |λ| ≥ 1 makes it grow for ever; without noise it need not.
        bounded = False if system.is_controllable else None
        sentence = (
            "Without a stationary distribution no B_R is known for every round; over n rounds there is one."
        )
        return Assumption("6", "bound B_R", printed, required, bounded, bounded, (), sentence)
    norm = float(np.sqrt(_largest_second_moment(system)))
    variance = float(system.reward_variances.max())
    # Some P̄ is always finite here; which one is printed only exists where an arm dominates.
    as_printed = None if system.dominance.arm is None else True
    figures = (("√tr Σ", float(np.sqrt(np.trace(system.stationary_covariance)))), ("max c'Σc + σ²", variance))
    sentence = (
        f"A finite bound exists; the learner's B_R must be at least {max(norm, np.sqrt(variance)):.6g}."
    )
    return Assumption("6", "bound B_R", printed, required, as_printed, True, figures, sentence)


def _dominance(system: LinearGaussianSystem) -> Assumption:
    printed, required = "some ā has P_ā ⪰ P_a for all a, and P_ā ⪰ P_t", "Σ ⪰ g(Σ, c) for every c"
    arm, eigenvalues = system.dominance
    figures: list[tuple[str, float]] = []
    as_printed = False
    if not np.isfinite(eigenvalues).all():
        sentence = "Some arm's filter has no steady state, so there is no P_ā."
    elif arm is None:
        margin = float(eigenvalues.min(axis=(1, 2)).max())
        figures.append(("best min λ(P_ā−P_a)", margin))
        sentence = "No arm dominates: the order of matrices is partial."
    else:
        P = system.steady_state_covariances[arm]
        excess = max(_largest_excess(system, c, P) for c in system.actions)
        as_printed = excess <= 1e-9
        sentence = f"Arm {arm} dominates" + (
            "." if as_printed else ", yet one round of another arm from P_ā already rises above it."
        )
    if system.is_stationary:
        Γ, Q, s2, P = system.transition, system.process_noise, system.noise_variance, system.common_bound
        loops = [properties.closed_loop(Γ, c, Q, s2, P)[0] for c in system.actions]
        radius = max(map(properties.spectral_radius, loops))
        figures.append(("max ρ(Γ−ΓL_ac_a')", radius))
        sentence += " With P̄ = Σ every gain is stable, whatever the order of the arms."
    else:
        sentence += " " + _NO_LAW
    return Assumption(
        "Lemma 1",
        "common bound",
        printed,
        required,
        as_printed,
        system.is_stationary,
        tuple(figures),
        sentence,
    )


def _close(P: Array, other: Array) -> bool:
    sd = np.sqrt(np.diag(other))
    return bool((np.abs(P - other) <= 1e-9 * np.outer(sd, sd)).all())


def _largest_coefficient(system: LinearGaussianSystem, P: Array) -> float:
    """max |c_a'ΓL_b|, L_b = P c_b / (c_b'P c_b + σ²): the window predictors for s = 1."""
    C = system.actions
    innovation = np.einsum("ai,ij,aj->a", C, P, C) + system.noise_variance
    return float(np.abs(C @ system.transition @ P @ C.T / innovation).max())


def _largest_second_moment(system: LinearGaussianSystem) -> float:
    """max_t tr Z_t, Z_{t+1} = ΓZ_tΓ' + Q: that of Σ, unless the given start lies above it."""
    limit = float(np.trace(system.stationary_covariance))
    Z = system.initial_covariance + np.outer(system.initial_mean, system.initial_mean)
    if _close(Z, system.stationary_covariance):
        return limit
    largest = limit
    for _ in range(10_000):
        largest = max(largest, float(np.trace(Z)))
        Z = system.transition @ Z @ system.transition.T + system.process_noise
    return largest


def _largest_excess(system: LinearGaussianSystem, action: Array, P: Array) -> float:
    """The largest eigenvalue of g(P, c) − P, in units of P."""
    after = properties.riccati_map(system.transition, action, system.process_noise, system.noise_variance, P)
    sd = np.sqrt(np.where(np.diag(P) > 0, np.diag(P), 1.0))
    return float(np.linalg.eigvalsh((after - P) / sd / sd[:, None])[-1])
