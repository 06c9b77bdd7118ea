"""Where the workers are: a scheduler's address, processes on this machine, or jobs of a queueing system."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kalmanbandits.cluster.jobs import check_jobs, noting_refusals
from kalmanbandits.cluster.worker_pool import MOST_KILLED
from kalmanbandits.durability import read_regular
from kalmanbandits.errors import ClusterError, InvalidArgument, InvalidType, nearest, shown

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

NEEDS = 'needs Dask (pip install ".[cluster]" in a checkout)'
ANSWER = 10.0  # seconds in which a scheduler answers
FORMS = "tcp://scheduler:8786, local:4 or slurm.yaml"
MOST_LOCAL = 1024
# Of processes on this machine: one that was lost is started again, which takes as long as it takes on a busy
# machine. After this time Dask would end it for good. (Jobs of a queueing system are asked for anew.)
RETURN = {"distributed.deploy.lost-worker-timeout": "1 hour"}
# Of schedulers and workers that are started here. Profiles would show one kernel, at some percent of a core.
SETTINGS = {
    "distributed.scheduler.allowed-failures": MOST_KILLED,
    "distributed.worker.profile.enabled": False,
}
OURS = {
    "self",
    "n_workers",
    "job_cls",
    "asynchronous",
    "loop",
}  # not for a file to say: `jobs` has the number
# The systems that dask-jobqueue knows, by the name of its class.
SYSTEMS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}


def open_cluster(where: str) -> AbstractContextManager[Client]:
    """A client of the cluster that `where` names, for a `with` block; what was started for it ends with that.

    Parameters
    ----------
    where
        `tcp://scheduler:8786`, the address of a scheduler that runs; `local:4`, four processes on this
        machine; or a YAML file with the settings of dask-jobqueue, such as

            slurm:
              jobs: 10
              cores: 8
              memory: 16GB
              walltime: "01:00:00"

    Returns
    -------
    context manager of a distributed.Client
        For `run_study(..., client=client)` and `backtest(..., client=client)`.

    Examples
    --------
    >>> open_cluster("x")
    Traceback (most recent call last):
    kalmanbandits.errors.InvalidArgument: cluster must be tcp://scheduler:8786, local:4 or slurm.yaml, got 'x'
    """
    if not isinstance(where, str):
        raise InvalidType(f"cluster must be {FORMS}, got {shown(where)}")
    check_installed()
    if "://" in where:
        return _client(_address(where))
    if match := re.fullmatch(r"local:(\d{1,7})", where):
        workers = int(match[1])
        if not 1 <= workers <= MOST_LOCAL:
            raise InvalidArgument(f"cluster must be local:1 … local:{MOST_LOCAL}, got {where}")
        return _started(lambda: _local(workers), RETURN)
    if where.endswith((".yaml", ".yml")):
        return _started(lambda: _queued(Path(where)))
    raise InvalidArgument(f"cluster must be {FORMS}, got {shown(where)}")


def _address(where: str) -> str:
    """The address of a scheduler, whole: Dask would log a traceback for half of one when the process ends."""
    protocols = ["tcp", "tls", "ws", "wss"]
    if any(importlib.util.find_spec(name) for name in ("ucp", "distributed_ucxx")):
        protocols.append("ucx")
    found = re.fullmatch(r"([a-z0-9+]+)://(\[[0-9a-fA-F:.%]+\]|[^\s/:@\[\]]+):(\d{1,5})/?", where)
    if found is None or found[1] not in protocols or not 1 <= int(found[3]) <= 65535:
        raise InvalidArgument(
            f"cluster must be the address of a scheduler such as tcp://scheduler:8786, with its port, by "
            f"{', '.join(protocols)}, got {shown(where)} (the scheduler prints it when it starts)"
        )
    return where


@contextlib.contextmanager
def _started(make: Callable[[], Cluster], meanwhile: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client of a cluster that is started here; some settings hold as long as it is there."""
    import dask

    with dask.config.set(SETTINGS):
        cluster = make()
    try:
        with dask.config.set(meanwhile or {}), _client(cluster) as client:
            yield client
    finally:
        with contextlib.suppress(Exception):
            cluster.close(timeout=20)


