"""How weights reach the device: loaders, remote instances, weight cache."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field


class Weights(Subject):
    """Weight loading."""

    namespace = "model"
    title = "Weight loading"

    startup_weight_load_mode = field(Literal["serial", "overlap"], "serial", "")
    custom_weight_loader = field(list[str] | None, None, "", nargs="*")
    weight_loader_disable_mmap = field(bool, False, "")
    weight_loader_prefetch_checkpoints = field(bool, False, "")
    weight_loader_prefetch_num_threads = field(int, 4, "")
    weight_loader_drop_cache_after_load = field(bool, False, "")
    remote_instance_weight_loader_seed_instance_ip = field(str | None, None, "")
    remote_instance_weight_loader_seed_instance_service_port = field(int | None, None, "")
    remote_instance_weight_loader_send_weights_group_ports = field(list[int] | None, None, "", parse="json_list")
    remote_instance_weight_loader_backend = field(Literal["transfer_engine", "nccl", "modelexpress"], "nccl", "")
    remote_instance_weight_loader_start_seed_via_transfer_engine = field(bool, False, "")
    engine_info_bootstrap_port = field(int, 6789, "")
    modelexpress_config = field(str | None, None, "")
    download_dir = field(str | None, None, "")
    model_checksum = field(str | None, None, "", nargs="?", const="")
    delete_ckpt_after_loading = field(bool, False, "")
    decrypted_config_file = field(str | None, None, "")
    decrypted_draft_config_file = field(str | None, None, "")
    checkpoint_engine_wait_weights_before_ready = field(bool, False, "")


class WeightCache(Subject):
    """Weight cache."""

    namespace = "model"
    title = "Weight cache"

    weight_cache_mode = field(str, "off", "", choices=("off", "daemon", "client"))
    weight_cache_socket = field(str | None, None, "")
    weight_cache_timeout = field(int, 1800, "")
