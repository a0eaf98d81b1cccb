"""Bytes to text: encodings, byte order marks, line ends, and what becomes of bytes that are none."""

from __future__ import annotations

import codecs
import io
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from lmzoo.errors import InputError, TextError, UndecodableTextError, did_you_mean
from lmzoo.inputs import peeked

Invalid = Literal["error", "replace"]
INVALID: tuple[Invalid, ...] = get_args(Invalid)
DEFAULT_ENCODING = "utf-8"
DEFAULT_INVALID: Invalid = "error"

_BOM = "\ufeff"
_REPLACEMENT = "\ufffd"
# half of a surrogate pair, which no bytes are decoded to, marks a place until all have been counted
_MARK = "\udfff"
_MARKING = "lmzoo.mark"
codecs.register_error(_MARKING, lambda error: (_MARK, _end_of(error)))

# what a decoder is given behind the last bytes
_END = b""

# the longer ones first, as one begins like another
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ORDERED = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
}
# ways of writing text in host names, programs and mail
_NOT_OF_FILES = {
    "idna",
    "punycode",
    "unicode-escape",
    "unicode_escape",
    "raw-unicode-escape",
    "raw_unicode_escape",
    "utf-7",
}
# bytes looked at for every other one being NUL, as in Western text in UTF-16, and the share of NULs there
_LOOKED_AT = 4096
_LEAST_LOOKED_AT = 16
_MOSTLY = 0.9


def _end_of(error: UnicodeError) -> int:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.end


class ReplacedWarning(UserWarning):
    """A text had bytes that its encoding does not have, and they were replaced as asked."""


def replaced_text(n_replaced: int) -> str:
    """How it is told."""
    return f"{n_replaced:,} invalid sequences of bytes were replaced by U+FFFD"


@dataclass(kw_only=True)
class Decoding:
    """How bytes become text, and how many of them were none.

    Args:
        encoding: any that Python knows; one byte order mark is dropped.
        invalid: `error`, or `replace` by U+FFFD what the encoding does not have.

    `n_replaced` counts the replacements of all texts that were decoded.  Raises `InputError` for an unknown encoding.
    """

    encoding: str = DEFAULT_ENCODING
    invalid: Invalid = DEFAULT_INVALID
    n_replaced: int = 0

    def __post_init__(self) -> None:
        self.encoding = _canonical(self.encoding)
        if self.invalid not in INVALID:
            raise InputError(
                f"invalid bytes are an error or replaced: invalid={self.invalid!r}."
                f"{did_you_mean(str(self.invalid), INVALID)} There are: {', '.join(INVALID)}"
            )

    @property
    def is_default(self) -> bool:
        return (self.encoding, self.invalid) == (DEFAULT_ENCODING, DEFAULT_INVALID)

    def warn_of_replaced(self) -> None:
        """Where there is no corpus to tell it, tell how much was replaced."""
        if self.n_replaced:
            warnings.warn(replaced_text(self.n_replaced), ReplacedWarning, stacklevel=3)

    def texts(self, chunks: Iterator[bytes], source: str, within: str = "") -> Iterator[str]:
        """The text of bytes, however these are cut: one BOM dropped, LF for CRLF and CR, all else kept.

        `source` names the bytes in errors, and `within` says what their offsets count in.  Raises
        `UndecodableTextError` with the 0-based offset of the first byte that the encoding does not have, and
        `TextError` for a text of another one; what stands before is given first.
        """
        head, chunks = peeked(chunks, _needs_more)
        encoding = self._encoding_of(head, source)
        decoder = _Decoder(encoding, self.invalid, source, within)
        # a codec that was told its order of bytes keeps the mark
        drops = _BOM
        for chunk in itertools.chain(filter(None, chunks), [_END]):
            text = decoder.decode(chunk)
            if text:
                text = text.removeprefix(drops)
                drops = ""
            if self.invalid == "replace":
                self.n_replaced += text.count(_MARK)
                text = text.replace(_MARK, _REPLACEMENT)
            if text:
                yield text
            # not when more is asked for: of a pipe nothing more may come
            decoder.raise_fault()

    def _encoding_of(self, head: bytes, source: str) -> str:
        """The encoding, with its order of bytes.  Raises `TextError` for a text of another one."""
        bom = next((bom for bom in _BOMS if head.startswith(bom)), None)
        if bom is not None and self.encoding in (_BOMS[bom], _ORDERED.get(bom)):
            return _ORDERED.get(bom, self.encoding)
        found = _BOMS[bom] if bom is not None else _order_of_utf16(head) if self.encoding == "utf-8" else None
        if found is not None:
            raise TextError(
                f"{source} is {found.upper()}, {self.encoding.upper()} is wanted; "
                f"have it read as it is with --encoding {found} (encoding={found!r})"
            )
        if self.encoding in ("utf-16", "utf-32") and head:
            raise TextError(
                f"{source} has no byte order mark; say which order: {self.encoding}-le or {self.encoding}-be"
            )
        return self.encoding


