"""A Ray cluster of two nodes on this machine, for tests: out of sight of every other one, and gone at the end."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
# a node that died is noticed within seconds
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
HEAD = {"include_dashboard": False, "_system_config": HEALTH}


@contextmanager
def two_nodes() -> Iterator[Any]:
    """Two nodes with a CPU each, which `RAY_ADDRESS` names meanwhile; the second is the only one in `worker_nodes`.

    They want a token, which lies where this process finds it; that it has to show it, it is not told.
    """
    # ray takes this signal for itself and leaves it so: a run in this process would not end by it any more
    at_end = signal.getsignal(signal.SIGTERM)
    # a short name: a socket's path has room for 107 bytes
    folder = Path(tempfile.mkdtemp(prefix="lz"))
    (folder / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            patch.delenv(name)
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        token = folder / "token"
        token.write_text(secrets.token_hex(32), encoding="ascii")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        patch.setenv("RAY_AUTH_MODE", "token")
        from ray._private.authentication_test_utils import reset_auth_token_state
        from ray.cluster_utils import Cluster

        # another token may have been looked at
        reset_auth_token_state()
        cluster = Cluster(initialize_head=True, head_node_args=NODE | HEAD)
        patch.setenv("RAY_ADDRESS", cluster.address)
        try:
            cluster.add_node(**NODE)
            patch.delenv("RAY_AUTH_MODE")
            yield cluster
        finally:
            cluster.shutdown()
            signal.signal(signal.SIGTERM, at_end)
            shutil.rmtree(folder, ignore_errors=True)
