"""How byte-level BPE vocabularies of GGUF files cut text before merging, by the file's ``tokenizer.ggml.pre``.

GGUF stores only a name; the patterns are those of the original models' tokenizer.json (a list is applied in order, each
pattern cutting the pieces that the one before left). The names are the ones llama.cpp's converter writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _TAIL
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _TAIL
_QWEN35 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|{_CASED_TAIL}"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{_CASED_TAIL}"
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
_FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")
_BLOOM = (r" ?[^(\s|.,!?…。，、।۔،)]+",)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """``patterns`` are applied in order. ``ignore_merges``: a piece that is a token is taken whole. ``add_bos`` holds where the file does not say."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    nfc: bool = False

    def build(self) -> pre_tokenizers.PreTokenizer:
        cuts: list[pre_tokenizers.PreTokenizer] = [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns
        ]
        return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def normalizer(self) -> normalizers.Normalizer | None:
        return normalizers.NFC() if self.nfc else None


def _table() -> dict[str, PreTokenizer]:
    groups = (
        ("default", PreTokenizer(_DEFAULT)),
        (
            "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v2-code roberta-bpe mpt olmo jais trillion",
            PreTokenizer((_GPT2,)),
        ),
        ("smollm starcoder refact command-r codeshell exaone minerva-7b", PreTokenizer((r"\p{N}", _GPT2))),
        (
            "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
            PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
        ),
        ("dbrx smaug-bpe chatglm-bpe glm4", PreTokenizer((_LLAMA3,))),
        ("qwen2", PreTokenizer((_QWEN2,), nfc=True)),
        ("deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2", PreTokenizer((_QWEN2,))),
        ("qwen35", PreTokenizer((_QWEN35,), nfc=True)),
        ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
        ("gpt-4o llama4 minimax-m2 kanana2 talkie", PreTokenizer((_GPT4O,))),
        ("deepseek-v3 hunyuan-dense", PreTokenizer(_DEEPSEEK3)),
        ("deepseek-coder", PreTokenizer(_DEEPSEEK_CODER)),
        ("falcon", PreTokenizer(_FALCON)),
        ("bloom poro-chat gpt3-finnish", PreTokenizer(_BLOOM)),
        ("viking", PreTokenizer((*_BLOOM, r"\p{N}"))),
    )
    return {name: pre for names, pre in groups for name in names.split()}


PRE_TOKENIZERS = _table()