class _Decoder:
    """Decodes piece by piece and knows where in the source it is."""

    def __init__(self, encoding: str, invalid: Invalid, source: str, within: str) -> None:
        decoder = codecs.getincrementaldecoder(encoding)("strict" if invalid == "error" else _MARKING)
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._encoding, self._source, self._within = encoding, source, within
        self._n_bytes = 0
        self._fault: UndecodableTextError | None = None

    def decode(self, data: bytes) -> str:
        """The text of the next bytes; none are the end.  Of bytes with a fault, the text before it comes first."""
        before = self._decoder.getstate()
        try:
            self._n_bytes += len(data)
            return self._decoder.decode(data, final=data == _END)
        except UnicodeDecodeError as error:
            # what the error holds ends where these bytes do, and starts with some that were kept of those before
            n_kept = len(error.object) - len(data)
            self._fault = self._told(error, self._n_bytes - len(data) - n_kept + error.start)
            self._decoder.setstate(before)
            return self._decoder.decode(data[: max(error.start - n_kept, 0)])
        except UnicodeError as error:
            raise UndecodableTextError(f"{self._source} is not {self._encoding.upper()}: {error}") from error

    def raise_fault(self) -> None:
        """Raise `UndecodableTextError` where the last bytes had a fault."""
        if self._fault is not None:
            raise self._fault

    def _told(self, error: UnicodeDecodeError, offset: int) -> UndecodableTextError:
        fault = UndecodableTextError(
            f"{self._source} is not {self._encoding.upper()}: byte 0x{error.object[error.start]:02x} at offset "
            f"{offset}{self._within}; name its encoding, such as --encoding latin-1 or gb18030, or have such bytes "
            "replaced (--invalid replace)"
        )
        fault.__cause__ = error
        return fault


def _canonical(encoding: str) -> str:
    """The name that Python has for an encoding.  Raises `InputError` for what is none of text."""
    try:
        # of codecs that make no text, encoding complains
        "".encode(encoding)
        name = codecs.lookup(encoding).name
        codecs.getincrementaldecoder(name)
        if name in _NOT_OF_FILES:
            raise LookupError(name)
    except (LookupError, ValueError, TypeError) as error:
        raise InputError(
            f"no encoding {encoding!r}; some there are: utf-8, utf-16, latin-1, cp1252, gb18030, big5, shift_jis, "
            "euc-kr, koi8-r"
        ) from error
    return "utf-8" if name == "utf-8-sig" else name


def _needs_more(head: bytes) -> bool:
    """Whether the first bytes of a text leave open what they are.  More of a text in a pipe is not waited for."""
    if any(len(head) < len(bom) and bom.startswith(head) for bom in _BOMS):
        return True
    return len(head) < _LEAST_LOOKED_AT and any(set(head[odd::2]) <= {0} for odd in (0, 1))


def _order_of_utf16(head: bytes) -> str | None:
    """The name of UTF-16 without a byte order mark: nearly every other byte is NUL, and no other is."""
    pairs = head[: min(len(head), _LOOKED_AT) // 2 * 2]
    if len(pairs) < _LEAST_LOOKED_AT:
        return None
    n_even, n_odd = pairs[::2].count(0), pairs[1::2].count(0)
    if not n_even and n_odd > _MOSTLY * len(pairs) / 2:
        return "utf-16-le"
    return "utf-16-be" if not n_odd and n_even > _MOSTLY * len(pairs) / 2 else None


def check_encodable(text: str, source: str) -> None:
    """Raise `TextError` for a text that no UTF-8 file can hold; `source` names it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{source} has U+{ord(text[error.start]):04X}, half of a surrogate pair, at character {error.start}"
        ) from error
