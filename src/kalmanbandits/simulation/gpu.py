"""The batch engine on NVIDIA GPUs: a GPU thread for every run of every policy and system.

Randomness is addressed, so that a thread draws the trajectory of its run itself, in registers: the policies
of a run meet the same rounds without sharing anything, and many systems fill a GPU as well as many runs.

The runs are cut into shares. Each GPU has a few lanes, threads of the host with a stream of their own, which
take one share after the other: while one lane copies the measures of its share to the host, the launches of
others keep the GPU busy. Runs are independent and results go to the places of their runs, so that nothing
depends on the number of lanes or GPUs. Figures: docs/gpu.md.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.numba_internals.interfaces import load_gpu_compiler
from kalmanbandits.policies.learned_kalman import LearnedKalman
from kalmanbandits.policies.verbs import KERNELS, never
from kalmanbandits.pool import run_threads
from kalmanbandits.simulation.batch import Batch, Kept
from kalmanbandits.simulation.cpu import available_cores
from kalmanbandits.simulation.gpu_buffers import kept_bytes
from kalmanbandits.simulation.gpu_compiler import INSTALLED, SIMULATED, cuda
from kalmanbandits.simulation.gpu_fits import load_jobs
from kalmanbandits.simulation.gpu_groups import Group, group_policies
from kalmanbandits.simulation.gpu_kernel import compiled_finish, load
from kalmanbandits.simulation.gpu_lane import Lane, Segment, Uploaded
from kalmanbandits.simulation.gpu_learned import check_learned
from kalmanbandits.simulation.moments import PANEL
from kalmanbandits.simulation.progress import Progress, announce
from kalmanbandits.systems.linear_gaussian import LinearGaussianSystem

LANES = 4  # of each GPU
WRITERS = 12  # threads per GPU that write results to the memory of the host, where it has so many cores
MOST = 1 << 15  # runs of a share: together the lanes fill a GPU, and the last one is copied soon
# Of `LearnedKalman`: the runs of a lane wait for each other, and other lanes use the GPU meanwhile.
LEARNED_LANES, LEARNED_MOST = 8, 28 << 10
ROOM = 0.8  # the share of a GPU's free memory that may be taken
MOST_ROUNDS = 2**31 - 1
WARP = 32  # threads that go in step: a launch of fewer makes no sense


def check_gpu(system: object) -> None:
    """Whether there is a GPU, and something for it to play."""
    if not isinstance(system, LinearGaussianSystem):
        raise InvalidArgument(
            f'system must be a LinearGaussianSystem for backend="gpu", got {type(system).__name__} '
            '(a table has one trajectory, too little for a GPU: use backend="cpu")'
        )
    fault = _fault()
    if fault:
        raise InvalidArgument(
            f'backend must be "cpu" here, got "gpu": {fault} (it needs an NVIDIA GPU with its driver, '
            'and the extra [gpu]: pip install ".[gpu]" in a checkout)'
        )


@functools.cache
def _fault() -> str:
    """Why no GPU can be used, or nothing."""
    if SIMULATED:
        return ""
    if not INSTALLED:
        return "numba-cuda is not installed"
    if not cuda.is_available():
        return "no NVIDIA GPU or no driver was found"
    try:
        load_gpu_compiler()
    except Exception as error:
        return f"no CUDA compiler, numba-cuda[cu12] or numba-cuda[cu13] by the driver's version: {error}"
    return ""


def devices() -> list[int]:
    """The GPUs that play: all whose compute capability is that of the first, so that bits cannot differ."""
    capabilities = [gpu.compute_capability for gpu in cuda.gpus]
    return [place for place, found in enumerate(capabilities) if found == capabilities[0]]


def play_on_gpu(
    pairs: Sequence[tuple[Batch, Kept]], precision: str, progress: Progress | None = None
) -> None:
    """Play simulations of equal rounds and checkpoints; policies that share a kernel share launches.

    Parameters
    ----------
    pairs
        What to play, and where the measures of each go.
    precision
        `"float64"` or `"float32"`.
    progress
        Called about ten times per second from this thread. A Ctrl-C, or an error raised there, stops the
        lanes within a launch.
    """
    for batch, _ in pairs:
        _check_kernels(batch, precision)
    groups = group_policies([batch for batch, _ in pairs], precision)
    gpus = devices()
    kernels = [compiled_finish(precision), *(group.compiled(progress) for group in groups)]
    uploaded = {}
    for place in gpus:
        with cuda.gpus[place]:
            for kernel in kernels:
                load(kernel)
            for group in groups:
                if group.learned:
                    load_jobs(group.kind)
            uploaded[place] = Uploaded.of(groups)
    announce(progress, "playing")
    per_gpu, most = _lanes(pairs, groups, gpus)
    shares: queue.SimpleQueue[list[Segment]] = queue.SimpleQueue()
    for share in cut(pairs, most):
        shares.put(share)
    places: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in gpus * per_gpu:
        places.put(place)
    lanes: list[Lane] = []
    stop, total = threading.Event(), sum(batch.total for batch, _ in pairs)

    def work() -> None:
        place = places.get_nowait()
        with cuda.gpus[place]:
            lane = Lane(groups, uploaded[place], most, writers, stop)
            lanes.append(lane)
            with contextlib.suppress(queue.Empty):
                while not stop.is_set():
                    lane.play(shares.get_nowait())
            lane.buffer.give_back()

    def watch() -> None:
        if progress is not None:
            progress(sum(lane.done for lane in lanes), total)

    many = min(WRITERS * len(gpus), available_cores())
    with warnings.catch_warnings(), ThreadPoolExecutor(many) as writers:
        warnings.filterwarnings("ignore", message=".*Grid size")  # of one lane: it is not alone on the GPU
        run_threads(work, min(places.qsize(), shares.qsize()), stop, watch)
    watch()


def cut(pairs: Sequence[tuple[Batch, Kept]], most: int) -> Iterator[list[Segment]]:
    """Shares of at most `most` runs, each some runs of one simulation or of several."""
    share: list[Segment] = []
    room = most
    for batch, kept in pairs:
        begin = 0
        while begin < len(batch.runs):
            end = min(begin + room, len(batch.runs))
            share.append(Segment(batch, kept, begin, end))
            room -= end - begin
            begin = end
            if room == 0:
                yield share
                share, room = [], most
    if share:
        yield share


def _lanes(pairs: Sequence[tuple[Batch, Kept]], groups: Sequence[Group], gpus: list[int]) -> tuple[int, int]:
    """How many lanes each GPU has, and how many runs make a share."""
    free = min(_free_memory(place) + kept_bytes(place) for place in gpus)
    largest = max(groups, key=lambda group: group.bytes_per_run)
    learned = any(group.learned for group in groups)
    many, most = (LEARNED_LANES, LEARNED_MOST) if learned else (LANES, MOST)
    for lanes in (many, 1):
        fit = int((ROOM * free / lanes - largest.bytes_per_lane) / largest.bytes_per_run)
        if fit >= WARP:
            break
    else:
        raise InvalidArgument(
            f"policies[{largest.name!r}] is too large for the GPU: its memory takes "
            f"{largest.bytes_per_run / 2**20:,.0f} MiB per run, and {fit} runs fit at once "
            '(use backend="cpu")'
        )
    runs = sum(len(batch.runs) for batch, _ in pairs)
    most, together = min(most, fit, *(kept.most for _, kept in pairs)), lanes * len(gpus)
    even = -(-runs // (together * -(-runs // (together * most))))  # as many shares for each lane
    whole_panels = -(-even // PANEL) * PANEL  # of moments: then each is played by one lane
    return lanes, min(most, whole_panels)


def _free_memory(place: int) -> int:
    """The free memory of a GPU in bytes."""
    if SIMULATED:
        return 1 << 30
    with cuda.gpus[place]:
        return int(cuda.current_context().get_memory_info()[0])


def _check_kernels(batch: Batch, precision: str) -> None:
    if batch.rounds > MOST_ROUNDS:
        raise InvalidArgument(
            f"rounds must be at most {MOST_ROUNDS} on the GPU, which counts in 32 bits, got {batch.rounds} "
            '(use backend="cpu")'
        )
    for name, spec in zip(batch.names, batch.specs, strict=True):
        if isinstance(spec, LearnedKalman):
            check_learned(spec, name, precision)
        elif KERNELS[spec.kernel].due is not never:
            raise InvalidArgument(
                f"policies[{name!r}] cannot run on the GPU, got {type(spec).__name__}: part of its work "
                'is too long for a kernel and done in Python (use backend="cpu")'
            )
