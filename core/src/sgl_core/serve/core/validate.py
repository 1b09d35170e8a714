"""Every value of a request is checked here, whatever API it came by, before it can reach the engine. Errors name the client's field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgl_core.api.sampling import LogprobOptions, SamplingParams

from .errors import RequestError, refuse
from .request import ModelCard
from .stops import compile_pattern

MAX_STOPS = 64
MAX_STOP_CHARS = 4096
MAX_PATTERNS = 16
MAX_STOP_TOKENS = 256
MAX_BIASES = 1024
MAX_CHOICES = 128
MAX_LOGPROB_TOKENS = 128
SMALLEST_TEMPERATURE = 1e-5
"""A temperature below this is greedy: dividing logits by it would overflow."""


@dataclass(frozen=True, slots=True)
class Range:
    """Allowed numbers. ``above`` excludes the low end itself."""

    low: float
    high: float
    above: bool = False

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.above else f"at least {self.low:g}"
        return low if self.high == math.inf else f"{low} and at most {self.high:g}"

    def holds(self, value: float) -> bool:
        return (value > self.low if self.above else value >= self.low) and value <= self.high


NUMBERS: Mapping[str, Range] = {
    "temperature": Range(0, 100),
    "top_p": Range(0, 1, above=True),
    "min_p": Range(0, 1),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "repetition_penalty": Range(0, 10, above=True),
}
FLAGS = ("ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim")
NAMES = (
    *NUMBERS,
    *FLAGS,
    "max_new_tokens",
    "min_new_tokens",
    "top_k",
    "logit_bias",
    "seed",
    "stop",
    "stop_regex",
    "stop_token_ids",
    "custom_params",
)
"""The internal names of sampling values; an API maps its own names to them."""


class SamplingValues:
    """Sampling values of one request under internal names, read with checks. ``names`` maps internal names to the client's."""

    def __init__(self, values: Mapping[str, Any], card: ModelCard, names: Mapping[str, str] | None = None) -> None:
        self.values = {name: value for name, value in values.items() if value is not None}
        self.card = card
        self._names = names or {}

    def named(self, name: str) -> str:
        """The client's name of an internal name."""
        return self._names.get(name, name)

    def get(self, name: str, fallback: Any = None) -> Any:
        value = self.values.get(name)
        return self.card.defaults.get(name, fallback) if value is None else value

    def number(self, name: str, fallback: float) -> float:
        value = check_number(self.get(name, fallback), self.named(name))
        allowed = NUMBERS[name]
        if not allowed.holds(value):
            raise refuse(self.named(name), f"must be {allowed}, not {value:g}")
        return value

    def integer(self, name: str, fallback: int | None, low: int, high: int | None = None) -> int | None:
        value = self.get(name, fallback)
        return None if value is None else check_integer(value, self.named(name), low, high)

    def flag(self, name: str, fallback: bool) -> bool:
        value = self.get(name, fallback)
        if not isinstance(value, bool):
            raise refuse(self.named(name), f"must be true or false, not {shown(value)}")
        return value

    def top_k(self) -> int:
        value = check_integer(self.get("top_k", 0), self.named("top_k"), -1)
        return 0 if value <= 0 or value >= self.card.vocab_size > 0 else value

    def logit_bias(self) -> dict[int, float] | None:
        value, name = self.get("logit_bias"), self.named("logit_bias")
        if not value:
            return None
        if not isinstance(value, Mapping):
            raise refuse(name, f"must map token ids to numbers, not be {shown(value)}")
        if len(value) > MAX_BIASES:
            raise refuse(name, f"has {len(value)} entries; at most {MAX_BIASES} are served")
        return {self._bias_token(key, name): self._bias(key, bias, name) for key, bias in value.items()}

    def _bias_token(self, key: Any, name: str) -> int:
        try:
            token = int(key)
        except (TypeError, ValueError):
            raise refuse(name, f"{shown(key)} is not a token id") from None
        return check_token(token, name, self.card)

    def _bias(self, key: Any, bias: Any, name: str) -> float:
        number = check_number(bias, f"{name}[{key}]", param=name)
        if not -100 <= number <= 100:
            raise refuse(name, f"the bias of token {key} must be from -100 to 100, not {number:g}")
        return number

    def stops(self) -> tuple[str, ...]:
        return self._texts("stop", MAX_STOPS)

    def patterns(self) -> tuple[str, ...]:
        patterns = self._texts("stop_regex", MAX_PATTERNS)
        for pattern in patterns:
            compile_pattern(pattern)
        return patterns

    def _texts(self, key: str, most: int) -> tuple[str, ...]:
        value, name = self.get(key), self.named(key)
        if value is None:
            return ()
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, Sequence):
            raise refuse(name, f"must be a string or a list of strings, not {shown(value)}")
        if len(entries) > most:
            raise refuse(name, f"has {len(entries)} entries; at most {most} are served")
        for entry in entries:
            if entry is None and len(entries) == 1:
                return ()
            if not isinstance(entry, str):
                raise refuse(name, f"holds {shown(entry)}, which is not a string")
            if not entry:
                raise refuse(name, "holds an empty string, which would end every answer at once")
            if len(entry) > MAX_STOP_CHARS:
                raise refuse(name, f"holds an entry of {len(entry)} characters; at most {MAX_STOP_CHARS} are served")
            check_text(entry, name)
        return tuple(dict.fromkeys(entries))

    def stop_tokens(self) -> tuple[int, ...]:
        value, name = self.get("stop_token_ids"), self.named("stop_token_ids")
        if value is None:
            return ()
        if isinstance(value, bool) or not isinstance(value, int | Sequence) or isinstance(value, str):
            raise refuse(name, f"must be a list of token ids, not {shown(value)}")
        ids = [value] if isinstance(value, int) else value
        if len(ids) > MAX_STOP_TOKENS:
            raise refuse(name, f"has {len(ids)} entries; at most {MAX_STOP_TOKENS} are served")
        return tuple(dict.fromkeys(check_token(token, name, self.card) for token in ids))


