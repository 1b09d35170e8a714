"""Tokenizers of Hugging Face folders, against transformers on the same folder, and the Tokenizer interface."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, processors

from sgl_core.checkpoint import Tokenizer, TokenizerError, describe, load_tokenizer


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def load(root: Path) -> Tokenizer:
    return load_tokenizer(describe(root))


TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(["<|im_start|>", "<|bos|>", " 12", "'ll", "\r\n", "  ", "Héllo ", "世界", "🤣"])).map(
        "".join
    ),
)


@given(TEXTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(byte_bpe: Backend, text: str) -> None:
    tokenizer = Tokenizer(byte_bpe)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special=False) == text
    assert tokenizer.encode_batch([text, "a"]) == [ids, tokenizer.encode("a")]


def test_equals_transformers(hf_folder: Path) -> None:
    from transformers import AutoTokenizer

    edit(hf_folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    theirs, ours = AutoTokenizer.from_pretrained(hf_folder), load(hf_folder)

    @given(TEXTS)
    @settings(deadline=None, max_examples=60)
    def check(text: str) -> None:
        assert ours.encode(text) == theirs(text).input_ids
        ids = ours.encode(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    check()
    assert ours.eos_token_ids == (theirs.eos_token_id,)
    assert ours.bos_token_id == theirs.bos_token_id
    assert ours.special_token_ids == set(theirs.all_special_ids) | {1}


def test_ends_come_from_all_three_files(hf_folder: Path) -> None:
    (hf_folder / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    edit(hf_folder / "config.json", eos_token_id=9, text_config={"eos_token_id": 11})
    assert load(hf_folder).eos_token_ids == (7, 9, 11, 2)


def test_sizes(hf_folder: Path) -> None:
    tokenizer = load(hf_folder)
    assert (tokenizer.vocab_size, tokenizer.size) == (400, 416)
    edit(hf_folder / "config.json", vocab_size=10)
    assert load(hf_folder).size == 400
    assert load_tokenizer(describe(hf_folder), {"text_config": {"vocab_size": 512}}).size == 512


def test_ids_beyond_the_tokenizer_are_nothing(hf_folder: Path) -> None:
    tokenizer = load(hf_folder)
    ids = tokenizer.encode("fox")
    assert tokenizer.decode([*ids, 410]) == "fox"
    assert tokenizer.token_bytes(410) == tokenizer.token_bytes(-1) == b""
    with pytest.raises(TokenizerError, match="-1 is not a token id"):
        tokenizer.decode([-1])


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_lone_surrogate_is_refused_with_its_place(hf_folder: Path, text: str) -> None:
    tokenizer = load(hf_folder)
    place = text.index(next(char for char in text if char > "\ud7ff"))
    with pytest.raises(TokenizerError, match=f"lone surrogate .* at character {place}"):
        tokenizer.encode(text)
    with pytest.raises(TokenizerError, match="lone surrogate"):
        tokenizer.encode_batch(["fine", text])
    assert tokenizer.decode(tokenizer.encode("😀")) == "😀"


def test_emoji_bytes_over_several_tokens(hf_folder: Path) -> None:
    tokenizer = load(hf_folder)
    parts = [tokenizer.token_bytes(index) for index in tokenizer.encode("🦊")]
    assert len(parts) > 1
    assert b"".join(parts) == "🦊".encode()


def bos_post_processor() -> Any:
    return processors.TemplateProcessing(single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[("<|bos|>", 0)])


@pytest.mark.parametrize(
    ("tokenizer_class", "flag", "in_json", "adds"),
    [
        ("LlamaTokenizerFast", True, False, True),
        ("LlamaTokenizerFast", False, True, False),
        ("LlamaTokenizerFast", None, True, True),
        ("PreTrainedTokenizerFast", None, True, True),
        ("PreTrainedTokenizerFast", False, True, True),  # the post-processor of tokenizer.json rules
        ("PreTrainedTokenizerFast", True, False, True),  # there is none
        ("PreTrainedTokenizerFast", None, False, False),
    ],
)
def test_bos_by_flag_and_post_processor(
    hf_folder: Path, byte_bpe: Backend, tokenizer_class: str, flag: bool | None, in_json: bool, adds: bool
) -> None:
    backend = Backend.from_str(byte_bpe.to_str())
    if in_json:
        backend.post_processor = bos_post_processor()
    backend.save(str(hf_folder / "tokenizer.json"))
    edit(
        hf_folder / "tokenizer_config.json",
        tokenizer_class=tokenizer_class,
        **({} if flag is None else {"add_bos_token": flag}),
    )
    tokenizer = load(hf_folder)
    assert tokenizer.adds_bos is adds
    assert tokenizer.encode("fox").count(0) == int(adds)
    assert tokenizer.encode("fox", add_special=False).count(0) == 0
    # Whatever adds it, a rendered template that begins with BOS has it once.
    assert tokenizer.starts_with_bos("<|bos|>fox")
    assert tokenizer.encode_rendered("<|bos|>fox").count(0) == 1
    assert tokenizer.encode("fox") == tokenizer.encode_rendered("fox")


def test_no_bos_token_at_all(hf_folder: Path) -> None:
    (hf_folder / "tokenizer_config.json").write_text('{"add_bos_token": true}')
    tokenizer = load(hf_folder)
    assert tokenizer.bos_token is None
    assert not tokenizer.starts_with_bos("")
    assert tokenizer.encode("fox") == tokenizer.encode_rendered("fox")


@pytest.mark.parametrize(
    ("stored", "default"),
    [
        ("one", "one"),
        ([{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}], "one"),
        ([{"name": "a", "template": "one"}], "one"),
        ([{"name": "a", "template": "one"}, {"name": "b", "template": "two"}], None),
        (None, None),
    ],
)
def test_chat_templates_of_the_config(hf_folder: Path, stored: Any, default: str | None) -> None:
    edit(hf_folder / "tokenizer_config.json", chat_template=stored)
    assert load(hf_folder).chat_template == default


def test_chat_template_files_win(hf_folder: Path) -> None:
    (hf_folder / "chat_template.jinja").write_text("from file")
    (hf_folder / "additional_chat_templates").mkdir()
    (hf_folder / "additional_chat_templates" / "tool_use.jinja").write_text("tools")
    tokenizer = load(hf_folder)
    assert tokenizer.chat_template == "from file"
    assert tokenizer.chat_templates["tool_use"] == "tools"


def test_tokens_that_only_the_config_knows(hf_folder: Path) -> None:
    added = {"400": {"content": "<|new|>", "special": True}, "401": {"content": "<tool>", "special": False}}
    edit(hf_folder / "tokenizer_config.json", added_tokens_decoder=added)
    tokenizer = load(hf_folder)
    assert tokenizer.encode("<|new|><tool>") == [400, 401]
    assert tokenizer.decode([400, 401]) == "<tool>"
    assert tokenizer.token_bytes(401) == b"<tool>"


def test_sentencepiece_leading_space_is_the_decoders_business() -> None:
    vocabulary = {
        "<unk>": 0,
        "\u2581": 1,
        "\u2581leading": 2,
        "\u2581x": 3,
        "<0xF0>": 4,
        "<0x9F>": 5,
        "<0xA4>": 6,
        "<0xA3>": 7,
    }
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer = Tokenizer(backend)
    assert tokenizer.decode([1, 2, 3]) == "  leading x"[1:]
    assert [tokenizer.token_bytes(index) for index in (2, 4, 5, 6, 7)] == [
        b" leading",
        b"\xf0",
        b"\x9f",
        b"\xa4",
        b"\xa3",
    ]
    assert tokenizer.decode([4, 5, 6, 7]) == "🤣"


def test_serialization_reads_back(hf_folder: Path) -> None:
    tokenizer = load(hf_folder)
    assert Backend.from_str(tokenizer.tokenizer_json).encode("fox 12").ids == tokenizer.encode("fox 12")


def test_tokenizer_of_another_folder_or_file(hf_folder: Path, make_gguf: Callable[..., Path], tmp_path: Path) -> None:
    model = describe(make_gguf(vocab=512))
    elsewhere = tmp_path / "tokenizer only"
    elsewhere.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (hf_folder / name).rename(elsewhere / name)
    for path in (elsewhere, elsewhere / "tokenizer.json"):
        tokenizer = load_tokenizer(model, path=path)
        assert (tokenizer.vocab_size, tokenizer.size, tokenizer.bos_token) == (400, 512, "<|bos|>")
    with pytest.raises(TokenizerError, match="no such tokenizer folder"):
        load_tokenizer(model, path=tmp_path / "nothing")


def test_refusals(hf_folder: Path) -> None:
    (hf_folder / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: not a readable tokenizer"):
        load(hf_folder)
    (hf_folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"no tokenizer here.*--tokenizer-path"):
        load(hf_folder)


def test_original_vocabulary_goes_through_transformers(hf_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = json.loads((hf_folder / "tokenizer.json").read_text())["model"]
    (hf_folder / "tokenizer.json").unlink()
    (hf_folder / "vocab.json").write_text(json.dumps(state["vocab"]))
    (hf_folder / "merges.txt").write_text("\n".join(["#version: 0.2", *(" ".join(merge) for merge in state["merges"])]))
    edit(hf_folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer")
    edit(hf_folder / "config.json", model_type="gpt2")
    tokenizer = load(hf_folder)
    assert tokenizer.decode(tokenizer.encode("the quick fox")) == "the quick fox"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TokenizerError, match=r"vocab\.json.*pip install transformers"):
        load(hf_folder)
