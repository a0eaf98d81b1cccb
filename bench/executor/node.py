"""One trial on the machine that was chosen for it, with the work that it would do on the runner's.

This is what a task of the cluster does.  The trial has a fresh process as everywhere; the one that this runs in only
watches it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.environment import file_name
from bench.executor.local import WORKER, LocalExecutor
from bench.executor.protocol import Event, ExecutorError
from bench.executor.slots import hold_cpus
from bench.planned import require_same_code
from bench.records import CorpusSpec, TrialSpec
from lmzoo.sources import is_named

# what decides, besides the command line, which texts are found and which loops score them
_VARIABLES = "LMZOO_"


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What the runner's machine has and the node must have too, so that a trial is the same on both.

    `worker`: the command of a trial's process; None: the node's own interpreter with `bench.worker`.
    """

    folder: str
    variables: Mapping[str, str]
    worker: Sequence[str] | None
    debug: bool

    @classmethod
    def from_here(cls, worker: Sequence[str] | None, *, debug: bool) -> Errand:
        """The errand of a runner in this process."""
        variables = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
        return cls(folder=str(Path.cwd()), variables=variables, worker=worker, debug=debug)


def run_here(trial: TrialSpec, files: Sequence[str], errand: Errand) -> Iterator[Event]:
    """Run a trial on CPUs of its own.  Raises `LmzooError` where it would be other work than the runner asked for.

    `files`: paths of texts that the trial reads, as they are on the runner's machine.  The working folder and the
    variables of this process become those of the runner.
    """
    require_same_code(trial)
    os.environ.update(errand.variables)
    if Path(errand.folder).is_dir():
        os.chdir(errand.folder)
    check_files(files)
    with hold_cpus(trial.threads) as slot:
        executor = LocalExecutor(errand.worker or WORKER, debug=errand.debug, popen=slot.popen)
        with closing(executor.run([trial])) as events:
            yield from events


def check_files(paths: Sequence[str]) -> None:
    """Raise `ExecutorError` where a text that was given by its path is not on this machine."""
    missing = [file_name(path) for path in paths if not Path(path).exists()]
    if missing:
        raise ExecutorError(
            f"{', '.join(missing)} is not on the node; a text given by its path has to lie there on every node, in a "
            "shared folder or as a copy"
        )


def files_of(corpus: CorpusSpec) -> tuple[str, ...]:
    """The files on this machine that a corpus names by their paths, in no special order."""
    # a name goes before a file that happens to be called like it
    by_name = [] if corpus.name is None or is_named(corpus.name) else [corpus.name]
    train = [corpus.train] if isinstance(corpus.train, str) else (corpus.train or ())
    named = [*by_name, *train, *(path for path in (corpus.valid, corpus.test) if path is not None)]
    return tuple(path for path in named if Path(path).exists())
