"""Forced tokens: each is the only one its mask allows, they are spelled as the tokenizer spells them, and texts stay what they were."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from sgl_core.api.sampling import GrammarRequest
from sgl_grammar import backends
from sgl_grammar.vocabulary import TokenTable

WORDS = 'temperature celsius background image colour "temperature_celsius": "colour": {" "} [" 12 345 red blue äöü'


class Bpe:
    """A byte-level BPE vocabulary with an end of sequence and a marker."""

    def __init__(self):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<eos>", "<call>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator([WORDS] * 20, trainer)
        self.tokenizer = tokenizer
        self.size = tokenizer.get_vocab_size()
        self.eos_token_ids = (0,)
        self.special_token_ids = frozenset({0, 1})
        self.tokenizer_json = tokenizer.to_str()
        unicode_of = {c: b for b, c in _bytes_to_unicode().items()}
        self._bytes = [
            b"" if i < 2 else bytes(unicode_of[c] for c in tokenizer.id_to_token(i)) for i in range(self.size)
        ]

    def token_bytes(self, token_id):
        return self._bytes[token_id]


def _bytes_to_unicode():
    """The printable stand-ins of ByteLevel (the table of GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + n) for n, b in enumerate(others)}}


@pytest.fixture(scope="module")
def bpe():
    return Bpe()


CONSTRAINTS = [
    GrammarRequest(
        kind="json_schema",
        text=json.dumps(
            {
                "type": "object",
                "properties": {
                    "temperature_celsius": {"type": "integer", "minimum": 0, "maximum": 99},
                    "colour": {"enum": ["red", "reddish", "blue"]},
                    "ä": {"const": "background image"},
                },
                "required": ["temperature_celsius", "colour", "ä"],
                "additionalProperties": False,
            }
        ),
    ),
    GrammarRequest(kind="regex", text="(background image|background imagination){2} äöü"),
    GrammarRequest(kind="ebnf", text='root ::= "temperature " [0-9]{2} " celsius" ("!" | "?")'),
]


def allowed(matcher, size):
    mask = np.zeros((1, -(-size // 32)), np.int32)
    matcher.fill_mask(mask, 0)
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]).tolist()


@pytest.mark.parametrize("name", ["xgrammar", "llguidance", "outlines"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["schema", "regex", "ebnf"])
def test_a_forced_token_is_the_only_one_allowed(bpe, name, constraint):
    compiled = getattr(backends, name)(bpe).compile(constraint)
    rng, seen = random.Random(0), 0
    for _ in range(12):
        matcher, text = compiled.matcher(), b""
        for _ in range(400):
            if matcher.finished():
                break
            run = matcher.forced()
            assert not set(run) & bpe.special_token_ids
            for token in run:
                assert allowed(matcher, bpe.size) == [token]
                assert matcher.accept(token)
                text += bpe.token_bytes(token)
                seen += 1
            choices = allowed(matcher, bpe.size)
            token = rng.choice([c for c in choices if bpe.token_bytes(c).strip()] or choices)
            if token in bpe.eos_token_ids:
                break
            assert matcher.accept(token)
            text += bpe.token_bytes(token)
        text.decode()
    assert seen or name == "outlines"


def test_forced_text_is_spelled_as_the_tokenizer_does_and_its_end_is_left_open(bpe):
    table = TokenTable(bpe)

    def spelled(text):
        return "".join(bpe.token_bytes(t).decode() for t in table.forced(text))

    assert (
        list(table.forced("temperature_celsius"))
        == bpe.tokenizer.encode("temperature_celsius").ids[: len(table.forced("temperature_celsius"))]
    )
    assert spelled('temperature"') == "temperature"  # the quote may become '":'
    assert spelled("temp") == ""  # "temperature" may follow
    assert spelled("<call>") != "<call>" or 1 not in table.forced("<call>")
