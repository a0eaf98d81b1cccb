"""Causal networks of transformers: tiny random ones, with the library's own forward pass as the oracle."""

from __future__ import annotations

import inspect
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzoo
from lmzoo.conformance import check_language_model, quick_check
from lmzoo.corpus import encode_split
from lmzoo.errors import MissingDeviceError, MissingLibraryError, OptionValueError, SpecError, StorageError
from lmzoo.interface import policy_of
from lmzoo.registry import available_models, recorded_options
from tests.bigram import TEXT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.torch

WINDOW = 12
END = "<|endoftext|>"
# some units in the last place of a float32 of about 12 nats, each 1e-6: the same sums in another order
TOLERANCE = 1e-5


def save_tokenizer(folder: Path, special: list[str], n_symbols: int) -> None:
    hf = tokenizers.Tokenizer(tokenizers.models.BPE())
    hf.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    hf.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=n_symbols, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    hf.train_from_iterator([TEXT], trainer)
    # as many do: something is added around a text unless that is refused
    hf.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{special[0]} $A", special_tokens=[(special[0], 0)]
    )
    hf.save(str(folder / "tokenizer.json"))


def save_network(folder: Path, network: Any) -> Path:
    from transformers.utils import logging

    logging.disable_progress_bar()
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Starts and ends a text with one token; three rows more than the tokenizer has tokens."""
    folder = tmp_path_factory.mktemp("gpt2")
    save_tokenizer(folder, [END], 264)
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": END, "eos_token": {"content": END}}))
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=267, n_positions=WINDOW, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        initializer_range=0.5,
    )  # fmt: skip
    return save_network(folder, transformers.GPT2LMHeadModel(config))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start, end and unknown tokens of its own, by the names of the vocabulary's markers."""
    folder = tmp_path_factory.mktemp("llama")
    save_tokenizer(folder, ["<s>", "</s>", "<unk>"], 266)
    (folder / "tokenizer_config.json").write_text(json.dumps({"unk_token": "<unk>"}))
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=266, max_position_embeddings=WINDOW, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, bos_token_id=0, eos_token_id=[1, 2], initializer_range=0.5,
    )  # fmt: skip
    return save_network(folder, transformers.LlamaForCausalLM(config))


def opened(folder: Path, options: str = "") -> Any:
    return lmzoo.read_model(f'hf:"{folder}"{options}')


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def library(folder: Path) -> tuple[Any, Any]:
    """The network and the tokenizer as the library itself opens them."""
    network = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    return network.eval(), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def slow_nats(folder: Path, text: str, window: int = WINDOW) -> list[float]:
    """-ln p of every token, each by a forward pass over its whole window: the rule of windows, word for word."""
    network, tokenizer = library(folder)
    rows = [0, *tokenizer.encode(text, add_special_tokens=False).ids]
    nats = []
    for place in range(1, len(rows)):
        start = 0
        while place - start > window:
            start += window // 2
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([rows[start:place]])).logits[0, -1]
        nats.append(-float(torch.log_softmax(logits.double(), -1)[rows[place]]))
    return nats


