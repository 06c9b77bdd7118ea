"""`simulate`: policies on one system, many runs, labelled results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kalmanbandits.errors import InvalidArgument, InvalidType, one_of, whole
from kalmanbandits.policies.spec import Spec, check_system
from kalmanbandits.simulation.cpu import Batch, Progress, available_cores
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem
from kalmanbandits.systems.replay import Replay

if TYPE_CHECKING:
    import xarray

BACKENDS = ("cpu", "gpu")
PRECISIONS = ("float64", "float32")
MEANINGS = {
    "regret": "regret against the clairvoyant, summed",
    "reward": "reward, summed",
    "pulls": "how often each arm was chosen",
    "prediction_error": "root-mean-square error of one-step predictions",
    "missing": "rewards that never came",
    "choice": "arm chosen",
    "received": "reward received",
    "checkpoint": "rounds played",
    "round": "round",
    "column": "column of the table",
}


def simulate(
    system: LinearGaussianSystem | Replay,
    policies: Mapping[str, Spec],
    rounds: int | None = None,
    runs: int = 1,
    seed: int = 0,
    *,
    checkpoints: int | Sequence[int] = 100,
    first_run: int = 0,
    trace: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    backend: str = "cpu",
    precision: str = "float64",
) -> xarray.Dataset:
    """Let every policy play the same `runs` trajectories of `system`, `rounds` rounds each.

    Regret is against the clairvoyant, who knows the state:  R_n = Σ_t max_a c_a'z_t − c_{A_t}'z_t. `system`
    may be a table of rewards instead, a `Replay`: then `rounds` is by default its length, every run plays the
    same rows, and the clairvoyant takes the best cell of each.

    Returns an xarray dataset over policy × run × checkpoint. `checkpoint` counts rounds done, the last is
    `rounds`. `regret` and `reward` are cumulative, `pulls` counts by arm (one dimension more), and
    `prediction_error` is the root-mean-square one-step error so far (NaN for a policy that predicts
    nothing). `missing` counts the rewards that never came: choices of a cell that a table lacks. They add
    nothing to `reward`, and to `regret` as if the mean of the row's other cells had come. With
    `trace=True` also `choice` and `received` over policy × run × round.

    `checkpoints` is how many, evenly spaced, or the rounds themselves. Runs are numbered from `first_run`:
    two calls for runs 0–9 and 10–19 equal one for 0–19. The same seed gives bit-equal results whatever the
    number of `threads` and whatever other policies take part. `progress(done, total)` is called now and then
    from the calling thread, in rounds times policies.

    `backend="gpu"` plays on an NVIDIA card: the same choices, and sums that differ by rounding alone. There
    `precision="float32"` is twice as fast; its results are equal in law, not number by number. `threads` are
    the CPU's.

    >>> from kalmanbandits.systems import rotation
    >>> from kalmanbandits.policies import UBSS, Random
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> result = simulate(system, {"UBSS": UBSS(arms=2), "Random": Random(arms=2)}, rounds=1000, runs=2)
    >>> mean = (result.regret.isel(checkpoint=-1) / 1000).mean("run")
    >>> bool(mean.sel(policy="UBSS") < 0.3 * mean.sel(policy="Random"))
    True
    """
    check_backend(backend, precision, system)
    specs = _check_policies(policies, check_source(system))
    rounds, runs = _check_rounds(rounds, system), whole("runs", runs, 1)
    first_run = whole("first_run", first_run, 0)
    points = check_checkpoints(checkpoints, rounds)
    workers = available_cores() if threads is None else whole("threads", threads, 1)
    numbers = range(first_run, first_run + runs)
    what = (system, specs, rounds, numbers, whole("seed", seed, 0), points, trace)
    if backend == "gpu":
        from kalmanbandits.simulation.gpu import CardBatch

        batch: Batch = CardBatch(*what, names=list(policies), precision=precision)
    else:
        batch = Batch(*what)
    batch.run(workers, progress)
    return _dataset(batch, list(policies))


World = tuple[LinearGaussianSystem, Mapping[str, Spec], range]


def simulate_together(
    worlds: Sequence[World],
    rounds: int,
    seed: int,
    checkpoints: int | Sequence[int],
    progress: Progress | None = None,
) -> list[xarray.Dataset]:
    """Many simulations at once on the card, each a system, its policies and its runs: all share launches."""
    from kalmanbandits.simulation.gpu import CardBatch, play_together

    points, batches = check_checkpoints(checkpoints, rounds), []
    for system, policies, runs in worlds:
        check_backend("gpu", "float64", system)
        what = (system, _check_policies(policies, system), rounds, runs, seed, points, False)
        batches.append(CardBatch(*what, names=list(policies), precision="float64"))
    play_together(batches, progress)
    return [_dataset(batch, list(batch.names)) for batch in batches]


def check_backend(backend: str, precision: str, system: LinearGaussianSystem | Replay) -> None:
    """Whether `system` can be played there, and in this precision."""
    one_of("backend", backend, BACKENDS)
    one_of("precision", precision, PRECISIONS)
    if backend == "gpu":
        from kalmanbandits.simulation.gpu import check_card

        check_card(check_source(system))
    elif precision != "float64":
        raise InvalidArgument(
            f'precision must be "float64" on the CPU, got {precision!r} (single needs backend="gpu")'
        )


def check_source(system: Any) -> LinearGaussianSystem | Replay:
    """Where rewards come from: a system, or a table of them."""
    return system if isinstance(system, Replay) else check_system(system)


def _check_rounds(rounds: int | None, system: LinearGaussianSystem | Replay) -> int:
    if not isinstance(system, Replay):
        return whole("rounds", rounds, 1, "a system can be played for any number of rounds: say how many")
    rounds = system.rounds if rounds is None else whole("rounds", rounds, 1)
    if rounds > system.rounds:
        raise InvalidArgument(
            f"rounds must be at most {system.rounds}, the length of the table, got {rounds}"
        )
    return rounds


def check_checkpoints(checkpoints: int | Sequence[int], rounds: int) -> Any:
    """The rounds after which measures are kept, rising, the last one `rounds`."""
    if isinstance(checkpoints, (int, np.integer)):
        count = min(whole("checkpoints", checkpoints, 1), rounds)
        # Integer arithmetic: the same points on every machine.
        return np.array([rounds * (i + 1) // count for i in range(count)], np.int64)
    points = np.array([whole("checkpoints", point, 1) for point in checkpoints], np.int64)
    if points.size == 0 or (np.diff(points) <= 0).any() or points[-1] > rounds:
        raise InvalidArgument(
            f"checkpoints must rise and end at or before rounds = {rounds}, got {list(checkpoints)!r}"
        )
    return points if points[-1] == rounds else np.append(points, rounds)


def _check_policies(policies: Mapping[str, Spec], system: LinearGaussianSystem | Replay) -> list[Spec]:
    if not isinstance(policies, Mapping) or not policies:
        raise InvalidType(f'policies must be a dictionary such as {{"UCB": UCB(arms=2)}}, got {policies!r}')
    for name, spec in policies.items():
        if not isinstance(name, str) or not isinstance(spec, Spec):
            raise InvalidType(f"policies must map names to policies, got {name!r}: {spec!r}")
        if spec.arms != system.arms:
            raise InvalidArgument(
                f"policies[{name!r}] must have {system.arms} arms as the system has, got {spec.arms}"
            )
    return list(policies.values())


def _dataset(batch: Batch, names: list[str]) -> xarray.Dataset:
    import xarray

    grid = ("policy", "run", "checkpoint")
    squares, predicted = batch.sums[..., 2], batch.sums[..., 3]
    error = np.full(squares.shape, np.nan)
    np.divide(squares, predicted, out=error, where=predicted > 0)
    data: dict[str, Any] = {
        "regret": (grid, batch.sums[..., 0]),
        "reward": (grid, batch.sums[..., 1]),
        "pulls": ((*grid, "arm"), batch.pulls),
        "prediction_error": (grid, np.sqrt(error)),
        "missing": (grid, batch.sums[..., 4].astype(np.int64)),
    }
    coordinates: dict[str, Any] = {
        "policy": names,
        "run": list(batch.runs),
        "checkpoint": batch.checkpoints,
        "arm": np.arange(batch.system.arms),
    }
    if batch.trace:
        coordinates["round"] = np.arange(1, batch.rounds + 1)
        data["choice"] = (("policy", "run", "round"), batch.choices)
        data["received"] = (("policy", "run", "round"), batch.rewards)
    if isinstance(batch.system, Replay):
        coordinates["column"] = ("arm", list(batch.system.names))
    attributes = {"seed": batch.seed, "rounds": batch.rounds}
    dataset = xarray.Dataset(data, coords=coordinates, attrs=attributes)
    for name, meaning in MEANINGS.items():  # what a notebook shows beside the numbers, and writes on axes
        if name in dataset.variables:
            dataset[name].attrs["long_name"] = meaning
    return dataset