def check_installed() -> None:
    """Whether Dask is there."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ClusterError(f"a cluster {NEEDS}: {error}") from error


def check_client(client: object) -> Client:
    """`client` if it is one that can be used here."""
    check_installed()
    from distributed import Client

    if not isinstance(client, Client) or client.asynchronous:
        raise InvalidType(
            f"client must be a distributed.Client that is not asynchronous, got {shown(client)} "
            "(`open_cluster` makes one)"
        )
    if client.status != "running":
        raise ClusterError(f"client must be connected to a scheduler, got one that is {client.status}")
    return client


@contextlib.contextmanager
def _client(where: str | Cluster) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(where, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers at {where} within {ANSWER:.0f} s: {error} "
            "(start one with `dask scheduler`)"
        ) from error
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)


def _local(workers: int) -> Cluster:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,  # what is lost is in the progress
        preload="kalmanbandits.cluster.worker",
    )


def _queued(path: Path) -> Cluster:
    """The cluster that a file of settings describes."""
    import dask_jobqueue

    system, settings = _read(path)
    if system not in SYSTEMS:
        raise InvalidArgument(f"{path} must name one of {', '.join(SYSTEMS)}, got {system!r}")
    kind = getattr(dask_jobqueue, SYSTEMS[system])
    submit = str(kind.job_cls.submit_command).split()[0]
    if shutil.which(submit) is None:
        raise ClusterError(
            f"{path} asks for {system}, whose command `{submit}` is not on this machine "
            "(start from one where jobs are submitted)"
        )
    _check_names(path, kind, settings)
    least, most = check_jobs(path, settings)
    options = settings.setdefault("scheduler_options", {})
    if isinstance(options, dict):
        options.setdefault("dashboard_address", ":0")
    extra = settings.setdefault("worker_extra_args", [])
    if isinstance(extra, list) and not any(str(each).startswith("--lifetime") for each in extra):
        extra += lifetime(settings.get("walltime"))
    try:
        cluster: Cluster = kind(**settings, job_cls=noting_refusals(kind.job_cls))
    except Exception as error:  # by values that nobody foresaw, on their way into the script of a job
        raise InvalidArgument(f"{path} must hold settings of {SYSTEMS[system]}: {error}") from error
    # Jobs end with their walltime; adapting between equal numbers asks for others in their place.
    cluster.adapt(minimum_jobs=least, maximum_jobs=most)
    return cluster


def _check_names(path: Path, kind: Any, settings: dict[str, object]) -> None:
    """Every key is one that the class of dask-jobqueue takes, and what it needs is there."""
    import dask

    made_by = [base.__init__ for base in (*kind.__mro__, *kind.job_cls.__mro__) if base is not object]
    known = {"jobs"} | {name for each in made_by for name in inspect.signature(each).parameters}
    known -= OURS
    for key in settings:
        if key not in known:
            raise InvalidArgument(
                f"{path} must hold settings of {kind.__name__}, got {key!r}{nearest(key, sorted(known))}"
            )
    for key, example in (("cores", 8), ("memory", "16GB")):
        if settings.get(key, dask.config.get(f"jobqueue.{kind.job_cls.config_name}.{key}", None)) is None:
            raise InvalidArgument(f"{path} must say {key} of a job, such as `{key}: {example}`")


def _read(path: Path) -> tuple[str, dict[str, object]]:
    import yaml

    try:
        found = yaml.safe_load(read_regular(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidArgument(f"cluster must be a YAML file that can be read, got {path}: {error}") from error
    if isinstance(found, dict) and set(found) == {"jobqueue"}:  # as dask-jobqueue writes its own
        found = found["jobqueue"]
    if not isinstance(found, dict) or len(found) != 1 or not all(isinstance(x, dict) for x in found.values()):
        raise InvalidArgument(
            f"{path} must hold one table, such as `slurm:` with `jobs: 10`, `cores: 8` and `memory: 16GB`, "
            f"got {shown(found)}"
        )
    ((system, settings),) = found.items()
    return str(system), {str(key).replace("-", "_"): value for key, value in settings.items()}


def lifetime(walltime: object) -> list[str]:
    """Options that let a worker end in good order before its job is ended, and not all at once.

    >>> lifetime("01:00:00")
    ['--lifetime', '3240s', '--lifetime-stagger', '180s']
    >>> lifetime("2-00:00")
    ['--lifetime', '155520s', '--lifetime-stagger', '8640s']
    >>> lifetime(None)
    []
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+)(?::(\d+))?", str(walltime))
    if match is None:
        return []
    days, first, second, third = (int(part or 0) for part in match.groups())
    hours = match[4] is not None or match[1] is not None  # else minutes and seconds
    seconds = days * 86400 + (first * 3600 + second * 60 + third if hours else first * 60 + second)
    return ["--lifetime", f"{seconds * 9 // 10}s", "--lifetime-stagger", f"{seconds // 20}s"]
