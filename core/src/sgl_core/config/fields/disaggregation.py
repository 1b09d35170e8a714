"""Prefill, decode, encode and draft on different machines."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field, from_registry


class Disaggregation(Subject):
    """Prefill/decode disaggregation."""

    namespace = "disagg"
    title = "Prefill/decode disaggregation"

    disaggregation_mode = field(
        Literal["null", "prefill", "decode"],
        "null",
        "Serve only one phase of requests: prefill or decode. null serves both.",
    )
    disaggregation_transfer_backend = field(
        str,
        "mooncake",
        "How the KV cache travels from prefill to decode servers.",
        choices=from_registry("kv_transports"),
    )
    disaggregation_bootstrap_port = field(int, 8998, "Port on which prefill servers introduce themselves.")
    disaggregation_ib_device = field(
        str | None, None, "InfiniBand devices for the transfer, separated by commas, or a map per device."
    )
    disaggregation_decode_enable_radix_cache = field(
        bool, False, "Keep a prefix cache on decode servers, so that known prefixes need no transfer."
    )
    disaggregation_decode_enable_offload_kvcache = field(
        bool, False, "Move KV of decode servers to host memory in the background."
    )
    disaggregation_decode_retraction_backup = field(
        str | None, None, "Where a paused request's KV waits on a decode server.", choices=("cpu_tensor", "host_pool")
    )
    num_reserved_decode_tokens = field(
        int, 512, "Tokens of room reserved for each request that a decode server accepts."
    )
    disaggregation_decode_extra_slots = field(int | None, None, "Request slots kept for transfers under way.")
    disaggregation_decode_polling_interval = field(int, 1, "Steps between two looks for finished transfers.")
    optimistic_prefill_attempts = field(int, 0, "Prefill steps that may run before the decode server has answered.")


class EncoderDisaggregation(Subject):
    """Encoder disaggregation."""

    namespace = "disagg"
    title = "Encoder disaggregation"

    encoder_only = field(bool, False, "Serve only the media encoder.")
    language_only = field(bool, False, "Serve only the language model; encoders run elsewhere.")
    language_model_only = field(bool, False, "Do not load the media encoder at all; requests with media are refused.")
    encoder_transfer_backend = field(
        str,
        "auto",
        "How encoded media travel to the language server.",
        choices=("auto", "zmq_to_scheduler", "zmq_to_tokenizer", "mooncake"),
    )
    encoder_urls = field(list[str], [], "Addresses of encoder servers.")
    encoder_bootstrap_port = field(int, 8997, "Port on which encoders register.")
    encoder_register_urls = field(list[str], [], "Addresses at which this encoder registers.")
    enable_adaptive_dispatch_to_encoder = field(
        bool, False, "Send only requests with several images to encoder servers."
    )


class Multiplexing(Subject):
    """Prefill/decode multiplexing."""

    namespace = "disagg"
    title = "Prefill/decode multiplexing"

    enable_pdmux = field(bool, False, "Run prefill and decode at the same time on parts of one GPU.")
    pdmux_config_path = field(str | None, None, "Configuration file of prefill/decode multiplexing.")
    sm_group_num = field(int, 8, "Parts into which the GPU can be divided.")


class DecoupledSpeculation(Subject):
    """Decoupled speculation."""

    namespace = "disagg"
    title = "Decoupled speculation"

    decoupled_spec_bind_endpoint = field(
        str | None, None, "Address on which this half of decoupled speculation listens."
    )
    decoupled_spec_connect_endpoints = field(
        list[str] | None,
        None,
        "Addresses of the other half of decoupled speculation in order of rank, as a JSON list.",
        parse="json_list",
    )
    decoupled_spec_rank = field(int | None, None, "This server's rank among verifiers or among drafters.")
    decoupled_spec_role = field(
        Literal["null", "verifier", "drafter"], "null", "Which half of decoupled speculation this server is."
    )
