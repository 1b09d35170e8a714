"""Cases of the rules in sgl_rules.serving: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.serving import (
    grammar_default,
    grpc_listener,
    hidden_states_mode,
    media_domains,
    media_processing,
    missing_values,
    moe_runner_alias,
    prefill_delayer_env,
    prefill_interval,
    request_defaults,
    retired_flags,
    tls_files,
    tokenizer_batching,
    transcription_limits,
)

CASES = (
    Case(moe_runner_alias, {"moe_runner_backend": "auto", "moe_a2a_backend": "megamoe"}, moe_runner_backend="megamoe"),
    Case(moe_runner_alias, {}, moe_runner_backend="triton"),
    Case(hidden_states_mode, {"enable_return_hidden_states": True}, return_hidden_states_mode="last"),
    Case(hidden_states_mode, {"return_hidden_states_mode": "full"}, enable_return_hidden_states=True),
    Case(hidden_states_mode, "ValueError", return_hidden_states_mode="first"),
    Case(hidden_states_mode, {}),
    Case(
        media_domains, {"allowed_media_domains": ["a.org", "b.org"]}, allowed_media_domains=["B.org", "a.org", "b.org"]
    ),
    Case(media_domains, "ValueError", media_url_max_file_size_mb=-1),
    Case(media_domains, {}, allowed_media_domains=["a.org"]),
    Case(prefill_interval, "ValueError", prefill_decode_interval=-1),
    Case(prefill_interval, {}, prefill_decode_interval=2),
    Case(media_processing, "TypeError", mm_process_config={"image": 3}),
    Case(media_processing, "ValueError", mm_preprocess_cache_size_mb=-1),
    Case(media_processing, {}, mm_process_config={"image": {"max_pixels": 4}}),
    Case(tls_files, "ValueError", ssl_certfile="c.pem"),
    Case(tls_files, "ValueError", ssl_ca_certs="ca.pem"),
    Case(tls_files, "ValueError", enable_http2=True),
    Case(tls_files, {}, ssl_certfile="c.pem", ssl_keyfile="k.pem"),
    Case(transcription_limits, "ValueError", asr_max_concurrent_sessions=0),
    Case(transcription_limits, {}),
    Case(retired_flags, {"image_processor_backend": "pil"}, disable_fast_image_processor=True),
    Case(retired_flags, {"tool_call_parser": "qwen"}, tool_call_parser="qwen25"),
    Case(
        retired_flags,
        {"flashinfer_allreduce_fusion_backend": "auto", "enable_flashinfer_allreduce_fusion": False},
        enable_flashinfer_allreduce_fusion=True,
    ),
    Case(retired_flags, {"prefill_attention_backend": "dsv4"}, prefill_attention_backend="compressed"),
    Case(retired_flags, {"smg_grpc_mode": True}, grpc_mode=True),
    Case(retired_flags, {}, tool_call_parser="hermes"),
    Case(prefill_delayer_env, {"enable_prefill_delayer": True}, env={"SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE": "1"}),
    Case(prefill_delayer_env, {}),
    Case(grpc_listener, {"grpc_worker_threads": 4, "grpc_port": 40000}, smg_grpc_mode=True, port=30000),
    Case(grpc_listener, {"grpc_worker_threads": 2}, env={"SGLANG_GRPC_WORKER_THREADS": "2"}),
    Case(grpc_listener, "ValueError", grpc_port=5000, api_key="secret"),
    Case(grpc_listener, "ValueError", sidecar="router"),
    Case(grpc_listener, {"grpc_worker_threads": 4}),
    Case(grpc_listener, {}, grpc_worker_threads=4),
    Case(
        missing_values,
        {
            "tokenizer_path": "models/m",
            "served_model_name": "models/m",
            "mm_process_config": {},
            "_speculative_draft_quantization_explicitly_set": False,
        },
    ),
    Case(
        missing_values,
        {"device": "cuda", "quantization": None, "_speculative_draft_quantization_explicitly_set": False},
        device="cuda:0",
        quantization="unquant",
        tokenizer_path="t",
        served_model_name="s",
        mm_process_config={},
    ),
    Case(
        missing_values,
        {},
        tokenizer_path="t",
        served_model_name="s",
        mm_process_config={},
        _speculative_draft_quantization_explicitly_set=False,
    ),
    Case(grammar_default, {"grammar_backend": "xgrammar"}),
    Case(grammar_default, {}, grammar_backend="none"),
    Case(tokenizer_batching, "ValueError", enable_tokenizer_batch_encode=True, enable_dynamic_batch_tokenizer=True),
    Case(
        tokenizer_batching,
        {"detokenizer_worker_num": 1, "enable_tokenizer_batch_encode": False},
        skip_tokenizer_init=True,
        detokenizer_worker_num=2,
        enable_tokenizer_batch_encode=True,
    ),
    Case(tokenizer_batching, {}),
    Case(request_defaults, "ValueError", default_chat_template_kwargs=[1]),
    Case(request_defaults, "ValueError", limit_mm_data_per_request={"smell": 1}),
    Case(request_defaults, {}, limit_mm_data_per_request={"image": 1}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