class TestFigures:
    def test_within_a_window_it_is_one_plain_forward_pass(self, folder: Path) -> None:
        model = opened(folder)
        network, tokenizer = library(folder)
        text = "the cat sat"
        rows = [0, *tokenizer.encode(text, add_special_tokens=False).ids]
        assert len(rows) <= WINDOW
        with torch.no_grad():
            logits_LxR = network(input_ids=torch.tensor([rows])).logits[0]
        wanted_LxR = torch.log_softmax(logits_LxR, -1).numpy()
        ids = model.vocab.encode(text)[None, :]
        got = model.logprobs(ids, model.initial_state())[0][0]
        assert got == pytest.approx(wanted_LxR[np.arange(len(rows) - 1), rows[1:]], abs=TOLERANCE)
        # over the whole vocabulary too, symbol by symbol
        everything = model.all_logprobs(ids, model.initial_state())[0]
        for symbol, row in enumerate(model._symbols.rows_V.tolist()):
            wanted = wanted_LxR[:-1, row] if row >= 0 else np.full(len(rows) - 1, -np.inf)
            assert everything[:, symbol] == pytest.approx(wanted, abs=TOLERANCE)

    @pytest.mark.parametrize("window", [2, 5, WINDOW])
    def test_long_texts_by_windows(self, folder: Path, window: int) -> None:
        text = TEXT[:90]
        model = opened(folder, f",context_size={window}")
        wanted = slow_nats(folder, text, window)
        assert len(wanted) > 3 * window
        ids = model.vocab.encode(text)[None, :]
        got = -model.logprobs(ids, model.initial_state())[0][0]
        assert got == pytest.approx(wanted, abs=TOLERANCE)
        # token by token, from the caches
        state, one_by_one = model.initial_state(), []
        for token in ids[0]:
            one_by_one.append(-model.next_logprobs(state)[0, token])
            _, state = model.logprobs(np.array([[token]]), state)
        assert one_by_one == pytest.approx(wanted, abs=TOLERANCE)

    def test_every_token_is_counted_once(self, gpt2: Path) -> None:
        model = opened(gpt2)
        texts = [TEXT[:70], "the end", "a dog sat on the mat and ate"]
        split = encode_split("test", texts, model.vocab, "file")
        tally = lmzoo.evaluate(model, split)
        wanted = [slow_nats(gpt2, text) for text in texts]
        assert tally.n_tokens == sum(map(len, wanted))
        assert tally.nll_nats == pytest.approx(sum(map(sum, wanted)), rel=1e-6)
        n_bytes = sum(len(text.encode()) for text in texts)
        assert tally.bits_per_byte == pytest.approx(sum(map(sum, wanted)) / math.log(2) / n_bytes, rel=1e-6)

    def test_a_document_ends_with_the_end_token(self, gpt2: Path) -> None:
        """Under `line`, `</s>` is what the network itself says of its end token."""
        model = opened(gpt2)
        split = encode_split("test", ["the cat"], model.vocab, "line")
        network, tokenizer = library(gpt2)
        rows = [0, *tokenizer.encode("the cat", add_special_tokens=False).ids]
        with torch.no_grad():
            last_R = torch.log_softmax(network(input_ids=torch.tensor([rows])).logits[0, -1].double(), -1)
        nats = lmzoo.evaluate(model, split).nll_nats
        assert nats - sum(slow_nats(gpt2, "the cat")) == pytest.approx(-float(last_R[0]), abs=1e-5)

    def test_the_contract(self, folder: Path) -> None:
        results = check_language_model(opened(folder))
        assert {r.name: r.message for r in results if r.status == "failed"} == {}
        skipped = {r.name for r in results if r.status == "skipped"}
        # it stays in its folder, and is not trained here; so many symbols make too many strings
        assert {name for name in skipped if not name.startswith(("persistence.", "training."))} == {
            "probability.strings_sum_to_one",
            "state.classes_of_contexts",
        }

    def test_bfloat16_is_held_to_less(self, llama: Path) -> None:
        model = opened(llama, ",dtype=bfloat16")
        assert {r.name: r.message for r in quick_check(model) if r.status == "failed"} == {}
        nats, exact = (
            -m.logprobs(m.vocab.encode(TEXT[:40])[None, :], m.initial_state())[0] for m in (model, opened(llama))
        )
        # eight bits of each product, over two layers
        assert nats.sum() == pytest.approx(exact.sum(), rel=2e-2)
        assert nats.sum() != pytest.approx(exact.sum(), rel=1e-6)


def bert(**options: Any) -> Any:
    return transformers.BertConfig(
        vocab_size=267, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=WINDOW, **options,
    )  # fmt: skip


def without_cache() -> Any:
    """It takes no cache and gives none."""
    config = transformers.OpenAIGPTConfig(
        vocab_size=267, n_positions=WINDOW, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5
    )
    return transformers.OpenAIGPTLMHeadModel(config)


