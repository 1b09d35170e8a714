"""Building the tokenizer of a Hugging Face folder: tokenizer.json, tokenizer_config.json and the chat template files."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from .json_file import read_json_object
from .special_tokens import added_ids, set_bos_eos

# Only these classes read add_bos_token / add_eos_token where a tokenizer.json is present; elsewhere its post-processor rules.
_FLAGGED_CLASSES = ("Llama", "CodeLlama", "Gemma", "Cohere")
_SLOW_FILES = (
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tiktoken.model",
)
_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class HfTokenizerError(ValueError):
    """The folder holds no tokenizer that can be read; the message says what was found and what to do."""


def tokenizer_from_folder(root: Path, config: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a folder; ``config`` is its tokenizer_config.json. Raises :class:`HfTokenizerError`."""
    file = root / "tokenizer.json"
    if not file.is_file():
        return _through_transformers(root)
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises a bare Exception
        raise HfTokenizerError(f"{file}: not a readable tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = special_tokens_from_folder(root, config)
    _add_missing(tokenizer, config, special)
    _apply_flags(tokenizer, config, special)
    return tokenizer


def special_tokens_from_folder(root: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """The named special tokens as text. tokenizer_config.json wins over special_tokens_map.json."""
    merged = {**read_json_object(root / "special_tokens_map.json"), **config}
    found = {}
    for name, value in merged.items():
        if name in _NAMES or (name.endswith("_token") and not name.startswith("add_")):
            text = value.get("content") if isinstance(value, Mapping) else value
            if isinstance(text, str):
                found[name] = text
    return found


def chat_templates_from_folder(root: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """The templates by name; the unnamed one is ``default``. Files win over tokenizer_config.json."""
    templates: dict[str, str] = {}
    stored = config.get("chat_template")
    if isinstance(stored, str):
        templates["default"] = stored
    elif isinstance(stored, Mapping):
        templates |= {str(name): str(text) for name, text in stored.items()}
    elif isinstance(stored, list):
        templates |= {str(entry["name"]): str(entry["template"]) for entry in stored}
    processor = read_json_object(root / "chat_template.json").get("chat_template")
    if isinstance(processor, str):
        templates["default"] = processor
    for file in sorted((root / "additional_chat_templates").glob("*.jinja")):
        templates[file.stem] = file.read_text(encoding="utf-8")
    for file in sorted(root.glob("chat_template*.jinja")):
        name = file.stem.removeprefix("chat_template").lstrip("_.-") or "default"
        templates[name] = file.read_text(encoding="utf-8")
    return templates


def _add_missing(tokenizer: Tokenizer, config: Mapping[str, Any], special: Mapping[str, str]) -> None:
    """Tokens that only tokenizer_config.json knows, and named special tokens that are plain vocabulary entries."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for key, entry in sorted(config.get("added_tokens_decoder", {}).items(), key=lambda item: int(item[0])):
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if not isinstance(content, str) or content in known:
            continue
        if tokenizer.token_to_id(content) not in (None, int(key)):
            continue
        token = AddedToken(
            content,
            **{
                name: bool(entry.get(name, False))
                for name in ("single_word", "lstrip", "rstrip", "normalized", "special")
            },
        )
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        known.add(content)
    plain = [text for name, text in special.items() if name in _NAMES and text not in known]
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in plain if tokenizer.token_to_id(text) is not None]
    )


def _apply_flags(tokenizer: Tokenizer, config: Mapping[str, Any], special: Mapping[str, str]) -> None:
    flagged = str(config.get("tokenizer_class", "")).startswith(_FLAGGED_CLASSES)
    if tokenizer.post_processor is not None and not flagged:
        return
    before, after = added_ids(tokenizer)
    bos = _wanted(tokenizer, special.get("bos_token"), config.get("add_bos_token"), before)
    eos = _wanted(tokenizer, special.get("eos_token"), config.get("add_eos_token"), after)
    now = ([tokenizer.token_to_id(bos)] if bos else [], [tokenizer.token_to_id(eos)] if eos else [])
    if now != (before, after):
        set_bos_eos(tokenizer, bos, eos)


def _wanted(tokenizer: Tokenizer, token: str | None, flag: object, current: list[int]) -> str | None:
    """The token if it shall be added: as the flag says, or as it is now where there is no flag."""
    if token is None or tokenizer.token_to_id(token) is None:
        return None
    return token if (bool(flag) if flag is not None else tokenizer.token_to_id(token) in current) else None


def _through_transformers(root: Path) -> Tokenizer:
    """A folder without tokenizer.json: transformers converts the original vocabulary, if it is installed."""
    present = [name for name in _SLOW_FILES if (root / name).is_file()] + [
        file.name for file in root.glob("*.tiktoken")
    ]
    if not present:
        raise HfTokenizerError(f"{root}: no tokenizer here (no tokenizer.json); give one by --tokenizer-path")
    if importlib.util.find_spec("transformers") is None:
        raise HfTokenizerError(
            f"{root}: the tokenizer has no tokenizer.json (only {', '.join(present)}); "
            "'pip install transformers sentencepiece' lets sgl convert it"
        )
    transformers = importlib.import_module("transformers")
    try:
        converted = transformers.AutoTokenizer.from_pretrained(str(root), local_files_only=True)
    except Exception as error:
        raise HfTokenizerError(
            f"{root}: transformers cannot convert the tokenizer ({', '.join(present)}): {error}"
        ) from error
    backend = getattr(converted, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise HfTokenizerError(
            f"{root}: the tokenizer {type(converted).__name__} has no tokenizer.json form, which sgl needs"
        )
    return backend
