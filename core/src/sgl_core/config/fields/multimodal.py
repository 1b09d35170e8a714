"""Images, video and audio."""

from __future__ import annotations

from typing import Any, Literal

from ..declare import Subject, field, from_registry


class Multimodal(Subject):
    """Multimodal."""

    namespace = "mm"
    title = "Multimodal"

    enable_multimodal = field(bool | None, None, "")
    mm_attention_backend = field(str | None, None, "", choices=from_registry("mm_attention"))
    enable_broadcast_mm_inputs_process = field(bool, False, "")
    enable_prefix_mm_cache = field(bool, False, "")
    mm_enable_dp_encoder = field(bool, False, "")
    mm_process_config = field(dict[str, Any] | None, None, "", parse="json")
    mm_processor_worker_num = field(int, 0, "")
    mm_io_worker_num = field(int, 0, "")
    allowed_media_domains = field(list[str], [], "")
    media_url_max_file_size_mb = field(int, 64, "")
    mm_preprocess_cache_size_mb = field(int | None, None, "")
    trust_mm_content_hashes = field(bool, False, "")
    limit_mm_data_per_request = field(str | dict[str, int] | None, None, "", parse="json")
    enable_mm_global_cache = field(bool, False, "")
    image_processor_backend = field(Literal["auto", "torchvision", "pil"], "auto", "")
    mm_global_cache_backend = field(str, "mooncake", "", choices=("mooncake",))
    disable_fast_image_processor = field(bool, False, "", replaced_by="image_processor_backend=pil")
    mm_feature_transport = field(Literal["cpu", "cuda_ipc", "cuda_vmm"] | None, None, "")
    keep_mm_feature_on_device = field(bool, False, "", replaced_by="mm_feature_transport=cuda_ipc")
