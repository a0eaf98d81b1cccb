"""Every error that lmzoo raises on purpose.

LmzooError
├── InputError (ValueError)         what the caller gave cannot be used
│   ├── TextError                   a text cannot be read as it stands
│   │   └── UndecodableTextError    bytes that are not UTF-8, with file and offset
│   ├── CorpusError                 a corpus cannot be built
│   │   ├── UnknownCorpusError
│   │   ├── MissingDataError        a file is not here and cannot be fetched
│   │   └── TooShortError           fewer tokens than the parts need
│   ├── SpecError                   a model spec cannot be understood
│   │   ├── UnknownModelError
│   │   ├── UnknownOptionError
│   │   └── OptionValueError
│   ├── TokenError                  ids of the wrong type, shape or range
│   ├── VocabularyMismatchError     model and text do not share their vocabulary
│   ├── TrainingMismatchError       a checkpoint is of another training
│   └── TallyMismatchError          tallies of unlike things were added
├── UnavailableError                this machine lacks a library or a device
│   ├── MissingLibraryError
│   └── MissingDeviceError
├── StorageError                    a model file or a checkpoint cannot be read or written
│   ├── ForeignFileError            another kind of file
│   ├── NewerFileError              written by a newer version
│   └── CorruptFileError            cut short or altered
├── TooLargeError (MemoryError)     a model does not fit into memory
├── DivergedError                   training met a value that is not finite
├── StoppedError                    training was stopped on request; its checkpoint goes on from there
└── NotNormalizedError              a perplexity was asked of scores that are no distribution
"""

from __future__ import annotations

import difflib
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Named = TypeVar("Named")


class LmzooError(Exception):
    """Anything that lmzoo raises on purpose."""


class InputError(LmzooError, ValueError):
    """What the caller gave cannot be used."""


class TextError(InputError):
    """A text cannot be read as it stands."""


class UndecodableTextError(TextError):
    """Bytes that are not UTF-8; the message holds the file and the 0-based byte offset."""


class CorpusError(InputError):
    """A corpus cannot be built."""


class UnknownCorpusError(CorpusError):
    """No corpus has this name and no file this path."""


class MissingDataError(CorpusError):
    """A known corpus whose files are not here and cannot be fetched."""


class TooShortError(CorpusError):
    """Fewer tokens than the parts need."""


class SpecError(InputError):
    """A model spec cannot be understood."""


class UnknownModelError(SpecError):
    """No model has this name."""


class UnknownOptionError(SpecError):
    """A model has no option of this name."""


class OptionValueError(SpecError):
    """An option was given a value of the wrong type or out of range."""


class TokenError(InputError):
    """Token ids of the wrong type, shape or range."""


class VocabularyMismatchError(InputError):
    """Model and text do not share their vocabulary."""


class TrainingMismatchError(InputError):
    """A checkpoint was written by another training than the one that is to go on from it."""


class TallyMismatchError(InputError):
    """Tallies of unlike things were added."""


class UnavailableError(LmzooError):
    """This machine lacks a library or a device."""


class MissingLibraryError(UnavailableError, ImportError):
    """An optional library is not installed; the message holds the command that installs it."""


class MissingDeviceError(UnavailableError):
    """The device asked for is not there."""


class TooLargeError(LmzooError, MemoryError):
    """A model of the sizes asked for does not fit into memory."""


class StorageError(LmzooError):
    """A model file or a checkpoint cannot be read or written."""


class ForeignFileError(StorageError):
    """The file is of another kind than was asked for."""


class NewerFileError(StorageError):
    """The file was written in a format that this version does not know yet."""


class CorruptFileError(StorageError):
    """The file was cut short or altered."""


class DivergedError(LmzooError):
    """Training met a loss or a gradient that is not finite.

    Attributes:
        step: the 1-based optimiser step at which it happened.
        model: the model with the weights that are kept: under a budget of seconds those of the best validation so far,
            otherwise those of the last step before; None where there are none, or where these are not finite either.
    """

    model: Any = None

    def __init__(self, step: int) -> None:
        super().__init__(f"training diverged at step {step}: loss or gradient is not finite")
        self.step = step


class StoppedError(LmzooError):
    """Training was stopped on request.

    Attributes:
        step: how many optimiser steps were done.
        checkpoint: the file that holds the training.
    """

    def __init__(self, step: int, checkpoint: str) -> None:
        super().__init__(f"training was stopped after step {step}; {checkpoint} goes on from there")
        self.step = step
        self.checkpoint = checkpoint


class NotNormalizedError(LmzooError):
    """A perplexity was asked of scores that do not form a distribution."""


def require_kind(value: object, kind: type | tuple[type, ...], name: str, wanted: str) -> None:
    """Raise `InputError` for an argument of another type; `wanted` says in words what it is to be, and the cure."""
    if not isinstance(value, kind):
        raise InputError(f"{name} is {wanted}, got {described(value)}")


def require_path(path: object, name: str = "path") -> None:
    """Raise `InputError` for what is no path of a file."""
    require_kind(path, (str, os.PathLike), name, "the path of a file")


def require_whole(value: object, name: str, least: int) -> None:
    """Raise `InputError` for what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number, got {described(value)}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}")


def require_number(value: object, name: str) -> None:
    """Raise `InputError` for what is no number; NaN is one here."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, got {described(value)}")


def described(value: object) -> str:
    """A value and its type for a message, in a few words."""
    shown = " ".join(repr(value).split())
    return f"{shown if len(shown) <= 40 else shown[:39] + '…'} of type {type(value).__name__}"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """' Did you mean 'x'?' for the closest of the choices, or '' when none is close."""
    choices = list(choices)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if not close:
        # 'lstn' is far from the whole of 'lstm-scratch' but close to its first word
        close = [c for c in choices if difflib.get_close_matches(name, [c.partition("-")[0]], cutoff=0.6)]
    return f" Did you mean {close[0]!r}?" if close else ""


def named(name: str, table: Mapping[str, Named], kind: str) -> Named:
    """What has this name in a table.  Raises `InputError`, naming the closest."""
    require_kind(name, str, f"a {kind}", f"one of {', '.join(sorted(table))}")
    if name not in table:
        raise InputError(f"no {kind} {name!r}.{did_you_mean(name, table)} There are: {', '.join(sorted(table))}")
    return table[name]


def missing_library(library: str, extra: str, what: str) -> MissingLibraryError:
    """The error for something that needs a library of an extra; `what` names it, in the plural."""
    return MissingLibraryError(f"{what} need the library {library}: python -m pip install 'lmzoo[{extra}]'")
