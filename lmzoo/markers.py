"""The symbols that are no text: unknown, start and end; and how a text that spells them out is kept apart from them."""

from __future__ import annotations

import re

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
MARKERS = (UNK, BOS, EOS)

_ESCAPED_MARKER = re.compile(r"\\*(?:<unk>|<s>|</s>)")


def escape_marker(token: str) -> str:
    """A token that reads like a marker gets a backslash before it, so that text can never forge `<s>` or `<unk>`."""
    # few tokens end like a marker, and asking for that is much faster
    return "\\" + token if token.endswith(MARKERS) and _ESCAPED_MARKER.fullmatch(token) else token


def unescape_marker(token: str) -> str:
    """The inverse of `escape_marker`."""
    return token[1:] if token.startswith("\\") and _ESCAPED_MARKER.fullmatch(token) else token
