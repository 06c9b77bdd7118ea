"""UBSS written a second time: dictionaries for codes, direct solves or covariances for factors."""

from __future__ import annotations

import math

import numpy as np
from plain_units import PlainInUnits, PlainLevels, PlainUnits

from kalmanbandits.policies import UBSS, LinearThompson


class PlainUBSS:
    """Algorithm 1 with the corrections of the errata, in dictionaries and with a direct solve every round."""

    def __init__(self, spec: UBSS) -> None:
        self.spec = spec
        self.rows: dict = {}
        self.actions: list[int] = []
        self.rewards: list[float] = []

    def index(self, arm: int) -> float:
        spec, s = self.spec, self.spec.window
        key = (tuple(self.actions[-s:]), arm)
        if key not in self.rows:
            return math.inf
        Xi = np.array(self.rewards[-s:])
        X, y = map(np.array, zip(*self.rows[key], strict=True))
        V = spec.lambda_ * np.eye(s) + X.T @ X
        inverse = np.linalg.inv(V)
        N = len(y)
        e = math.sqrt(
            2 * spec.B_R**2 * math.log(math.sqrt(np.linalg.det(V) / spec.lambda_**s) / spec.delta_e)
        )
        known = math.sqrt(np.trace(np.eye(s) - spec.lambda_ * inverse))
        shrink = spec.lambda_ * math.sqrt(np.trace(inverse))
        if spec.bonus == "printed":
            b = math.sqrt(N) * spec.B_c * spec.B_R / spec.delta_b * known + shrink * spec.B_G
        elif spec.bonus == "gaussian":
            b = (
                math.sqrt(N)
                * spec.B_c
                * spec.B_R
                * math.sqrt(2 * math.log(2 * N / spec.delta_b))
                * min(1, known)
            )
            b += min(math.sqrt(spec.lambda_), shrink) * spec.B_G
        else:
            e = b = 0.0
        return float((inverse @ X.T @ y) @ Xi + (e + b) * math.sqrt(Xi @ inverse @ Xi))

    def learn(self, arm: int, reward: float) -> None:
        s = self.spec.window
        if len(self.actions) >= s:
            self.rows.setdefault((tuple(self.actions[-s:]), arm), []).append((self.rewards[-s:], reward))
        self.actions.append(arm)
        self.rewards.append(reward)


class PlainDefault(PlainInUnits):
    """The default written a second time: covariances instead of factors, dictionaries instead of codes."""

    def __init__(self, spec: UBSS | LinearThompson) -> None:
        self.spec, self.units, self.levels = spec, PlainUnits(spec.arms, 8), PlainLevels(spec.arms)
        self.models: dict = {}
        self.visits: dict = {}
        self.past: list[tuple[int, float]] = []

    def model(self, arm: int) -> dict:
        """Ĝ, V⁻¹ as of now, and the pulls of an arm after the last actions."""
        s = self.spec.window
        code = tuple(a for a, _ in self.past[-s:])
        fresh = {"G": np.zeros(s), "P": np.eye(s) / 0.01, "N": 0, "last": 0}
        model = self.models.setdefault((code, arm), fresh)
        old = 1 + ((self.visits.get(code, 0) - model["last"]) / 200) ** 2
        return {**model, "P": old * model["P"], "code": code, "Xi": np.array([x for _, x in self.past[-s:]])}

    def index(self, arm: int) -> tuple[float, float]:
        """(prediction, √ of its variance in σ̂²), both in the rewards' unit; NaN if not tried."""
        level, unit = self.units.level, self.units.unit
        if self.levels.plain:
            return self.levels.mean[arm], unit * self.levels.sigma * math.sqrt(self.levels.variance(arm))
        m = self.model(arm)
        if m["N"] == 0:
            return math.nan, math.inf
        return level + unit * m["G"] @ m["Xi"], unit * self.levels.sigma * math.sqrt(
            m["Xi"] @ m["P"] @ m["Xi"]
        )

    def learn_round(self, arm: int | None, x: float) -> None:
        if arm is None:
            self.past = []
            return
        if len(self.past) >= self.spec.window:
            models, levels = [self.model(a) for a in range(self.spec.arms)], self.levels
            sums = np.array([m["G"].sum() for m in models])
            predictions = np.array([m["G"] @ m["Xi"] for m in models])
            m, h = models[arm], 1 - sums[arm]
            doubt = 1 + h**2 * levels.weight / (levels.n * levels.squares)
            S = doubt + m["Xi"] @ m["P"] @ m["Xi"]
            K = m["P"] @ m["Xi"] / S
            error = x - predictions[arm]
            if m["N"] > 0:
                levels.compare(arm, x, error / math.sqrt(S), self.units)
            self.visits[m["code"]] = self.visits.get(m["code"], 0) + 1
            self.models[m["code"], arm] = {
                "G": m["G"] + K * error,
                "P": m["P"] - np.outer(K, K) * S,
                "N": m["N"] + 1,
                "last": self.visits[m["code"]],
            }
            levels.recentre(predictions, sums, arm, x, self.units)
        self.levels.note(arm, x, self.units)
        self.past.append((arm, x))
