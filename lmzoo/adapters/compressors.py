"""Compressors as yardsticks: how many nats a text takes, given the training text.

A compressor learns from all that it codes, the test text too, and is starred for that.  Its code length of the test
text given the training text is C(training + test) - C(training), both coded in one go.  What containers add (names,
checksums) is the same in both and falls out; the ends of the codes are off by a few bytes at most.
"""

from __future__ import annotations

import lzma
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmzoo.coding import coded_bytes
from lmzoo.corpus import Split
from lmzoo.errors import InputError, OptionValueError

_MIB = 1024 * 1024
_NATS_PER_BYTE = 8 * math.log(2)
# what the formats can look back
_LARGEST_XZ_WINDOW = 1536 * _MIB
_SMALLEST_XZ_WINDOW = 4096
_ZSTD_WINDOW_LOGS = (10, 31)


def _require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise OptionValueError(f"{name} is from {least} to {most}, got {value}")


@dataclass(frozen=True, kw_only=True)
class PpmdConfig:
    """Prediction by partial matching (Shkarin 2002, PPMd var. I).

    Attributes:
        order: how many bytes back it looks, at most.
        memory: MiB that its contexts may fill; they are taken when needed.  What no longer fits is cut off.
    """

    order: int = 6
    memory: int = 1024

    def __post_init__(self) -> None:
        _require("order of ppmd", self.order, 2, 64)
        _require("memory of ppmd", self.memory, 1, 4095)


@dataclass(frozen=True, kw_only=True)
class XzConfig:
    """LZMA2, its dictionary as long as both texts.

    Attributes:
        level: 0 (fast) to 9 (small).
        extreme: look longer for the shortest code.
    """

    level: int = 9
    extreme: bool = True

    def __post_init__(self) -> None:
        _require("level of xz", self.level, 0, 9)


@dataclass(frozen=True, kw_only=True)
class ZstdConfig:
    """Zstandard, its window as long as both texts.

    Attributes:
        level: 1 (fast) to 22 (small).
    """

    level: int = 19

    def __post_init__(self) -> None:
        _require("level of zstd", self.level, 1, 22)


class PpmdCoder:
    """PPMd.  It codes byte by byte, so that the code length of each part of a text is known too."""

    kernel_name = "pyppmd"

    def __init__(self, config: PpmdConfig) -> None:
        self.config = config

    def nll_nats(self, train: Split, test: Split) -> float:
        """-ln p of the test text, given the training text."""
        return self.cumulative_nats(train, test, [])[-1]

    def cumulative_nats(self, train: Split, test: Split, ends: Sequence[int]) -> list[float]:
        """The nats of the test text up to each of these bytes, which ascend, and last those of all of it.

        Between the ends it is read from the bytes that have left the coder, some of which are always under way: each
        value is right within two bytes.
        """
        seen, text = coded_bytes(train), coded_bytes(test)
        total = self._length(seen + text) - self._length(seen)
        coder = self._coder()
        coder.encode(seen)
        left, done, lengths = 0, 0, []
        for end in ends:
            if end > done:
                left += len(coder.encode(text[done:end]))
                done = end
            lengths.append(min(left, total))
        return [_NATS_PER_BYTE * length for length in (*lengths, total)]

    def _length(self, data: bytes) -> int:
        coder = self._coder()
        return len(coder.encode(data)) + len(coder.flush())

    def _coder(self) -> Any:
        import pyppmd

        return pyppmd.Ppmd8Encoder(self.config.order, self.config.memory * _MIB, pyppmd.PPMD8_RESTORE_METHOD_CUT_OFF)


class _WholeCoder(ABC):
    """A coder that tells the length of whole texts alone: it looks ahead for what to code together."""

    kernel_name: str

    def nll_nats(self, train: Split, test: Split) -> float:
        """-ln p of the test text, given the training text."""
        seen, text = coded_bytes(train), coded_bytes(test)
        window = len(seen) + len(text)
        return _NATS_PER_BYTE * (self._length(seen + text, window) - self._length(seen, window))

    @abstractmethod
    def _length(self, data: bytes, window: int) -> int:
        """Bytes of the code of a text, by a coder that can look back so many bytes."""


class XzCoder(_WholeCoder):
    """LZMA2 without the container of xz."""

    kernel_name = "lzma"

    def __init__(self, config: XzConfig) -> None:
        self.config = config

    def _length(self, data: bytes, window: int) -> int:
        if window > _LARGEST_XZ_WINDOW:
            raise InputError(
                f"xz looks back {_LARGEST_XZ_WINDOW:,} bytes at most, and both texts are {window:,} bytes; "
                "give less text, or take ppmd"
            )
        preset = self.config.level | (lzma.PRESET_EXTREME if self.config.extreme else 0)
        filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": max(window, _SMALLEST_XZ_WINDOW)}]
        return len(lzma.compress(data, format=lzma.FORMAT_RAW, filters=filters))


class ZstdCoder(_WholeCoder):
    """Zstandard."""

    kernel_name = "zstandard"

    def __init__(self, config: ZstdConfig) -> None:
        self.config = config

    def _length(self, data: bytes, window: int) -> int:
        import zstandard

        least, most = _ZSTD_WINDOW_LOGS
        if window > 1 << most:
            raise InputError(
                f"zstd looks back {1 << most:,} bytes at most, and both texts are {window:,} bytes; "
                "give less text, or take ppmd"
            )
        parameters = zstandard.ZstdCompressionParameters.from_level(
            self.config.level, window_log=max(least, (window - 1).bit_length()), enable_ldm=True
        )
        return len(zstandard.ZstdCompressor(compression_params=parameters).compress(data))