def sampling_params(
    values: Mapping[str, Any],
    card: ModelCard,
    *,
    names: Mapping[str, str] | None = None,
    fewest: int = 0,
    max_new_tokens: int | None = None,
) -> SamplingParams:
    """Checked sampling parameters. ``max_new_tokens`` is the default where the request has none; it may stay None.

    ``fewest`` is the smallest max_new_tokens of the API (chat: 1). Raises RequestError naming the client's field.
    """
    given = SamplingValues(values, card, names)
    temperature = given.number("temperature", 1.0)
    most = given.integer("max_new_tokens", max_new_tokens, fewest)
    least = given.integer("min_new_tokens", 0, 0) or 0
    if most is not None and least > most:
        raise refuse(
            given.named("min_new_tokens"), f"{least} is more than {given.named('max_new_tokens')}, which is {most}"
        )
    seed = given.integer("seed", None, -(2**63), 2**63 - 1)
    custom = given.get("custom_params")
    if custom is not None and not isinstance(custom, Mapping):
        raise refuse(given.named("custom_params"), f"must be an object, not {shown(custom)}")
    return SamplingParams(
        max_new_tokens=most,
        min_new_tokens=least,
        temperature=0.0 if temperature < SMALLEST_TEMPERATURE else temperature,
        top_p=given.number("top_p", 1.0),
        top_k=given.top_k(),
        min_p=given.number("min_p", 0.0),
        presence_penalty=given.number("presence_penalty", 0.0),
        frequency_penalty=given.number("frequency_penalty", 0.0),
        repetition_penalty=given.number("repetition_penalty", 1.0),
        logit_bias=given.logit_bias(),
        seed=None if seed is None else seed & (2**63 - 1),
        stop=given.stops(),
        stop_regex=given.patterns(),
        stop_token_ids=given.stop_tokens(),
        ignore_eos=given.flag("ignore_eos", False),
        skip_special_tokens=given.flag("skip_special_tokens", True),
        spaces_between_special_tokens=given.flag("spaces_between_special_tokens", True),
        no_stop_trim=given.flag("no_stop_trim", False),
        custom_params=None if custom is None else dict(custom),
    )


