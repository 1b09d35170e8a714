"""Tokenizer and detokenizer processes."""

from __future__ import annotations

from ..declare import Subject, field


class Tokenizer(Subject):
    """Tokenizer."""

    namespace = "serving"
    title = "Tokenizer"

    tokenizer_path = field(str | None, None, "")
    tokenizer_mode = field(str, "auto", "", choices=("auto", "slow"))
    tokenizer_backend = field(str, "huggingface", "", choices=("huggingface", "fastokens"))
    tokenizer_worker_num = field(int, 1, "")
    detokenizer_worker_num = field(int, 1, "")
    skip_tokenizer_init = field(bool, False, "")
    enable_dynamic_batch_tokenizer = field(bool, False, "")
    dynamic_batch_tokenizer_batch_size = field(int, 32, "")
    dynamic_batch_tokenizer_batch_timeout = field(float, 0.002, "")
    enable_tokenizer_batch_encode = field(bool, False, "")
    disable_tokenizer_batch_decode = field(bool, False, "")
