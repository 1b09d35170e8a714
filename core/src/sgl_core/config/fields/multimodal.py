"""Images, video and audio."""

from __future__ import annotations

from typing import Any, Literal

from ..declare import Subject, field, from_registry


class Multimodal(Subject):
    """Multimodal."""

    namespace = "mm"
    title = "Multimodal"

    enable_multimodal = field(
        bool | None, None, "Serve images, video and audio where the model can. Unset decides by the model."
    )
    mm_attention_backend = field(
        str | None, None, "Attention kernels of the vision tower.", choices=from_registry("mm_attention")
    )
    enable_broadcast_mm_inputs_process = field(
        bool, False, "Process media on one rank and send the result to the others."
    )
    enable_prefix_mm_cache = field(bool, False, "Reuse encoded media across requests.")
    mm_enable_dp_encoder = field(bool, False, "Spread images over ranks instead of splitting the encoder.")
    mm_process_config = field(
        dict[str, Any] | None,
        None,
        "Preprocessing settings per kind of media, as a JSON object with image, video and audio.",
        parse="json",
    )
    mm_processor_worker_num = field(int, 0, "Threads that preprocess media; 0 the model's default.")
    mm_io_worker_num = field(int, 0, "Threads that fetch and decode media; 0 the model's default.")
    allowed_media_domains = field(
        list[str], [], "Host names from which media may be fetched. Empty allows any public host."
    )
    media_url_max_file_size_mb = field(int, 64, "Largest media file that is fetched, in MiB; 0 no limit.")
    mm_preprocess_cache_size_mb = field(int | None, None, "Host memory for preprocessed media, in MiB; 0 off.")
    trust_mm_content_hashes = field(
        bool, False, "Believe the content hashes that clients send with media. Only behind a trusted front."
    )
    limit_mm_data_per_request = field(
        str | dict[str, int] | None,
        None,
        'Most media per request, as a JSON object: {"image": 4, "video": 1}.',
        parse="json",
    )
    enable_mm_global_cache = field(bool, False, "Share encoded media between servers.")
    image_processor_backend = field(Literal["auto", "torchvision", "pil"], "auto", "Library that resizes images.")
    mm_global_cache_backend = field(str, "mooncake", "Where shared encoded media are kept.", choices=("mooncake",))
    disable_fast_image_processor = field(
        bool, False, "Old way to set --image-processor-backend=pil.", replaced_by="image_processor_backend=pil"
    )
    mm_feature_transport = field(
        Literal["cpu", "cuda_ipc", "cuda_vmm"] | None,
        None,
        "How encoded media reach the device process: through host memory or shared device memory.",
    )
    keep_mm_feature_on_device = field(
        bool, False, "Old way to set --mm-feature-transport=cuda_ipc.", replaced_by="mm_feature_transport=cuda_ipc"
    )