def logprob_options(
    card: ModelCard, *, output: bool, top: int, prompt_start: int = -1, token_ids: Sequence[int] = (), name: str = ""
) -> LogprobOptions:
    """Log-probabilities to return; the token ids are checked against the vocabulary under the client's field ``name``."""
    if len(token_ids) > MAX_LOGPROB_TOKENS:
        raise refuse(name, f"has {len(token_ids)} token ids; at most {MAX_LOGPROB_TOKENS} are served")
    wanted = tuple(check_token(token, name, card) for token in token_ids)
    return LogprobOptions(output=output, top=top, prompt_start=prompt_start, token_ids=wanted)


def fit_context(sampling: SamplingParams, prompt_tokens: int, card: ModelCard, *, param: str, limit_param: str) -> int:
    """The number of new tokens to ask for. ``param`` names the client's prompt field, ``limit_param`` its token limit.

    Unset: all that the context has left. Raises RequestError with both numbers where prompt and answer cannot fit.
    """
    asked, context = sampling.max_new_tokens, card.context_length
    if not context:
        return asked if asked is not None else 128
    room = context - prompt_tokens
    if room < (0 if asked == 0 else 1):
        raise RequestError(
            f"{param}: the prompt has {prompt_tokens} tokens and the model's context is {context} tokens; "
            "shorten the prompt",
            param=param,
            code="context_length_exceeded",
        )
    if asked is None:
        return room
    if asked > room:
        if card.auto_truncate:
            return room
        raise RequestError(
            f"{limit_param}: the model's context is {context} tokens, but {prompt_tokens + asked} were asked for "
            f"({prompt_tokens} in the prompt, {asked} for the answer)",
            param=limit_param,
            code="context_length_exceeded",
        )
    return asked


def check_generates(card: ModelCard) -> None:
    """Raises RequestError where the model writes no text."""
    if card.generates:
        return
    routes = "/v1/rerank, /v1/score or /classify" if card.labels else "/v1/embeddings, /v1/score or /v1/rerank"
    why = "classifies texts" if card.labels else "gives embeddings"
    raise RequestError(
        f"model {card.name!r} {why} and generates no text: use {routes}", param="model", code="not_generative"
    )


def check_number(value: Any, name: str, param: str | None = None) -> float:
    """A finite number; booleans and texts are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(param or name, f"must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise refuse(param or name, f"must be a finite number, not {shown(value)}")
    return number


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """An integer in range; 16.0 counts as 16."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(name, f"must be an integer, not {shown(value)}")
    if value < low or (high is not None and value > high):
        raise refuse(
            name, f"must be at least {low}{'' if high is None else f' and at most {high}'}, not {shown(value)}"
        )
    return value


def check_token(value: Any, name: str, card: ModelCard) -> int:
    """A token id of the vocabulary."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(name, f"{shown(value)} is not a token id")
    if value < 0 or (card.vocab_size and value >= card.vocab_size):
        raise refuse(name, f"token id {shown(value)} is outside the vocabulary of {card.vocab_size} tokens")
    return value


def check_text(text: str, name: str) -> str:
    """A text that can be encoded; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refuse(name, "holds half of a surrogate pair, which is not text") from None
    return text


def check_texts(value: Any, name: str) -> None:
    """:func:`check_text` for every text, keys included, in a JSON value."""
    if isinstance(value, str):
        check_text(value, name)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            check_text(str(key), name)
            check_texts(entry, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            check_texts(entry, f"{name}[{index}]")


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
