"""The machine and the software of a run, and the environment that a trial's process starts in.

Nothing that names a user, a host or a folder leaves this module.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from bench.records import CorpusSpec
from lmzoo.inputs import joined_name

# every library that computes on several threads reads one of these when it loads
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
# how idle threads wait, see trial_environment()
WAIT_POLICY = "OMP_WAIT_POLICY"
COMPILED = "LMZOO_COMPILED"
_PACKAGES = ("lmzoo", "numpy", "pydantic", "torch", "numba", "pandas", "matplotlib")
_SOURCES = Path(__file__).parent.parent
_COMMAND_TIMEOUT_S = 10
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 60
# the name and the parts of a corpus, as they were typed
_Paths = tuple[str | tuple[str, ...] | None, ...]
_MAX_MESSAGE = 500
# an absolute path's folders; what stands before it may be a quote, an equals sign, a comma, a colon or nothing
_FOLDERS = re.compile(r"(?<![\w.~\\/*?)\]}-])(?:[A-Za-z]:[\\/]|~?/)(?=\S)(?:[^\s\\/'\",:=]+[\\/])*")
_FOLDERS_IN_ARGUMENT = re.compile(r"(?:^|(?<=[\s'\"=,:;(<{|]))(?:[A-Za-z]:[\\/]|~?/)(?:[^\\/'\",:=*?]+[\\/])*")
# what no shell gives a meaning of its own
_PLAIN = re.compile(r"[\w@%+=:,./-]+")


def trial_environment(threads: int, device: str, *, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a trial's process: they must be set before any numerical library loads.

    A CPU trial sees no CUDA device; hashing is fixed; streams are UTF-8 whatever the locale.
    """
    variables = dict(os.environ if inherited is None else inherited)
    variables.pop("PYTHONIOENCODING", None)
    variables |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    # by default idle threads spin; where anything else uses a CPU, those that wait then hold up the one that works: a
    # small matrix product takes 100 times as long
    variables.setdefault(WAIT_POLICY, "PASSIVE")
    variables |= {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
    # torch's deterministic kernels on CUDA refuse to run without it
    variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    if not device.startswith("cuda"):
        variables["CUDA_VISIBLE_DEVICES"] = ""
    # the packages are found also where they are not installed and the working folder is another
    before = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([str(_SOURCES), *([before] if before else [])])
    return variables


def n_cpus_usable() -> int:
    """CPUs that this process may run on: the affinity, where the system has one."""
    if sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_total_bytes() -> int | None:
    """The memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def describe(device: str = "cpu", *, was_shared: bool | None = None) -> dict[str, Any]:
    """What a record says about where it was made: the fields of `records.Environment`.

    Loads no library; a CUDA device is asked through torch where that is loaded.  `was_shared`: what
    `is_device_shared` said before.
    """
    commit, dirty = _git()
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu_model": _cpu_model(),
        "n_cpus_usable": n_cpus_usable(),
        "n_cpus": os.cpu_count(),
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "memory_total_bytes": memory_total_bytes(),
        "versions": _versions(),
        "thread_variables": {
            name: os.environ[name] for name in (*THREAD_VARIABLES, WAIT_POLICY, COMPILED) if name in os.environ
        },
        "git_commit": commit,
        "git_dirty": dirty,
        **(_cuda(device, was_shared) if device.startswith("cuda") else {}),
    }


def is_device_shared(device: str) -> bool | None:
    """Whether a process other than this one computes on a CUDA device that this one uses; None: nobody says."""
    torch = sys.modules.get("torch")
    if not device.startswith("cuda") or torch is None or not torch.cuda.is_available():
        return None
    listed = _output_of("nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader")
    if listed is None:
        return None
    n_users = sum(device_uuid(device) in line for line in listed.splitlines())
    # inside a container this process may be listed under a foreign number, or none may be listed: one is this one
    return n_users > 1 if n_users else None


def device_uuid(device: str) -> str:
    """The name that a CUDA device has for every tool; torch has to be loaded."""
    return str(sys.modules["torch"].cuda.get_device_properties(device).uuid)


def code_sha256() -> str:
    """A hash of the sources of lmzoo and bench: other code may give other results."""
    digest = hashlib.sha256()
    for path in sorted(p for package in ("lmzoo", "bench") for p in (_SOURCES / package).rglob("*.py")):
        # reports and comparisons only read records
        if path.parent.name not in ("report", "comparing"):
            digest.update(path.relative_to(_SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def process_age_s() -> float:
    """Seconds since this process started, to 0.01 s; 0 where the system does not say."""
    try:
        # the command's name (field 2) may hold spaces and parentheses; starttime is field 22
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0.0
    return max(uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 0.0)


def without_folders(text: str) -> str:
    """A text with every absolute path in it cut to its last part."""
    return _FOLDERS.sub("", text)


def publishable(text: str) -> str:
    """A message as a record may hold it: on one line, its control characters spelt out, no folders, not too long."""
    spelt = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in " ".join(text.split()))
    shown = without_folders(spelt)
    return shown if len(shown) <= _MAX_MESSAGE else f"{shown[: _MAX_MESSAGE - 1]}…"


def command_line(program: str, arguments: Sequence[str]) -> str:
    """A command line as a record may hold it, to be run again: absolute paths, and they alone, cut to file names."""
    return " ".join([program, *(_quoted(_FOLDERS_IN_ARGUMENT.sub("", a)) for a in arguments)])


def file_name(path: str) -> str:
    """The last part of a path, whichever system wrote it."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path


def text_name(corpus: CorpusSpec) -> str:
    """The file name, or the name, of the text that a corpus is made of; empty where it is the default one."""
    if corpus.label is not None:
        return corpus.label
    if corpus.name or not corpus.train:
        return file_name(corpus.name or "")
    paths = [corpus.train] if isinstance(corpus.train, str) else corpus.train
    return joined_name([file_name(path) for path in paths])


def distinct_names(names: Sequence[str], corpora: Sequence[CorpusSpec]) -> list[str]:
    """The names of texts, those that several different texts share told apart.

    By as few of their folders as that takes, or by numbers where a path is absolute: its folders stay here.
    """
    texts: dict[str, list[_Paths]] = {}
    for name, corpus in zip(names, corpora, strict=True):
        sharing = texts.setdefault(name, [])
        if (paths := _paths_of(corpus)) not in sharing:
            sharing.append(paths)
    labels = {name: _labels(name, sharing) for name, sharing in texts.items()}
    return [labels[name][texts[name].index(_paths_of(corpus))] for name, corpus in zip(names, corpora, strict=True)]


def _paths_of(corpus: CorpusSpec) -> _Paths:
    return corpus.name, corpus.train, corpus.valid, corpus.test


def _labels(name: str, sharing: Sequence[_Paths]) -> list[str]:
    if len(sharing) == 1:
        return [name]
    folders = [_folders_of(paths) for paths in sharing]
    if None not in folders:
        for n in range(1, max(len(parts or ()) for parts in folders) + 1):
            labels = ["/".join((*(parts or ())[-n:], name)) for parts in folders]
            if len(set(labels)) == len(labels):
                return labels
    return [name if n == 1 else f"{name} ({n})" for n in range(1, len(sharing) + 1)]


def _folders_of(paths: _Paths) -> tuple[str, ...] | None:
    """The folders of a text as it was typed; None where they must not be shown."""
    first = next((path if isinstance(path, str) else path[0] for path in paths if path), "")
    folder = PurePath(first).parent
    return None if folder.is_absolute() or first.startswith("~") else folder.parts


def safe_name(text: str) -> str:
    """A text as part of a file name that every system takes: ASCII letters, digits, `.`, `-` and `_`."""
    # a name may not start with a dot: such files are hidden
    return _UNSAFE.sub("_", text)[:_MAX_NAME].lstrip(".") or "_"


def _quoted(argument: str) -> str:
    """An argument as a shell takes it back: a pattern is not expanded, a parenthesis starts nothing."""
    return argument if _PLAIN.fullmatch(argument) else shlex.quote(argument)


def _git() -> tuple[str | None, bool | None]:
    """The commit of the sources and whether tracked files differ from it; (None, None) where there is no checkout."""
    if not (_SOURCES / ".git").exists():
        return None, None
    # one question instead of two; taking no lock, it is in nobody's way
    told = _output_of(
        "git",
        "--no-optional-locks",
        "-C",
        str(_SOURCES),
        "status",
        "--porcelain=v2",
        "--branch",
        "--untracked-files=no",
        "--",
        ".",
        ":!results",
    )
    if told is None:
        return None, None
    lines = told.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    return commit, any(not line.startswith("#") for line in lines)


def _output_of(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_COMMAND_TIMEOUT_S, encoding="utf-8", errors="replace", check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine() or "unknown"


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cuda(device: str, was_shared: bool | None) -> dict[str, str | bool | None]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    cudnn = torch.backends.cudnn.version()
    return {
        "gpu": torch.cuda.get_device_name(device),
        # one driver for all devices
        "driver": _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"),
        "cuda": torch.version.cuda,
        "cudnn": None if cudnn is None else str(cudnn),
        "device_shared": was_shared or is_device_shared(device),
    }
