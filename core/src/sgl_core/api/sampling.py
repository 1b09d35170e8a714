"""SamplingParams: how one request wants its tokens drawn and when it ends. Validated at the edge, trusted inside."""

from __future__ import annotations

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The internal form that every API translates to.

    ``temperature`` 0 means greedy. ``top_k`` 0 means no limit. ``stop`` strings and ``stop_regex`` are matched by the front on
    detokenized text; ``stop_token_ids`` and the model's end-of-sequence ids by the scheduler. ``seed`` makes draws a function
    of (seed, number of tokens generated so far) only. Penalties: presence and frequency count generated tokens, repetition
    counts prompt and generated tokens.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_regex: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    custom_params: dict[str, object] | None = None

    @property
    def greedy(self) -> bool:
        """Whether every token is the arg max: temperature 0 and top_k 1 mean the same."""
        return self.temperature == 0.0 or self.top_k == 1


class LogprobOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which log-probabilities a request wants back. ``top`` 0 still returns the chosen tokens' own.

    ``prompt_start`` is the first prompt position whose logprob is wanted; -1 means none. ``token_ids`` are
    vocabulary ids whose logprobs are wanted at each position.
    """

    output: bool = False
    top: int = 0
    prompt_start: int = -1
    token_ids: tuple[int, ...] = ()


class GrammarRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint on the output: ``kind`` is json_object, json_schema, regex, ebnf, choice, structural_tag or tool_calls; ``thinking``
    holds nothing but what must not come while the model reasons.

    ``text`` is the schema, pattern or grammar as text (JSON text keeps the client's key order). ``after_reasoning`` delays the constraint
    until the reasoning end marker has been generated; ``may_reason`` lets the model choose: its first token either opens reasoning, which
    then delays the constraint, or obeys it.
    """

    kind: str
    text: str = ""
    strict: bool = True
    after_reasoning: bool = False
    may_reason: bool = False
