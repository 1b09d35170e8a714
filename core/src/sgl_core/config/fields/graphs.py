"""Graph capture and torch.compile."""

from __future__ import annotations

from typing import Any, Literal

from ..declare import OldFlag, Subject, field


class Graphs(Subject):
    """Graphs."""

    namespace = "exec.graph"
    title = "Graphs"

    cuda_graph_config = field(dict[str, dict[str, Any]] | None, None, "", parse="graph_config")
    cuda_graph_backend_decode = field(Literal["full", "breakable", "tc_piecewise", "disabled"] | None, None, "")
    cuda_graph_backend_prefill = field(
        Literal["full", "breakable", "tc_piecewise", "disabled"] | None,
        None,
        "",
        old_flags=(
            OldFlag("--enable-breakable-cuda-graph", use="--cuda-graph-backend-prefill=breakable", store="breakable"),
            OldFlag("--disable-piecewise-cuda-graph", use="--cuda-graph-backend-prefill=disabled", store="disabled"),
            OldFlag(
                "--enforce-piecewise-cuda-graph", use="--cuda-graph-backend-prefill=tc_piecewise", store="tc_piecewise"
            ),
        ),
    )
    cuda_graph_max_bs_decode = field(
        int | None, None, "", old_flags=(OldFlag("--cuda-graph-max-bs", use="--cuda-graph-max-bs-decode"),)
    )
    cuda_graph_max_bs_prefill = field(
        int | None,
        None,
        "",
        old_flags=(OldFlag("--piecewise-cuda-graph-max-tokens", use="--cuda-graph-max-bs-prefill"),),
    )
    cuda_graph_bs_decode = field(
        list[int] | None, None, "", old_flags=(OldFlag("--cuda-graph-bs", use="--cuda-graph-bs-decode"),)
    )
    cuda_graph_bs_prefill = field(
        list[int] | None, None, "", old_flags=(OldFlag("--piecewise-cuda-graph-tokens", use="--cuda-graph-bs-prefill"),)
    )
    cuda_graph_tc_compiler = field(
        Literal["eager", "inductor"] | None,
        None,
        "",
        old_flags=(OldFlag("--piecewise-cuda-graph-compiler", use="--cuda-graph-tc-compiler"),),
    )
    disable_prefill_cuda_graph = field(bool, False, "")
    disable_decode_cuda_graph = field(bool, False, "")
    disable_cuda_graph = field(
        bool,
        False,
        "",
        old_flags=(OldFlag("--disable-cuda-graph", use="--cuda-graph-backend-{decode,prefill}=disabled", store=True),),
        cli=False,
        replaced_by="cuda_graph_backend_decode / cuda_graph_backend_prefill = disabled",
    )
    disable_cuda_graph_padding = field(bool, False, "")
    enable_profile_cuda_graph = field(bool, False, "")
    enable_cudagraph_gc = field(bool, False, "")
    debug_cuda_graph = field(bool, False, "")
    enable_torch_compile = field(bool, False, "")
    enable_torch_compile_debug_mode = field(bool, False, "")
    torch_compile_max_bs = field(int, 32, "")
