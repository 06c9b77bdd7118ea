"""`simulate`: policies on one system, many runs, labelled results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kalmanbandits.errors import (
    Integers,
    InvalidArgument,
    InvalidType,
    entries,
    function,
    one_of,
    shown,
    truth,
    whole,
)
from kalmanbandits.policies.spec import Spec
from kalmanbandits.simulation.batch import Batch, Kept, KeptRuns, Labels
from kalmanbandits.simulation.cpu import available_cores, play_on_cpu
from kalmanbandits.simulation.moments import KeptMoments
from kalmanbandits.simulation.progress import Progress
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem, check_system
from kalmanbandits.systems.replay import Replay

if TYPE_CHECKING:
    import xarray

BACKENDS = ("cpu", "gpu")
PRECISIONS = ("float64", "float32")
MOST_ROUNDS = 10**12  # a day of one core
MOST_CHECKPOINTS = 10**6
KEEP = ("runs", "moments")


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
    keep: str = "runs",
) -> xarray.Dataset:
    """Let every policy play the same `runs` trajectories of `system`, `rounds` rounds each.

    Regret is against the clairvoyant, who knows the state:  R_n = Σ_t max_a c_a'z_t − c_{A_t}'z_t.

    The same seed gives bit-equal results whatever the number of `threads` or GPUs and whatever other policies
    take part. Runs have numbers: two calls for runs 0–9 and 10–19 equal one for 0–19.

    Parameters
    ----------
    system
        Where rewards come from. A table of rewards, a `Replay`, serves too: every run plays the same rows,
        and the clairvoyant takes the best cell of each.
    policies
        What plays, by label.
    rounds
        How many rounds per run; for a table at most its length, which is the default.
    runs
        How many runs.
    seed
        Of all randomness, 0 … 2⁶⁴ − 1.
    checkpoints
        After which rounds measures are kept: how many, evenly spaced, or the rounds themselves. The last
        one is always `rounds`.
    first_run
        The number of the first run; numbers end below 2⁶⁴.
    trace
        Whether to keep every choice and reward too.
    threads
        Of the CPU; by default as many as it has cores.
    progress
        `progress(done, total)` is called now and then from the calling thread, in rounds times policies. If
        it has a method `stage(text)`, that is called around compilation: see `simulation.progress.Progress`.
    backend
        `"cpu"`, or `"gpu"` for all NVIDIA GPUs of the machine: the same choices, and sums that differ by
        rounding alone.
    precision
        `"float64"`, or on the GPU `"float32"`: twice as fast, equal in distribution, not number by number.
    keep
        `"runs"`, or `"moments"`: mean, variance and covariance over runs, whose memory does not grow with
        the number of runs.

    Returns
    -------
    xarray.Dataset
        With `keep="runs"`, over policy × run × checkpoint, where `checkpoint` counts rounds done:

        * `regret`, `reward`: cumulative;
        * `pulls`: how often each arm was chosen (× arm);
        * `prediction_error`: the root mean square of the one-step errors so far, NaN for a policy that
          predicts nothing;
        * `missing`: choices of a cell that a table lacks. They add nothing to `reward`, and to `regret` as
          if the mean of the row's other cells had come;
        * with `trace`, `choice` and `received` over policy × run × round.

        With `keep="moments"`, over policy × checkpoint (`pulls`: × arm), for each of these measures
        `{measure}_mean` and `{measure}_variance` (of one run, unbiased; NaN for a single run), and for
        regret and reward `{measure}_covariance` over policy × other × checkpoint. The attribute `runs` is
        their number. `statistics.moments.Moments.from_dataset` makes intervals from it.

    Examples
    --------
    >>> from kalmanbandits.systems import rotation
    >>> from kalmanbandits.policies import UBSS, Random
    >>> system = rotation(theta=5 * np.pi / 8)
    >>> result = simulate(system, {"UBSS": UBSS(arms=2), "Random": Random(arms=2)}, rounds=1000, runs=2)
    >>> mean = (result.regret.isel(checkpoint=-1) / 1000).mean("run")
    >>> bool(mean.sel(policy="UBSS") < 0.3 * mean.sel(policy="Random"))
    True
    """
    check_backend(backend, precision, system)
    trace = truth("trace", trace)
    if progress is not None:
        function("progress", progress, "it is called with the rounds done and all of them")
    if one_of("keep", keep, KEEP) == "moments" and trace:
        raise InvalidArgument(
            'keep must be "runs" with trace=True, got "moments" (a trace is kept run by run)'
        )
    runs, first_run = whole("runs", runs, 1), whole("first_run", first_run, 0)
    if first_run + runs > 2**64:
        raise InvalidArgument(
            f"first_run must be at most 2**64 - runs, got {first_run} for {runs} runs (later runs would "
            "repeat those from 0 on)"
        )
    rounds = _check_rounds(rounds, check_source(system))
    workers = available_cores() if threads is None else whole("threads", threads, 1)
    seed, numbers = whole("seed", seed, 0), range(first_run, first_run + runs)
    points, specs = check_checkpoints(checkpoints, rounds), check_policies(policies, system.arms)
    batch = Batch(system, tuple(policies), specs, rounds, numbers, seed, points, trace)
    kept = keep_as(keep, batch)
    if backend == "gpu":
        from kalmanbandits.simulation.gpu import play_on_gpu

        play_on_gpu([(batch, kept)], precision, progress)
    else:
        play_on_cpu(batch, kept, workers, progress)
    return kept.dataset()


K = TypeVar("K", bound=Kept)
World = tuple[LinearGaussianSystem, Mapping[str, Spec], range]


def simulate_together(
    worlds: Sequence[World],
    rounds: int,
    seed: int,
    checkpoints: int | Sequence[int],
    progress: Progress | None = None,
    keep: str = "runs",
) -> list[xarray.Dataset]:
    """Many simulations at once on the GPU, which share launches.

    Parameters
    ----------
    worlds
        Each a system, its policies and its runs.
    rounds, seed, checkpoints, progress, keep
        As in `simulate`, the same for all.

    Returns
    -------
    list of xarray.Dataset
        What `simulate(..., backend="gpu")` would return for each.
    """
    kept = play_together(
        worlds, rounds, seed, checkpoints, lambda place, batch: keep_as(keep, batch), progress
    )
    labels: Labels = {}
    return [each.dataset(labels) for each in kept]


def play_together(
    worlds: Sequence[World],
    rounds: int,
    seed: int,
    checkpoints: int | Sequence[int],
    keeping: Callable[[int, Batch], K],
    progress: Progress | None = None,
) -> list[K]:
    """What `simulate_together` does before it makes datasets; `keeping(place, batch)` says what is kept."""
    from kalmanbandits.simulation.gpu import play_on_gpu

    points, pairs = check_checkpoints(checkpoints, rounds), []
    for place, (system, policies, runs) in enumerate(worlds):
        check_backend("gpu", "float64", system)
        specs = check_policies(policies, system.arms)
        batch = Batch(system, tuple(policies), specs, rounds, runs, seed, points, trace=False)
        pairs.append((batch, keeping(place, batch)))
    play_on_gpu(pairs, "float64", progress)
    return [kept for _, kept in pairs]


def keep_as(keep: str, batch: Batch) -> Kept:
    """Where the measures of a simulation go."""
    return KeptMoments(batch) if one_of("keep", keep, KEEP) == "moments" else KeptRuns(batch)


def check_backend(backend: str, precision: str, system: LinearGaussianSystem | Replay) -> None:
    """Whether `system` can be played there, and in this precision."""
    one_of("backend", backend, BACKENDS)
    one_of("precision", precision, PRECISIONS)
    if backend == "gpu":
        from kalmanbandits.simulation.gpu import check_gpu

        check_gpu(check_source(system))
    elif precision != "float64":
        raise InvalidArgument(
            f'precision must be "float64" on the CPU, got {shown(precision)} (single needs backend="gpu")'
        )


def check_source(system: object) -> LinearGaussianSystem | Replay:
    """Where rewards come from: a system, or a table of them."""
    return system if isinstance(system, Replay) else check_system(system)


def _check_rounds(rounds: int | None, system: LinearGaussianSystem | Replay) -> int:
    if not isinstance(system, Replay):
        hint = "a system can be played for any number of rounds: say how many"
        return whole("rounds", rounds, 1, hint, below=MOST_ROUNDS + 1)
    rounds = system.rounds if rounds is None else whole("rounds", rounds, 1)
    if rounds > system.rounds:
        raise InvalidArgument(
            f"rounds must be at most {system.rounds}, the length of the table, got {rounds}"
        )
    return rounds


def check_checkpoints(checkpoints: int | Sequence[int], rounds: int) -> Integers:
    """The rounds after which measures are kept, rising, the last one `rounds`."""
    if isinstance(checkpoints, (int, np.integer)):
        count = min(whole("checkpoints", checkpoints, 1), rounds)
        whole("checkpoints", count, 1, "trace=True keeps every round", below=MOST_CHECKPOINTS + 1)
        # Integer arithmetic: the same points on every machine.
        return np.array([rounds * (i + 1) // count for i in range(count)], np.int64)
    listed = entries("checkpoints", checkpoints, "be a number or a list of rounds")
    points = np.array([whole("checkpoints", point, 1, below=2**63) for point in listed], np.int64)
    if points.size == 0 or (np.diff(points) <= 0).any() or points[-1] > rounds:
        raise InvalidArgument(
            f"checkpoints must rise and end at or before rounds = {rounds}, got {shown(listed)}"
        )
    return points if points[-1] == rounds else np.append(points, rounds)


def check_policies(
    policies: object, arms: int, of: str = "the system", kind: type[Spec] = Spec
) -> tuple[Spec, ...]:
    """Policies by name, at least one, each a `kind` with so many arms, as `of` has."""
    if not isinstance(policies, Mapping) or not policies:
        raise InvalidType(
            f'policies must be a dictionary such as {{"UCB": UCB(arms={arms})}}, got {shown(policies)}'
        )
    for name, spec in policies.items():
        if not isinstance(name, str) or not isinstance(spec, kind):
            oracle = isinstance(name, str) and isinstance(spec, Spec)
            way = "an oracle needs the hidden state" if oracle else f"such as 'UCB': UCB(arms={arms})"
            raise InvalidType(
                f"policies must map names to policies, got {shown(name)}: {shown(spec)} ({way})"
            )
        if spec.arms != arms:
            raise InvalidArgument(f"policies[{name!r}] must have {arms} arms as {of} has, got {spec.arms}")
    return tuple(policies.values())
