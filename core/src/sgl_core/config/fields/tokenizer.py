"""Tokenizer and detokenizer processes."""

from __future__ import annotations

from ..declare import Subject, field


class Tokenizer(Subject):
    """Tokenizer."""

    namespace = "serving"
    title = "Tokenizer"

    tokenizer_path = field(
        str | None, None, "The tokenizer to use, as a folder or repository id. Unset uses the model's own."
    )
    tokenizer_mode = field(
        str,
        "auto",
        "auto uses the fast tokenizer where there is one; slow always uses the Python one.",
        choices=("auto", "slow"),
    )
    tokenizer_backend = field(
        str, "huggingface", "Library that runs the fast tokenizer.", choices=("huggingface", "fastokens")
    )
    tokenizer_worker_num = field(
        int, 1, "Tokenizer processes. More help when the front process is the bottleneck with many short requests."
    )
    detokenizer_worker_num = field(int, 1, "Detokenizer processes.")
    skip_tokenizer_init = field(
        bool, False, "Run without a tokenizer: requests bring token ids and get token ids back."
    )
    enable_dynamic_batch_tokenizer = field(bool, False, "Tokenize requests that arrive together in one call.")
    dynamic_batch_tokenizer_batch_size = field(int, 32, "Most requests tokenized in one call.")
    dynamic_batch_tokenizer_batch_timeout = field(
        float, 0.002, "Seconds a request may wait for others before it is tokenized."
    )
    enable_tokenizer_batch_encode = field(
        bool, False, "Tokenize the texts of one request together. Not for requests with images or token ids."
    )
    disable_tokenizer_batch_decode = field(bool, False, "Detokenize each answer by itself instead of in batches.")
