"""What a trial needs of a node, and whether any node of a cluster has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.executor.protocol import ExecutorError
from bench.records import TrialSpec

_MIB = 1024 * 1024
# how the cluster names them, in the order they are told
CPU, MEMORY, GPU = "CPU", "memory", "GPU"
Resources = Mapping[str, float]


def needs_of(trial: TrialSpec) -> dict[str, float]:
    """CPUs, bytes of memory and GPUs that a trial has to itself; what it does not ask for is not in it."""
    needs: dict[str, float] = {CPU: float(trial.threads)}
    if trial.memory_limit_bytes is not None:
        needs[MEMORY] = float(trial.memory_limit_bytes)
    if trial.device.startswith("cuda"):
        needs[GPU] = 1.0
    return needs


def fits(trial: TrialSpec, nodes: Sequence[Resources]) -> bool:
    """Whether some node, were it idle, could run the trial."""
    needs = needs_of(trial)
    return any(all(node.get(name, 0.0) >= amount for name, amount in needs.items()) for node in nodes)


def check_devices(devices: Sequence[str], nodes: Sequence[Resources]) -> None:
    """Raise `ExecutorError` for a device that no node has: a row of another would not be what was asked for."""
    for device in devices:
        if ":" in device:
            raise ExecutorError(
                f"--device {device}: on a cluster each trial sees one GPU, the one that it has to itself; "
                "use --device cuda"
            )
        if device != "cpu" and not any(node.get(GPU, 0.0) >= 1 for node in nodes):
            raise ExecutorError(
                f"--device {device}: no node of the cluster has a GPU that Ray knows of; ask for --device cpu, or let "
                "one join with: ray start --address=… --num-gpus=…"
            )


def check(trials: Sequence[TrialSpec], nodes: Sequence[Resources]) -> None:
    """Raise `ExecutorError`, one line, where a trial could wait for ever for a node that is large enough."""
    check_devices([trial.device for trial in trials], nodes)
    for trial in trials:
        if not fits(trial, nodes):
            needs = needs_of(trial)
            raise ExecutorError(
                f"no node of the cluster has {_told(needs)}, which each trial of {trial.model} asks for; "
                f"the largest of {len(nodes)} has {_told(_largest(nodes, needs))}; ask for less with --threads, "
                "--memory-limit or --device, or let a larger node join with: ray start --address=…"
            )


def _largest(nodes: Sequence[Resources], needs: Resources) -> dict[str, float]:
    """The node that comes nearest: with most of what is asked for, then the one with most CPUs and memory."""
    amounts = [{name: node.get(name, 0.0) for name in (CPU, MEMORY, GPU)} for node in nodes]

    def nearness(node: Resources) -> tuple[int, float, float]:
        return sum(node[name] >= amount for name, amount in needs.items()), node[CPU], node[MEMORY]

    return max(amounts, key=nearness, default={CPU: 0.0})


def _told(resources: Resources) -> str:
    words = {
        CPU: lambda amount: f"{amount:g} CPUs",
        MEMORY: lambda amount: f"{amount / _MIB:.0f} MiB of memory",
        GPU: lambda amount: f"{amount:g} GPUs",
    }
    return ", ".join(words[name](resources[name]) for name in words if name in resources)
