"""Prefill, decode, encode and draft on different machines."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field, from_registry


class Disaggregation(Subject):
    """Prefill/decode disaggregation."""

    namespace = "disagg"
    title = "Prefill/decode disaggregation"

    disaggregation_mode = field(Literal["null", "prefill", "decode"], "null", "")
    disaggregation_transfer_backend = field(str, "mooncake", "", choices=from_registry("kv_transports"))
    disaggregation_bootstrap_port = field(int, 8998, "")
    disaggregation_ib_device = field(str | None, None, "")
    disaggregation_decode_enable_radix_cache = field(bool, False, "")
    disaggregation_decode_enable_offload_kvcache = field(bool, False, "")
    disaggregation_decode_retraction_backup = field(str | None, None, "", choices=("cpu_tensor", "host_pool"))
    num_reserved_decode_tokens = field(int, 512, "")
    disaggregation_decode_extra_slots = field(int | None, None, "")
    disaggregation_decode_polling_interval = field(int, 1, "")
    optimistic_prefill_attempts = field(int, 0, "")


class EncoderDisaggregation(Subject):
    """Encoder disaggregation."""

    namespace = "disagg"
    title = "Encoder disaggregation"

    encoder_only = field(bool, False, "")
    language_only = field(bool, False, "")
    language_model_only = field(bool, False, "")
    encoder_transfer_backend = field(
        str, "auto", "", choices=("auto", "zmq_to_scheduler", "zmq_to_tokenizer", "mooncake")
    )
    encoder_urls = field(list[str], [], "")
    encoder_bootstrap_port = field(int, 8997, "")
    encoder_register_urls = field(list[str], [], "")
    enable_adaptive_dispatch_to_encoder = field(bool, False, "")


class Multiplexing(Subject):
    """Prefill/decode multiplexing."""

    namespace = "disagg"
    title = "Prefill/decode multiplexing"

    enable_pdmux = field(bool, False, "")
    pdmux_config_path = field(str | None, None, "")
    sm_group_num = field(int, 8, "")


class DecoupledSpeculation(Subject):
    """Decoupled speculation."""

    namespace = "disagg"
    title = "Decoupled speculation"

    decoupled_spec_bind_endpoint = field(str | None, None, "")
    decoupled_spec_connect_endpoints = field(list[str] | None, None, "", parse="json_list")
    decoupled_spec_rank = field(int | None, None, "")
    decoupled_spec_role = field(Literal["null", "verifier", "drafter"], "null", "")
