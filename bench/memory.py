"""Memory of a process, in bytes: its own high-water mark, and the peaks of a device's allocator.

Nothing here traces allocations, so nothing slows what is being timed.
"""

from __future__ import annotations

import sys
from pathlib import Path

_KIB = 1024


def peak_rss_bytes() -> int:
    """The high-water mark of this process's resident memory, never one inherited from the parent."""
    found = _proc_status_bytes("self", "VmHWM")
    return found if found is not None else _getrusage_peak_bytes()


def rss_bytes(pid: int | None = None) -> int | None:
    """Resident memory now of this process or of another; None where there is no /proc or no such process."""
    return _proc_status_bytes("self" if pid is None else str(pid), "VmRSS")


def can_watch() -> bool:
    """Whether the memory of another process can be read here."""
    return rss_bytes() is not None


def reset_device_peaks(device: str) -> None:
    """Start the peaks of a CUDA device's allocator anew; what is allocated already stays counted."""
    if device.startswith("cuda"):
        import torch

        # the allocator has counters once the device was used
        torch.empty(0, device=device)
        torch.cuda.reset_peak_memory_stats(device)


def device_peaks_bytes(device: str) -> tuple[int | None, int | None]:
    """Peak bytes allocated and reserved on a CUDA device since the reset; (None, None) on a CPU."""
    if not device.startswith("cuda"):
        return None, None
    import torch

    return torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)


def _proc_status_bytes(process: str, key: str) -> int | None:
    try:
        lines = Path("/proc", process, "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    # "VmHWM:     12345 kB"; a zombie has no such line
    found = next((line for line in lines if line.startswith(f"{key}:")), None)
    return int(found.split()[1]) * _KIB if found else None


def _getrusage_peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, every other system KiB
    return peak if sys.platform == "darwin" else peak * _KIB
