"""How weights reach the device: loaders, remote instances, weight cache."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field


class Weights(Subject):
    """Weight loading."""

    namespace = "model"
    title = "Weight loading"

    startup_weight_load_mode = field(
        Literal["serial", "overlap"],
        "serial",
        "serial reads weights, then captures graphs; overlap stages the files while graphs are captured, for a sooner start.",
    )
    custom_weight_loader = field(
        list[str] | None,
        None,
        "Functions, as package.module.function, that weight updates at run time may name as their loader.",
        nargs="*",
    )
    weight_loader_disable_mmap = field(
        bool,
        False,
        "Read safetensors files into memory instead of mapping them. Helps on network file systems that map slowly.",
    )
    weight_loader_prefetch_checkpoints = field(
        bool,
        False,
        "Read checkpoint files ahead into the page cache, each rank a share of them. Helps on NFS and Lustre.",
    )
    weight_loader_prefetch_num_threads = field(int, 4, "Threads per rank that read ahead.")
    weight_loader_drop_cache_after_load = field(
        bool,
        False,
        "Tell the kernel to drop each shard from the page cache once it is loaded, to keep host memory free.",
    )
    remote_instance_weight_loader_seed_instance_ip = field(
        str | None,
        None,
        "Address of a running server that gives its weights to this one (--load-format remote_instance).",
    )
    remote_instance_weight_loader_seed_instance_service_port = field(
        int | None, None, "HTTP port of the server that gives its weights."
    )
    remote_instance_weight_loader_send_weights_group_ports = field(
        list[int] | None, None, "Ports for the weight transfer, one per rank, as a JSON list.", parse="json_list"
    )
    remote_instance_weight_loader_backend = field(
        Literal["transfer_engine", "nccl", "modelexpress"],
        "nccl",
        "How weights travel between servers: nccl, transfer_engine (RDMA) or modelexpress.",
    )
    remote_instance_weight_loader_start_seed_via_transfer_engine = field(
        bool, False, "Make this server ready to give its weights through the transfer engine."
    )
    engine_info_bootstrap_port = field(
        int, 6789, "Port on which ranks publish where their weights lie. Give each server of a host its own."
    )
    modelexpress_config = field(str | None, None, "Settings of ModelExpress weight transfer, as a JSON object.")
    download_dir = field(str | None, None, "Folder for downloaded models. Unset uses the Hugging Face cache.")
    model_checksum = field(
        str | None,
        None,
        "Verify the model files: alone, against the hub's list; with a value, against that JSON file or repository.",
        nargs="?",
        const="",
    )
    delete_ckpt_after_loading = field(
        bool, False, "Delete the checkpoint folder once weights are in memory. Irreversible; for throw-away disks."
    )
    decrypted_config_file = field(
        str | None, None, "Plain config.json of a model whose own configuration is encrypted."
    )
    decrypted_draft_config_file = field(
        str | None, None, "Plain config.json of a draft model whose own configuration is encrypted."
    )
    checkpoint_engine_wait_weights_before_ready = field(
        bool, False, "Report not ready until a checkpoint engine has sent the first weights."
    )


class WeightCache(Subject):
    """Weight cache."""

    namespace = "model"
    title = "Weight cache"

    weight_cache_mode = field(
        str,
        "off",
        "Share weights between servers of a host: off, daemon (hold them in device memory) or client (map the daemon's).",
        choices=("off", "daemon", "client"),
    )
    weight_cache_socket = field(
        str | None, None, "Unix socket of the weight-cache daemon. Unset derives one from the device."
    )
    weight_cache_timeout = field(int, 1800, "Seconds to wait for the weight-cache daemon.")
