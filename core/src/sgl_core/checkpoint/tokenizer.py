"""Tokenizer: text to ids and back, the bytes of a token, special tokens and chat templates of one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from .files import ModelFiles
from .folder import describe
from .gguf_tokenizer import (
    GgufTokenizerError,
    chat_templates_from_gguf,
    special_tokens_from_gguf,
    tokenizer_from_gguf,
)
from .hf_tokenizer import (
    HfTokenizerError,
    chat_templates_from_folder,
    special_tokens_from_folder,
    tokenizer_from_folder,
)
from .json_file import read_json_object
from .special_tokens import added_ids
from .token_bytes import bytes_of_token, vocabulary_kind


class TokenizerError(ValueError):
    """The tokenizer cannot be built, or a text or an id cannot be turned; the message says which."""


class Tokenizer:
    """One model's tokenizer. Immutable and safe to use from several threads; fulfils ``sgl_core.api.grammar.Vocabulary``.

    ``size`` is the number of logits of the model (its embedding rows), which may exceed ``vocab_size``, the number of ids
    the tokenizer knows (highest id + 1). ``eos_token_ids`` are the ids that end an answer, from the generation config, the
    model's config and the tokenizer together. ``special_tokens`` maps names (``bos_token`` ...) to text.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: Mapping[str, str] | None = None,
        chat_templates: Mapping[str, str] | None = None,
        eos_token_ids: Iterable[int] = (),
        model_vocab_size: int = 0,
    ) -> None:
        self.backend = backend
        self.special_tokens = dict(special_tokens or {})
        self.chat_templates = dict(chat_templates or {})
        self.kind = vocabulary_kind(backend)
        self._added = backend.get_added_tokens_decoder()
        self.vocab_size = max(max(backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1, 0)
        self.size = max(model_vocab_size, self.vocab_size)
        self.special_token_ids = frozenset(index for index, token in self._added.items() if token.special)
        self.bos_token_id = self.id_of(self.special_tokens.get("bos_token", ""))
        self.eos_token_id = self.id_of(self.special_tokens.get("eos_token", ""))
        self.pad_token_id = self.id_of(self.special_tokens.get("pad_token", ""))
        own = () if self.eos_token_id is None else (self.eos_token_id,)
        self.eos_token_ids: tuple[int, ...] = tuple(dict.fromkeys([*eos_token_ids, *own]))
        self._prefix_ids, self._suffix_ids = added_ids(backend)

    @property
    def bos_token(self) -> str | None:
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        return self.special_tokens.get("eos_token")

    @property
    def adds_bos(self) -> bool:
        """Whether ``encode`` with special tokens puts BOS before the text."""
        return self.bos_token_id is not None and self.bos_token_id in self._prefix_ids

    @property
    def chat_template(self) -> str | None:
        """The template named ``default``, or the only one."""
        if "default" in self.chat_templates or len(self.chat_templates) != 1:
            return self.chat_templates.get("default")
        return next(iter(self.chat_templates.values()))

    @cached_property
    def tokenizer_json(self) -> str:
        """The Hugging Face tokenizers serialization (several MB)."""
        return self.backend.to_str()

    @property
    def decoder_json(self) -> str:
        """The decoder's part of the serialization; empty where the tokenizer has no decoder."""
        decoder = self.backend.decoder
        state = b"" if decoder is None else decoder.__getstate__()
        return state.decode() if isinstance(state, bytes) else str(state)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """The ids of a text; with ``add_special`` also those (BOS, EOS) that the model's tokenizer adds by itself.

        Raises :class:`TokenizerError` for text that is not valid Unicode (a lone surrogate).
        """
        return list(self.backend.encode(_checked(text), add_special_tokens=add_special).ids)

    def encode_pair(self, text: str, second: str) -> tuple[list[int], int]:
        """The ids of two texts, with all special tokens, as one prompt; and from which place they have the second's token
        type (0 where the model's tokenizer makes no difference).

        Raises :class:`TokenizerError` for text that is not valid Unicode.
        """
        found = self.backend.encode(_checked(text), _checked(second))
        return list(found.ids), found.type_ids.index(1) if 1 in found.type_ids else 0

    def encode_batch(self, texts: Sequence[str], add_special: bool = True) -> list[list[int]]:
        """As ``encode``, for many texts on all cores."""
        checked = [_checked(text) for text in texts]
        return [list(found.ids) for found in self.backend.encode_batch_fast(checked, add_special_tokens=add_special)]

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of a text that may already begin with BOS, as a chat template writes it: never two of them."""
        return self.encode(text, add_special=not self.starts_with_bos(text))

    def starts_with_bos(self, text: str) -> bool:
        """Whether the text itself begins with the BOS token."""
        return bool(self.bos_token) and text.startswith(str(self.bos_token))

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of ids, without any clean-up of spaces. Ids that the model has and the tokenizer lacks are nothing.

        Raises :class:`TokenizerError` for a negative id.
        """
        try:
            return self.backend.decode(list(ids), skip_special_tokens=skip_special)
        except (OverflowError, TypeError):
            bad = next((index for index in ids if not isinstance(index, int) or index < 0), None)
            raise TokenizerError(f"{bad!r} is not a token id") from None

    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes a token stands for; empty for special tokens and for ids the tokenizer lacks."""
        added = self._added.get(token_id)
        if added is not None:
            return b"" if added.special else added.content.encode()
        token = self.token_text(token_id)
        return b"" if token is None else bytes_of_token(self.kind, token)

    def token_text(self, token_id: int) -> str | None:
        """The token as the vocabulary spells it (``Ġhello``, ``▁hello``), or None."""
        return self.backend.id_to_token(token_id) if 0 <= token_id < self.vocab_size else None

    def id_of(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it, or None."""
        return self.backend.token_to_id(token) if token else None


class Settings(Protocol):
    """A configuration, read by field name."""

    def get(self, field: str, /) -> Any: ...


def other_tokenizer(settings: Settings) -> str | None:
    """The tokenizer that was asked for beside the model; None where it lies with the model, which is what rules fill in."""
    path = settings.get("tokenizer_path")
    return None if path is None or path == settings.get("model_path") else str(path)


def load_tokenizer(
    files: ModelFiles, config: Mapping[str, Any] | None = None, *, path: str | Path | None = None
) -> Tokenizer:
    """The tokenizer of a model; ``config`` replaces the model's own, ``path`` (``--tokenizer-path``) names another tokenizer.

    Raises :class:`TokenizerError`.
    """
    model_config = files.config if config is None else config
    holder = files if path is None else _holder(Path(path).expanduser(), files)
    try:
        if holder.kind == "gguf":
            head = holder.gguf[0]
            backend, special = tokenizer_from_gguf(head), special_tokens_from_gguf(head.metadata)
            templates = chat_templates_from_gguf(head.metadata) | _template_files(holder)
        else:
            backend = tokenizer_from_folder(holder.root, holder.tokenizer_config)
            special = special_tokens_from_folder(holder.root, holder.tokenizer_config)
            templates = chat_templates_from_folder(holder.root, holder.tokenizer_config)
    except (GgufTokenizerError, HfTokenizerError) as error:
        raise TokenizerError(str(error)) from error
    text_config = model_config.get("text_config") or {}
    return Tokenizer(
        backend,
        special_tokens=special,
        chat_templates=templates,
        eos_token_ids=[*_ids(files.generation_config), *_ids(model_config), *_ids(text_config)],
        model_vocab_size=int(model_config.get("vocab_size") or text_config.get("vocab_size") or 0),
    )


def _holder(path: Path, files: ModelFiles) -> ModelFiles:
    """The files of a tokenizer given apart from the model: a GGUF file, or a folder (of which no config.json is asked)."""
    if path.suffix == ".gguf" or (
        path.is_dir() and not (path / "tokenizer.json").exists() and list(path.glob("*.gguf"))
    ):
        return describe(path)
    root = path.parent if path.name == "tokenizer.json" else path
    if not root.is_dir():
        raise TokenizerError(f"{path}: no such tokenizer folder")
    return ModelFiles(
        root=root,
        path=root,
        kind="hf",
        load_format="dummy",
        config=files.config,
        tokenizer_config=read_json_object(root / "tokenizer_config.json"),
    )


def _template_files(files: ModelFiles) -> dict[str, str]:
    """A chat_template.jinja laid beside a GGUF file replaces the template inside it."""
    file = files.root / "chat_template.jinja"
    return {"default": file.read_text(encoding="utf-8")} if file.is_file() else {}


def _ids(config: Mapping[str, Any]) -> list[int]:
    value = config.get("eos_token_id")
    values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [int(index) for index in values]


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"the text is not valid Unicode: a lone surrogate {text[error.start]!r} at character {error.start}"
        ) from None
    return text
