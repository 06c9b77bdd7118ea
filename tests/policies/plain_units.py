"""Standard units, arm levels and the common level written a second time: lists, means, and nothing recursive
that can be summed instead."""

from __future__ import annotations

import math

import numpy as np


class PlainUnits:
    """`standard_units`: gives the rounds to learn from, as (arm or None, x)."""

    def __init__(self, arms: int, opening: int, scale: float | None = None) -> None:
        self.opening, self.scale = opening, scale
        self.early: list[tuple[int | None, float]] = []
        self.opened = False
        self.level, self.unit, self.count = 0.0, scale or 0.0, 0.0
        self.refused = np.zeros(arms)

    def take(self, arm: int | None, reward: float = 0.0) -> list[tuple[int | None, float]]:
        if self.opened:
            return [self._standard(arm, reward)]
        self.early.append((arm, reward))
        if len(self.early) < self.opening:
            return []
        early, self.early = self.early, []
        if self.scale is None:
            seen = [(i, a, r) for i, (a, r) in enumerate(early) if a is not None]
            odd: tuple[float, int, int] | None = None
            for i, a, r in seen:
                others = [s for j, _, s in seen if j != i]
                if len(others) >= 2 and abs(r - np.mean(others)) > 6 * np.std(others):
                    far = abs(r - np.mean(others))
                    odd = max(odd or (0.0, 0, 0), (far, i, a))
            if odd is not None and (odd[0] > 4 * self.refused).all():
                self.refused[odd[2]] = odd[0]
                early[odd[1]] = (None, 0.0)
            rewards = [r for a, r in early if a is not None]
            self.level, self.unit, self.count = float(np.mean(rewards)), float(np.std(rewards)), len(rewards)
            if self.unit == 0:
                return []
        self.opened = True
        return [(a, (r - self.level) / self.unit) for a, r in early]

    def _standard(self, arm: int | None, reward: float) -> tuple[int | None, float]:
        if arm is None:
            return None, 0.0
        far = reward - self.level
        x = far / self.unit
        if self.scale is not None:
            return arm, x
        if abs(x) > max(6.0, math.sqrt(self.count)) and abs(far) > 4 * self.refused[arm]:
            self.refused[arm] = abs(far)
            return None, 0.0
        self.refused[arm] /= 2
        self.count = min(self.count + 1, 10_000)
        self.unit = math.sqrt(self.unit**2 + (far**2 - self.unit**2) / self.count)
        return arm, min(max(x, -6.0), 6.0)

    def follow_mean(self, x: float) -> None:
        if self.scale is None:
            self.level += self.unit * x / self.count


class PlainInUnits:
    """A policy that learns round by round, from rewards in units that it finds first."""

    units: PlainUnits

    def learn(self, arm: int | None, reward: float = 0.0) -> None:
        for played, x in self.units.take(arm, reward):
            self.learn_round(played, x)

    def learn_round(self, arm: int | None, x: float) -> None:
        raise NotImplementedError


class PlainLevels:
    """`arm_levels` and `learning.centre`."""

    def __init__(self, arms: int) -> None:
        self.mean, self.v, self.played = np.zeros(arms), np.zeros(arms), np.zeros(arms, int)
        self.t = 0
        self.squares = self.plain_squares = self.weight = 1.0
        self.n, self.g, self.h = 8.0, 1 / arms, 1.0

    @property
    def plain(self) -> bool:
        return self.plain_squares < 1.01 * self.squares and self.weight > 1

    @property
    def sigma(self) -> float:
        return math.sqrt((self.plain_squares if self.plain else self.squares) / self.weight)

    def variance(self, arm: int) -> float:
        return float(self.v[arm] * (1 + ((self.t + 1 - self.played[arm]) / 200) ** 2))

    def compare(self, arm: int, x: float, error: float, units: PlainUnits) -> None:
        plain = (x - (self.mean[arm] - units.level) / units.unit) / math.sqrt(1 + self.variance(arm))
        most = max(1.0, 36.0 / self.weight)
        self.squares = 0.999 * self.squares + min(error**2, most * self.squares)
        self.plain_squares = 0.999 * self.plain_squares + min(plain**2, most * self.plain_squares)
        self.weight = 0.999 * self.weight + 1

    def note(self, arm: int, x: float, units: PlainUnits) -> None:
        reward, v = units.level + units.unit * x, self.variance(arm)
        self.t += 1
        K = v / (v + 1) if v else 1.0
        self.mean[arm] += K * (reward - self.mean[arm])
        self.v[arm], self.played[arm] = K, self.t

    def recentre(
        self, predictions: np.ndarray, sums: np.ndarray, arm: int, x: float, units: PlainUnits
    ) -> None:
        """Move the level; `predictions` (k) and the `sums` of their coefficients (k) are before learning."""
        k = len(sums)
        average = (x + predictions.sum() - predictions[arm]) / k
        self.n = min(self.n + 1, 10_000)
        self.g += ((1 + sums.sum() - sums[arm]) / k - self.g) / self.n
        self.h += (1 - sums[arm] - self.h) / self.n
        total = self.g * average + self.h * (x - predictions[arm])
        units.level += units.unit * total / (self.n * (self.g**2 + self.h**2 + 0.05))
