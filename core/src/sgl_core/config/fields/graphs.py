"""Graph capture and torch.compile."""

from __future__ import annotations

from typing import Any, Literal

from ..declare import OldFlag, Subject, field


class Graphs(Subject):
    """Graphs."""

    namespace = "exec.graph"
    title = "Graphs"

    cuda_graph_config = field(
        dict[str, dict[str, Any]] | None,
        None,
        'Graph capture per phase as a JSON object: {"decode": {"backend": "full", "max_bs": 256}}.',
        parse="graph_config",
    )
    cuda_graph_backend_decode = field(
        Literal["full", "breakable", "tc_piecewise", "disabled"] | None,
        None,
        "How decode steps are captured: whole, with breaks, in pieces by the compiler, or not.",
    )
    cuda_graph_backend_prefill = field(
        Literal["full", "breakable", "tc_piecewise", "disabled"] | None,
        None,
        "How prefill steps are captured.",
        old_flags=(
            OldFlag("--enable-breakable-cuda-graph", use="--cuda-graph-backend-prefill=breakable", store="breakable"),
            OldFlag("--disable-piecewise-cuda-graph", use="--cuda-graph-backend-prefill=disabled", store="disabled"),
            OldFlag(
                "--enforce-piecewise-cuda-graph", use="--cuda-graph-backend-prefill=tc_piecewise", store="tc_piecewise"
            ),
        ),
    )
    cuda_graph_max_bs_decode = field(
        int | None,
        None,
        "Largest decode batch that is captured. Larger batches run uncaptured.",
        old_flags=(OldFlag("--cuda-graph-max-bs", use="--cuda-graph-max-bs-decode"),),
    )
    cuda_graph_max_bs_prefill = field(
        int | None,
        None,
        "Largest prefill, in tokens, that is captured.",
        old_flags=(OldFlag("--piecewise-cuda-graph-max-tokens", use="--cuda-graph-max-bs-prefill"),),
    )
    cuda_graph_bs_decode = field(
        list[int] | None,
        None,
        "Batch sizes to capture for decoding, instead of the default list.",
        old_flags=(OldFlag("--cuda-graph-bs", use="--cuda-graph-bs-decode"),),
    )
    cuda_graph_bs_prefill = field(
        list[int] | None,
        None,
        "Token counts to capture for prefilling.",
        old_flags=(OldFlag("--piecewise-cuda-graph-tokens", use="--cuda-graph-bs-prefill"),),
    )
    cuda_graph_tc_compiler = field(
        Literal["eager", "inductor"] | None,
        None,
        "Compiler of graph pieces (tc_piecewise).",
        old_flags=(OldFlag("--piecewise-cuda-graph-compiler", use="--cuda-graph-tc-compiler"),),
    )
    disable_prefill_cuda_graph = field(bool, False, "Capture no prefill graphs.")
    disable_decode_cuda_graph = field(bool, False, "Capture no decode graphs.")
    disable_cuda_graph = field(
        bool,
        False,
        "Old way to capture no graphs at all.",
        old_flags=(OldFlag("--disable-cuda-graph", use="--cuda-graph-backend-{decode,prefill}=disabled", store=True),),
        cli=False,
        replaced_by="cuda_graph_backend_decode / cuda_graph_backend_prefill = disabled",
    )
    disable_cuda_graph_padding = field(bool, False, "Use a graph only for exactly the captured sizes.")
    enable_profile_cuda_graph = field(bool, False, "Profile the capture.")
    enable_cudagraph_gc = field(bool, False, "Let the garbage collector run during capture: slower start.")
    debug_cuda_graph = field(bool, False, "Break graphs after every operation, to find which one misbehaves.")
    enable_torch_compile = field(
        bool, False, "Compile the model with torch.compile. Long start; can help small batches."
    )
    enable_torch_compile_debug_mode = field(bool, False, "Let torch.compile write what it does.")
    torch_compile_max_bs = field(int, 32, "Largest batch that is compiled.")
