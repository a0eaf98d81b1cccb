"""Texts as commands name them: options, files, corpora."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lmzoo.decoding import DEFAULT_ENCODING, DEFAULT_INVALID
from lmzoo.inputs import File, files_of, is_text
from lmzoo.normalizers import NORMALIZERS
from lmzoo.tokenizers import TOKENIZER_KINDS

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus

Command = TypeVar("Command", bound=Callable[..., Any])

_TOKENS_HELP = (
    f"How text is cut: {', '.join(TOKENIZER_KINDS)} (default: the corpus's own, else char). Words stand between "
    "spaces, tabs and line ends. A literal <s>, </s> or <unk> in the text is never the internal symbol: as characters "
    "it is spelled out like anything else; as words it is kept as a token of its own with a backslash before it, and "
    "counted. Only ptb and wikitext-2 use <unk> on purpose: there it is the vocabulary's <unk>."
)
_TRAIN_HELP = (
    "Training text of one's own; goes with --test.  Several, each behind a --train, are read one after the other."
)
_NORMALIZE_HELP = (
    f"Rewriting of the text: {', '.join(sorted(NORMALIZERS))}, or several in turn, such as nfc+lower (default: the "
    "corpus's own, else none)."
)
_ENCODING_HELP = "What the bytes of texts of one's own are: utf-8, utf-16, latin-1, gb18030 …"
_INVALID_HELP = "Bytes that the encoding does not have: error, or replace, by U+FFFD."
_DOCUMENTS_HELP = (
    "How text is cut into documents, each scored from a fresh start: file, line, paragraph or running "
    "(default: line for words, file for characters)."
)


def decoding_options(command: Command) -> Command:
    """The options that say what the bytes of a text are."""
    invalid = click.option("--invalid", default=DEFAULT_INVALID, show_default=True, metavar="HOW", help=_INVALID_HELP)
    encoding = click.option(
        "--encoding", default=DEFAULT_ENCODING, show_default=True, metavar="NAME", help=_ENCODING_HELP
    )
    return encoding(invalid(command))


def text_options(command: Command) -> Command:
    """The options that say what is read, and how."""
    for option in (
        click.option("--documents", metavar="POLICY", help=_DOCUMENTS_HELP),
        click.option("--min-freq", default=1, show_default=True, metavar="N", help="Rarer tokens become <unk>."),
        decoding_options,
        click.option("--normalize", metavar="NAME", help=_NORMALIZE_HELP),
        click.option("--tokens", metavar="KIND", help=_TOKENS_HELP),
        click.option("--test", metavar="FILE", help="Test text of one's own; goes with --train."),
        click.option("--valid", metavar="FILE", help="Validation text (default: the last tenth of the training text)."),
        click.option("--train", multiple=True, metavar="FILE", help=_TRAIN_HELP),
        click.option("--corpus", metavar="NAME", help="A corpus by name; see: python -m lmzoo corpora."),
    ):
        command = option(command)
    return command


def corpus_of(
    texts: Sequence[str],
    *,
    corpus: str | None,
    train: Sequence[str],
    valid: str | None,
    test: str | None,
    **reading: Any,
) -> Corpus:
    """The corpus that `text_options` and TEXT files name."""
    from lmzoo.corpus import load_corpus

    given = [bool(texts), corpus is not None, any((train, valid, test))]
    if sum(given) != 1:
        raise click.UsageError("give one of: a TEXT file, --corpus NAME, or --train and --test files")
    if given[2] and not (train and test):
        raise click.UsageError("--train and --test go together; --valid is optional")
    require_texts(texts)
    # none is waited for twice
    files_read(texts, train=train, valid=valid, test=test)
    # several names are those of texts, and so is one of several, even where it is called like a corpus
    return load_corpus(list(texts) or corpus, train=train or None, valid=valid, test=test, **reading)


def files_read(texts: Sequence[str], **options: Any) -> list[File]:
    """The files of all texts that a command reads; none for a corpus by name."""
    given = [options.get(name) for name in ("train", "valid", "test")]
    names = [*texts, *(name for value in given for name in ([value] if isinstance(value, str) else value or ()))]
    return files_of(names)


def require_texts(names: Sequence[str]) -> None:
    """Raise a `click.UsageError` for a name that is no text's."""
    missing = next((name for name in names if not is_text(name)), None)
    if missing is not None:
        raise click.UsageError(f"no file {missing!r}; for a corpus by name write --corpus {missing}")
