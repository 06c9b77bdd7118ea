"""Jobs of a queueing system: what a file may say of them, and what is known of those that were refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kalmanbandits.errors import InvalidArgument, InvalidType, positive, shown, whole

if TYPE_CHECKING:
    from distributed import Client

MOST_JOBS = 10_000
MOST_CORES = 100_000  # of a job, and processes
MOST_MEMORY = 1e18  # bytes
# What is neither a text nor a number.
LISTS: dict[str, Any] = {
    "scheduler_options": dict,
    "worker_extra_args": list,
    "job_script_prologue": list,
    "job_extra_directives": (list, dict),  # a table for HTCondor
    "job_directives_skip": list,
    "submit_command_extra": list,
    "cancel_command_extra": list,
    "extra": list,  # and older names of these
    "env_extra": list,
    "job_extra": (list, dict),
    "header_skip": list,
}

log = logging.getLogger("kalmanbandits")


def check_jobs(path: Path, settings: dict[str, Any]) -> tuple[int, int]:
    """The least and the largest number of jobs, which are taken out; what else has numbers must make sense.

    dask-jobqueue would write nonsense into the script of a job, for the queueing system to object to.
    """
    jobs = settings.pop("jobs", 1)
    least, most = (jobs.get("minimum", 0), jobs.get("maximum")) if isinstance(jobs, dict) else (jobs, jobs)
    where = f"in {path}"
    least = whole("jobs", least, 0, where, below=MOST_JOBS + 1)
    most = whole("jobs", most, max(1, least), where, below=MOST_JOBS + 1)
    for key in ("cores", "processes", "job_cpu"):
        if settings.get(key) is not None:
            whole(key, settings[key], 1, where, below=MOST_CORES + 1)
    for key in ("memory", "job_mem"):
        if settings.get(key) is not None:
            _check_memory(key, settings[key], where)
    walltime = settings.get("walltime")
    if walltime is not None and not isinstance(walltime, str):
        raise InvalidType(
            f'walltime must be text such as "01:00:00", got {shown(walltime)} '
            f"(write it in quotes, or YAML takes it for a number of seconds, {where})"
        )
    for key, value in settings.items():
        wanted = LISTS.get(key, (str, int, float))
        if value is not None and not isinstance(value, wanted):
            what = "a table" if wanted is dict else "a list" if key in LISTS else "a text or a number"
            raise InvalidType(f"{key} must be {what}, got {shown(value)} ({where})")
    return least, most


def _check_memory(key: str, value: object, where: str) -> None:
    from dask.utils import parse_bytes

    if isinstance(value, str):
        try:
            size: object = parse_bytes(value)
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(
                f"{key} must be a size such as 16GB, got {shown(value)} ({where})"
            ) from error
    else:
        size = value
    positive(key, size, f"bytes, or a text such as 16GB, {where}", largest=MOST_MEMORY)


def noting_refusals(job_class: Any) -> Any:
    """The class of jobs of a queueing system, but one whose command fails is there, and says why.

    Dask would log a traceback, and wait for a worker that never comes.
    """
    from distributed.deploy.spec import ProcessInterface

    class Job(job_class):  # type: ignore[misc]  # known when it runs
        refused = ""

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, OSError, ValueError) as error:
                self.refused = " ".join(str(error).split())
                log.warning("a job was not submitted: %s", self.refused)
                await ProcessInterface.start(self)

    return Job


def refusal(client: Client) -> str:
    """Why the queueing system has refused a job, if it has refused all that were asked for; else nothing."""
    jobs = list(getattr(client.cluster, "workers", {}).values())
    refused = [getattr(job, "refused", "") for job in jobs]
    return refused[-1] if refused and all(refused) else ""