def state_space() -> Any:
    """What it keeps are states, of which no texts can be selected."""
    config = transformers.MambaConfig(
        vocab_size=267, hidden_size=16, num_hidden_layers=2, state_size=4, initializer_range=0.5
    )
    return transformers.MambaForCausalLM(config)


def decoder_of_bert() -> Any:
    return transformers.BertLMHeadModel(bert(is_decoder=True, initializer_range=0.5))


class TestCaches:
    @pytest.mark.parametrize(
        ("made", "keeps_cache"), [(without_cache, False), (state_space, False), (decoder_of_bert, True)]
    )
    def test_a_network_without_one_reads_its_window_anew(
        self, gpt2: Path, tmp_path: Path, made: Any, keeps_cache: bool
    ) -> None:
        folder = shutil.copytree(gpt2, tmp_path / "copy")
        torch.manual_seed(2)
        save_network(folder, made())
        model = opened(folder, f",context_size={WINDOW}")
        assert model._network.keeps_cache is keeps_cache
        text = TEXT[:40]
        ids = model.vocab.encode(text)[None, :]
        got = -model.logprobs(ids, model.initial_state())[0][0]
        assert got == pytest.approx(slow_nats(folder, text), abs=TOLERANCE)
        results = check_language_model(model)
        assert {r.name: r.message for r in results if r.status == "failed"} == {}

    def test_a_cache_that_tells_something_else_is_not_used(self, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = transformers.GPT2LMHeadModel.forward

        def forgets(self: Any, cache: Any = None, **options: Any) -> Any:
            return plain(self, **options)

        forgets.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
        wanted = slow_nats(gpt2, TEXT[:40])
        monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", forgets)
        model = opened(gpt2)
        assert not model._network.keeps_cache
        ids = model.vocab.encode(TEXT[:40])[None, :]
        assert -model.logprobs(ids, model.initial_state())[0][0] == pytest.approx(wanted, abs=TOLERANCE)


class TestCost:
    """How much the network reads."""

    def test_generating_reads_each_token_once_within_a_window(self, gpt2: Path) -> None:
        model = opened(gpt2)
        read: list[int] = []
        model._network.network.register_forward_pre_hook(
            lambda _, args, kwargs: read.append(kwargs["input_ids"].shape[1]), with_kwargs=True
        )
        lmzoo.sample(model, length=WINDOW - 1)
        # the start, and each token
        assert read == [1] * WINDOW
        read.clear()
        lmzoo.sample(model, length=WINDOW)
        # half a window is read again, with the token that did not fit
        assert read == [1] * WINDOW + [WINDOW - WINDOW // 2 + 1]

    def test_scoring_reads_each_token_at_most_twice(self, gpt2: Path) -> None:
        model = opened(gpt2)
        read: list[int] = []
        model._network.network.register_forward_pre_hook(
            lambda _, args, kwargs: read.append(kwargs["input_ids"].shape[1]), with_kwargs=True
        )
        ids = model.vocab.encode(TEXT)[None, :]
        model.logprobs(ids, model.initial_state())
        assert sum(read) < 2 * ids.size + WINDOW


class TestSymbols:
    def test_every_row_of_the_network_is_one_symbol(self, gpt2: Path) -> None:
        model = opened(gpt2)
        vocab, rows = model.vocab, model._symbols.rows_V.tolist()
        assert vocab.tokens[:3] == ("<unk>", "<s>", "</s>")
        # nothing unknown, and the start is never predicted; the end has the row of the one special token
        assert rows[:3] == [-1, -1, 0]
        assert sorted(rows[2:]) == list(range(267))
        assert [vocab.tokens[i] for i in (-3, -2, -1)] == ["<unused 264>", "<unused 265>", "<unused 266>"]

    def test_a_network_with_markers_of_its_own(self, llama: Path) -> None:
        model = opened(llama)
        tokenizer = tokenizers.Tokenizer.from_file(str(llama / "tokenizer.json"))
        rows = dict(zip(model.vocab.tokens, model._symbols.rows_V.tolist(), strict=True))
        assert rows["<unk>"] == tokenizer.token_to_id("<unk>")
        assert rows["</s>"] == tokenizer.token_to_id("</s>")
        # what it reads first it also predicts, as a symbol that is not <s>
        assert rows["<s>"] == -1
        assert rows["<special <s>>"] == tokenizer.token_to_id("<s>")

    @pytest.mark.parametrize("text", ["a <s> b", "</s>", "<unk>", END, f"the{END}cat", "<special <s>>", "<unused 264>"])
    def test_a_text_that_spells_a_special_token_has_none(self, folder: Path, text: str) -> None:
        model = opened(folder)
        ids = model.vocab.encode(text)
        special = {0, 1, 2} | {
            i for i, token in enumerate(model.vocab.tokens) if token.startswith(("<special", "<unus"))
        }
        assert not special & set(ids.tolist())
        assert model.vocab.decode(ids) == text

    def test_a_network_that_names_only_its_end_starts_with_it(self, gpt2: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(gpt2, tmp_path / "copy")
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": None, "eos_token": END}))
        change_json(folder / "config.json", bos_token_id=None, eos_token_id=None)
        model = opened(folder)
        assert model._symbols.start_row == 0
        assert model.next_logprobs(model.initial_state()) == pytest.approx(
            opened(gpt2).next_logprobs(opened(gpt2).initial_state())
        )


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def without_weights(folder: Path) -> None:
    weights = next(folder.glob("*.safetensors"))
    weights.rename(folder / "pytorch_model.bin")


def without_a_layer(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    held = load_file(path)
    held.pop(sorted(held)[0])
    save_file(held, path, metadata={"format": "pt"})


def not_numbers(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    save_file({name: tensor * math.nan for name, tensor in load_file(path).items()}, path, metadata={"format": "pt"})


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def foreign_code(folder: Path) -> None:
    """A folder that wants its own code to be run."""
    (folder / "modeling_mine.py").write_text("raise SystemExit('run')\n")
    names = {"AutoConfig": "modeling_mine.MyConfig", "AutoModelForCausalLM": "modeling_mine.MyModel"}
    change_json(folder / "config.json", model_type="mine", architectures=["MyModel"], auto_map=names)


def other_shapes(folder: Path) -> None:
    change_json(folder / "config.json", vocab_size=268)


def no_start(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    change_json(folder / "config.json", bos_token_id=None, eos_token_id=None)


class TestFaults:
    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda folder: (folder / "config.json").unlink(), "no config.json, so it is no folder of a transformers"),
            (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json; write one"),
            (lambda folder: (folder / "config.json").write_text("{"), "transformers cannot read|is damaged"),
            (lambda folder: (folder / "tokenizer.json").write_text("{}"), "no tokenizer"),
            (without_weights, "a pickle, which can run code, and is not opened"),
            (without_a_layer, "is incomplete: its weights lack transformer"),
            (not_numbers, "its network gives no finite numbers"),
            (cut_weights, "transformers cannot read"),
            (foreign_code, "needs code of its own folder, which is never run"),
            (other_shapes, "is damaged: its weights have other shapes than its config.json says"),
            (no_start, "names no token that starts or ends a text"),
        ],
    )
    def test_what_cannot_be_read_says_so(self, gpt2: Path, tmp_path: Path, spoil: Any, message: str) -> None:
        folder = shutil.copytree(gpt2, tmp_path / "copy")
        spoil(folder)
        with pytest.raises(StorageError, match=message):
            opened(folder)

    def test_a_tokenizer_that_goes_beyond_the_network(self, gpt2: Path, llama: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(gpt2, tmp_path / "copy")
        save_tokenizer(folder, [END], 280)
        with pytest.raises(StorageError, match=r"as number 2\d\d, the model 267 rows"):
            opened(folder)

    # what a later token changes is a thousandth of the largest logit, or a 20,000th
    @pytest.mark.parametrize("spread", [0.5, 0.02, 0.005])
    def test_a_network_that_looks_ahead(self, gpt2: Path, tmp_path: Path, spread: float) -> None:
        folder = shutil.copytree(gpt2, tmp_path / "copy")
        torch.manual_seed(0)
        save_network(folder, transformers.BertLMHeadModel(bert(initializer_range=spread)))
        with pytest.raises(StorageError, match="holds no causal model"):
            opened(folder)

    def test_a_network_that_looks_ahead_by_one_token(self, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = transformers.GPT2LMHeadModel.forward

        def looks_ahead(self: Any, input_ids: Any = None, **options: Any) -> Any:
            answer = plain(self, input_ids=input_ids, **options)
            answer.logits[:, :-1, 7] += 1e-3 * input_ids[:, 1 : answer.logits.shape[1]]
            return answer

        monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", looks_ahead)
        with pytest.raises(StorageError, match="holds no causal model"):
            opened(gpt2)

    def test_what_fails_while_it_reads_is_one_line_with_its_cause(
        self, gpt2: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def raising(self: Any, **options: Any) -> Any:
            raise error

        model = opened(gpt2)
        monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", raising)
        error: Exception = KeyError("pixel\nvalues")
        line = rf"^the GPT2LMHeadModel of {gpt2} fails on 1 tokens: KeyError: 'pixel\\nvalues'$"
        with pytest.raises(StorageError, match=line):
            model.initial_state()
        with pytest.raises(StorageError, match=r"GPT2LMHeadModel of .* fails on 8 tokens: KeyError"):
            opened(gpt2)
        # which is no fault of the network's
        error = MemoryError("full")
        with pytest.raises(MemoryError, match="full"):
            model.initial_state()

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            (",context_size=1", OptionValueError, "context_size must be at least 2, got 1"),
            (",context_size=13", OptionValueError, "context_size is at most 12"),
            (",dtype=float16", OptionValueError, "dtype of hf is one of float32, bfloat16"),
            (",device=tpu", OptionValueError, "device is cpu, cuda or cuda:n, got 'tpu'"),
            (",device=cuda:99", MissingDeviceError, "cuda:99 is not here"),
        ],
    )
    def test_what_is_wrong_is_named(self, gpt2: Path, options: str, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            opened(gpt2, options)

    def test_what_is_no_folder(self, gpt2: Path) -> None:
        with pytest.raises(SpecError, match="hf needs its path; write hf:<path>"):
            lmzoo.read_model("hf")
        with pytest.raises(StorageError, match="no such folder"):
            lmzoo.read_model("hf:nowhere")
        with pytest.raises(StorageError, match="it is a file; name the folder that it is in"):
            opened(gpt2 / "config.json")


def test_a_text_is_one_document_for_it(gpt2: Path) -> None:
    # its end token ends texts, so that none is charged here
    model = opened(gpt2)
    assert policy_of(model) == "file"
    ((_, logprob),) = lmzoo.rank(model, ["the cat"])
    assert logprob == pytest.approx(-sum(slow_nats(gpt2, "the cat")), abs=1e-4)


def test_it_stays_in_its_folder(gpt2: Path, tmp_path: Path) -> None:
    model = opened(gpt2)
    assert model.file_bytes == (gpt2 / "model.safetensors").stat().st_size
    with pytest.raises(StorageError, match="HfModel cannot be saved: it stays where it was read from"):
        lmzoo.save(model, tmp_path / "model.lm")


def test_a_record_knows_the_folder_by_name_and_content(gpt2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(gpt2, tmp_path / "copies" / gpt2.name)
    options = recorded_options(f'hf:"{folder}"')
    assert options == recorded_options(f'hf:"{gpt2}"')
    assert options["path"] == gpt2.name
    # what is not read decides nothing
    (folder / "README.md").write_text("a note")
    assert options == recorded_options(f'hf:"{folder}"')
    change_json(folder / "config.json", n_head=1)
    assert options != recorded_options(f'hf:"{folder}"')


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else name)
    assert available_models()["hf"].endswith(
        "(not here: transformers is not installed: python -m pip install 'lmzoo[hf]')"
    )
    with pytest.raises(MissingLibraryError, match="hf: transformers is not installed"):
        lmzoo.read_model("hf:folder")
