"""Bytes as printable characters, the alphabet of byte-level subwords (Radford et al. 2019, section 2.2).

A byte that is a visible character of Latin-1 is written as that character, every other one as a character from U+0100
on in turn: a space is `Ġ`, a line end `Ċ`.  So a token that is a part of a UTF-8 character can be written too, and none
holds white space.
"""

from __future__ import annotations

from collections.abc import Sequence

_VISIBLE = (range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100))
_FIRST_OTHER = 0x100


def _alphabet() -> tuple[str, ...]:
    visible = {byte for part in _VISIBLE for byte in part}
    others = iter(range(_FIRST_OTHER, _FIRST_OTHER + 256))
    return tuple(chr(byte if byte in visible else next(others)) for byte in range(256))


# by byte
BYTE_SYMBOLS = _alphabet()
_BYTES = {symbol: bytes([byte]) for byte, symbol in enumerate(BYTE_SYMBOLS)}


def split_bytes(text: str) -> list[str]:
    """The symbol of each byte of a text in UTF-8."""
    return [BYTE_SYMBOLS[byte] for byte in text.encode("utf-8", "surrogatepass")]


def bytes_of(token: str) -> bytes:
    """The bytes that a token of such symbols stands for; any other character stands for itself."""
    return b"".join(_BYTES.get(symbol) or symbol.encode("utf-8", "surrogatepass") for symbol in token)


def join_bytes(tokens: Sequence[str]) -> str:
    """The text of such tokens; bytes that are no UTF-8 (a model may generate them) become U+FFFD."""
    return bytes_of("".join(tokens)).decode("utf-8", "replace")
