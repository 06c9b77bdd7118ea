"""Mean and covariance over runs, for results of which no single run was kept.

Two sets of runs are joined exactly (Chan, Golub, LeVeque 1983), with δ = ȳ − x̄ and n = n_x + n_y:

    mean = x̄ + δ n_y/n        Σ(z − z̄)(z − z̄)' = Σ(x − x̄)(x − x̄)' + Σ(y − ȳ)(y − ȳ)' + δδ' n_x n_y/n

Nothing is squared before the mean is taken off, so that a small variance around a large mean is not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kalmanbandits.errors import Array, InvalidArgument
from kalmanbandits.statistics.intervals import LEVEL, Interval, around, gain_around

Place = int | slice | np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class MomentsDataset(Protocol):
    """What `simulate(..., keep="moments")` returns, as far as it is read here: an `xarray.Dataset`."""

    @property
    def attrs(self) -> Mapping[str, object]:
        """With the number of `runs`."""

    def __getitem__(self, name: str) -> object: ...


@dataclass(frozen=True)
class Moments:
    """Mean and co-moments of several policies over the same runs.

    Parameters
    ----------
    runs
        How many runs.
    mean
        Means over runs, (policies, …).
    comoment
        Σ (x_i − x̄_i)(x_j − x̄_j) over runs, (policies, policies, …).

    Examples
    --------
    >>> both = Moments.of([[10.0, 20.0, 30.0], [9.0, 18.5, 29.5]])
    >>> f"{both.interval()[0]:.1f}", f"{both.paired_difference(0, 1):.2f}"
    ('20.0 [-4.8, 44.8]', '1.00 [-0.24, 2.24]')
    """

    runs: int
    mean: Array
    comoment: Array

    @classmethod
    def of(cls, samples: object) -> Moments:
        """The moments of samples (policies, runs, …)."""
        x = np.asarray(samples, dtype=np.float64)
        if x.ndim < 2 or x.shape[1] == 0:
            raise InvalidArgument(
                f"samples must have shape policies × runs, with at least one run, got {x.shape}"
            )
        mean = x.mean(axis=1)
        apart = x - mean[:, None]
        return cls(x.shape[1], mean, np.einsum("ir...,jr...->ij...", apart, apart))

    @classmethod
    def from_dataset(cls, dataset: MomentsDataset, measure: str = "regret") -> Moments:
        """The moments of `"regret"` or `"reward"` in what `simulate(..., keep="moments")` returned.

        Parameters
        ----------
        dataset
            With the variables `{measure}_mean` and `{measure}_covariance` and the attribute `runs`.
        measure
            One that is kept with its covariances.

        Returns
        -------
        Moments
            Of shapes (policies, checkpoints) and (policies, policies, checkpoints).
        """
        try:
            runs = int(str(dataset.attrs["runs"]))
            mean, covariance = dataset[f"{measure}_mean"], dataset[f"{measure}_covariance"]
        except KeyError as missing:
            raise InvalidArgument(
                f"dataset must hold the moments of {measure!r}, got one without {missing.args[0]!r} "
                '(simulate(..., keep="moments") returns them for "regret" and "reward")'
            ) from None
        return cls(runs, np.asarray(mean), np.asarray(covariance) * max(runs - 1, 1))

    def __add__(self, other: Moments) -> Moments:
        """The moments of both sets of runs together; runs must not be in both."""
        n = self.runs + other.runs
        delta = other.mean - self.mean
        apart = delta[:, None] * delta[None, :] * (self.runs * (other.runs / n))
        return Moments(n, self.mean + delta * (other.runs / n), self.comoment + other.comoment + apart)

    def divided(self, numbers: Array) -> Moments:
        """The moments of x/numbers, `numbers` broadcast against one policy's mean."""
        return Moments(self.runs, self.mean / numbers, self.comoment / numbers**2)

    @property
    def covariance(self) -> Array:
        """Unbiased covariances between policies, (policies, policies, …); NaN for a single run."""
        return self.comoment / (self.runs - 1) if self.runs > 1 else np.full_like(self.comoment, np.nan)

    @property
    def variance(self) -> Array:
        """Unbiased variance of each policy, (policies, …); NaN for a single run."""
        every = np.arange(len(self.mean))
        return np.asarray(self.covariance[every, every])

    def interval(self, level: float = LEVEL) -> Interval:
        """The mean of each policy, (policies, …), with Student's interval, as `intervals.mean` has it."""
        return around(self.mean, self._error(self.variance), self.runs, level)

    def paired_difference(self, first: Place, second: Place, level: float = LEVEL) -> Interval:
        """The mean of first − second, run by run, as `intervals.paired_difference` has it.

        Parameters
        ----------
        first, second
            Places of policies: numbers, or arrays of them that broadcast.
        level
            Of confidence.

        Returns
        -------
        Interval
            Of the shape of `first` and `second`, followed by that of one policy's mean.
        """
        return around(
            self.mean[first] - self.mean[second], self._error(self._spread(first, second)), self.runs, level
        )

    def percent_gain(self, ours: int, other: int, level: float = LEVEL) -> Interval:
        """By how many percent the mean of `ours` lies below that of `other`: see `intervals.percent_gain`.

        Parameters
        ----------
        ours, other
            Places of two policies.
        level
            Of confidence.

        Returns
        -------
        Interval
            NaN with infinite ends where the mean of `other` is not positive.
        """

        def error(ratio: Array, scale: Array) -> Array:
            return self._error(self._spread(ours, other, ratio)) / scale

        return gain_around(self.mean[ours], self.mean[other], error, self.runs, level)

    def _spread(self, i: Place, j: Place, ratio: Array | float = 1.0) -> Array:
        """The variance of x_i − ratio · x_j."""
        c = self.covariance
        # Rounding may leave a variance of zero slightly below it.
        return np.maximum(c[i, i] - 2 * ratio * c[i, j] + ratio**2 * c[j, j], 0.0)

    def _error(self, variance: Array) -> Array:
        """The standard error of a mean; infinite for a single run, as nothing is known then."""
        return np.sqrt(variance / self.runs) if self.runs > 1 else np.full_like(variance, np.inf)
