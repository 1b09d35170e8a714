"""What the front asks of a tokenizer; sgl_core.checkpoint's Tokenizer provides it, tests bring small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class TextTokenizer(Protocol):
    """Text to ids and back. ``size`` is the number of logits of the model."""

    @property
    def size(self) -> int: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def special_token_ids(self) -> frozenset[int]: ...

    @property
    def decoder_json(self) -> str:
        """The decoder of a serialized tokenizer, as JSON; empty where there is none."""
        ...

    @property
    def chat_templates(self) -> Mapping[str, str]:
        """Jinja texts by name; ``default`` where the model has one."""
        ...

    @property
    def special_tokens(self) -> Mapping[str, Any]:
        """Texts by role, for templates: ``bos_token``, ``eos_token``, ``pad_token`` ..."""
        ...

    def encode(self, text: str, add_special: bool = True) -> list[int]: ...

    def encode_pair(self, text: str, second: str) -> tuple[list[int], int]:
        """The ids of two texts as one prompt, and from where they have the second's token type (0: nowhere)."""
        ...

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str: ...

    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes of a token; empty for special tokens."""
        ...
