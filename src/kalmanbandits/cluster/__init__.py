"""Work on a Dask cluster: workers compute, the submitting process keeps what comes back.

    with open_cluster("local:4") as client:
        run_study(study, "results/study", client=client)

Dask is imported when a cluster is used, not before; it comes with the extra `[cluster]`.
"""

from __future__ import annotations

from kalmanbandits.cluster.opening import open_cluster
from kalmanbandits.cluster.worker_pool import Workers

__all__ = ["Workers", "open_cluster"]
