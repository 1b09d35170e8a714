"""What configuration can refuse: a value that is not legal, a combination that a rule forbids, a rule that is itself wrong."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigError(ValueError):
    """The configuration is refused.

    ``fields`` are the settings concerned, ``because`` the reason, ``fix`` what to change, ``kind`` the error class name that the
    reference system raises, ``rule`` the rule that refused (empty where a value itself is not legal), ``where`` its
    distribution and place in the source.
    """

    def __init__(
        self,
        because: str,
        *,
        fields: tuple[str, ...] = (),
        fix: str = "",
        kind: str = "ValueError",
        rule: str = "",
        where: str = "",
    ) -> None:
        self.fields = fields
        self.because = because
        self.fix = fix
        self.kind = kind
        self.rule = rule
        self.where = where
        super().__init__(self.message())

    def message(self) -> str:
        """The refusal for people: fields, reason, what to do, who says so."""
        text = self.because
        if self.fields and not any(name in text for name in self.fields):
            text = f"{', '.join(self.fields)}: {text}"
        if self.fix:
            text += f"\n  Fix: {self.fix}"
        if self.rule:
            text += f"\n  Decided by rule {self.rule}" + (f" ({self.where})" if self.where else "")
        return text


class RuleError(RuntimeError):
    """A rule is wrong: it raised, or declared a field that it did not announce. Names the rule, its package and its line."""


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`` Did you mean 'x'?`` with the nearest names (at most three), or an empty text."""
    near = get_close_matches(word, list(known), n=3, cutoff=cutoff)
    if not near:
        return ""
    return " Did you mean " + " or ".join(repr(name) for name in near) + "?"
