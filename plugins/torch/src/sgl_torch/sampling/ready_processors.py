"""Ready logit processors, by name: token bans, thinking budgets, no repeated n-grams. Semantics of the reference system's classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .processors import ProcessorRow

_NEVER = float("-inf")


class DisallowedTokens:
    """``custom_params.token_ids`` are never drawn."""

    def check(self, params: Mapping[str, Any], vocab_size: int) -> None:
        token_ids(params, "token_ids", vocab_size)

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        lines = [line for line, row in enumerate(rows) for _ in row.params["token_ids"]]
        logits[lines, [token for row in rows for token in row.params["token_ids"]]] = _NEVER


class AllowedTokens:
    """Nothing but ``custom_params.token_ids`` is drawn."""

    def check(self, params: Mapping[str, Any], vocab_size: int) -> None:
        token_ids(params, "token_ids", vocab_size)

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> torch.Tensor:
        lines = [line for line, row in enumerate(rows) for _ in row.params["token_ids"]]
        tokens = [token for row in rows for token in row.params["token_ids"]]
        kept = torch.full_like(logits, _NEVER)
        kept[lines, tokens] = logits[lines, tokens]
        return kept


class ThinkingBudget:
    """After ``custom_params.thinking_budget`` tokens of thinking a new line is forced, then the end of the thinking.

    Which tokens these are is said by ``thinking_start_token_id``, ``thinking_end_token_id`` and ``new_line_token_id`` beside
    it; families have them as attributes.
    """

    start: int | None = None
    end: int | None = None
    new_line: int | None = None

    def check(self, params: Mapping[str, Any], vocab_size: int) -> None:
        budget = params.get("thinking_budget")
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
            raise ValueError(f"custom_params.thinking_budget must be a number of tokens from 0 up, not {budget!r}")
        for token in self._marks(params):
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
                raise ValueError(
                    f"thinking tokens {list(self._marks(params))} are not in this model's vocabulary of {vocab_size}; "
                    "take thinking_budget with thinking_start_token_id, thinking_end_token_id and new_line_token_id"
                )

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        forced = [(line, token) for line, row in enumerate(rows) if (token := self._forced(row)) is not None]
        if forced:
            lines, tokens = (list(side) for side in zip(*forced, strict=True))
            logits[lines] = _NEVER
            logits[lines, tokens] = 0.0

    def _marks(self, params: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        return (
            params.get("thinking_start_token_id", self.start),
            params.get("thinking_end_token_id", self.end),
            params.get("new_line_token_id", self.new_line),
        )

    def _forced(self, row: ProcessorRow) -> int | None:
        """The token that must come now, if any."""
        start, end, new_line = self._marks(row.params)
        ids: list[int] = [*row.prompt_ids, *row.output_ids]
        if start not in ids or end in ids:
            return None
        if len(ids) - ids.index(start) - 1 < row.params["thinking_budget"]:
            return None
        if not row.output_ids or row.output_ids[-1] != new_line:
            return int(new_line)
        return int(end)


class Qwen3ThinkingBudget(ThinkingBudget):
    start, end, new_line = 151667, 151668, 198


class DeepSeekR1ThinkingBudget(ThinkingBudget):
    start, end, new_line = 128798, 128799, 201


class NoRepeatNgram:
    """No n-gram of ``custom_params.ngram_size`` tokens comes twice within the last ``window_size`` tokens, prompt included;
    ``whitelist_token_ids`` may."""

    def check(self, params: Mapping[str, Any], vocab_size: int) -> None:
        for name in ("ngram_size", "window_size"):
            value = params.get(name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"custom_params.{name} must be a number from 1 up, not {value!r}")
        if params.get("whitelist_token_ids"):
            token_ids(params, "whitelist_token_ids", vocab_size)

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        for line, row in enumerate(rows):
            banned = sorted(self._banned(row))
            if banned:
                logits[line, banned] = _NEVER

    @staticmethod
    def _banned(row: ProcessorRow) -> set[int]:
        size, window = row.params["ngram_size"], row.params["window_size"]
        ids = [*row.prompt_ids, *row.output_ids]
        before = ids[len(ids) - size + 1 :]
        starts = range(max(0, len(ids) - window), len(ids) - size + 1)
        seen = {ids[at + size - 1] for at in starts if ids[at : at + size - 1] == before}
        return seen - set(row.params.get("whitelist_token_ids") or ())


def token_ids(params: Mapping[str, Any], name: str, vocab_size: int) -> Sequence[int]:
    """A list of ids of the vocabulary. Raises ValueError naming the parameter."""
    value = params.get(name)
    if not isinstance(value, list) or not value:
        raise ValueError(f"custom_params.{name} must be a list of token ids that is not empty, not {value!r:.60}")
    for token in value:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
            raise ValueError(f"custom_params.{name}: {token!r:.60} is not in the vocabulary of {vocab_size}")
    return value
