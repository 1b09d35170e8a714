"""Starting a worker from a plan: runtime, worker, load, scheduler, loop. The same steps in a process of its own and inline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgl_core.api.worker import ProgressSink
from sgl_core.registry.hooks import Hooks

from .assembly import assemble
from .grammar_state import ReasoningEnd
from .grammars import GrammarTools
from .limits import EngineLimits
from .loop import EngineLoop, Inbox
from .messages import FromWorker
from .thinking import Excluded

if TYPE_CHECKING:
    from sgl_core.checkpoint import Tokenizer
    from sgl_core.plan import Plan
    from sgl_core.registry import Registries


def make_loop(
    plan: Plan, rank: int, inbox: Inbox, send: Callable[[FromWorker], None], progress: ProgressSink
) -> EngineLoop:
    """Load the model and announce it. Raises what the platform, the worker or a registry raises."""
    if rank != 0:
        raise ValueError(f"rank {rank}: this engine serves one rank per worker group so far")
    registries = plan.registries()
    limits = EngineLimits.from_config(plan.config)
    worker = plan.runtime(registries).make_worker(rank)
    capacity = worker.load(progress)

    def load(registry: str, name: str) -> Any:
        return registries[registry].load(name)

    scheduler = assemble(worker, capacity, limits, load=load, make_grammar_tools=_grammar_tools(plan, registries))
    loop = EngineLoop(scheduler, worker, inbox, send)
    loop.announce(capacity)
    if registries.hooks.names():
        Hooks(registries).call("sgl_worker_started", rank=rank, plan=plan)
    return loop


def _grammar_tools(plan: Plan, registries: Registries) -> Callable[[], GrammarTools] | None:
    """How to make what constraints need, or None where the plan has no grammar backend. The tokenizer is read only then."""
    chosen, parser = plan.selection.get("grammars"), plan.selection.get("reasoning_parsers")
    name = "none" if chosen is None else chosen["name"]
    strict = parser is not None and bool(plan.config.get("enable_strict_thinking"))
    if name == "none" and not strict:
        return None

    def make() -> GrammarTools:
        from sgl_core.checkpoint import load_tokenizer, other_tokenizer
        from sgl_core.checkpoint.sources import locate

        files = locate(plan.config.get("model_path"), registries, revision=plan.config.get("revision"))
        tokenizer = load_tokenizer(files, path=other_tokenizer(plan.config))
        backend = None if name == "none" else registries.grammars.load(name)(tokenizer)
        if parser is None:
            return GrammarTools(backend)
        family = registries.reasoning_parsers.load(parser["name"])
        begin, end = (
            tuple(tokenizer.encode(m, add_special=False)) for m in (family.reasoning_begin, family.reasoning_end)
        )
        reasoning_end = ReasoningEnd(end, family.reasoning_end.encode(), tokenizer.token_bytes, begin)
        return GrammarTools(backend, reasoning_end, excluded(family, tokenizer) if strict else None)

    def excluded(family: Any, tokenizer: Tokenizer) -> Excluded:
        texts = set(family.excluded)
        calls = plan.selection.get("tool_parsers")
        syntax = registries.tool_parsers.load(calls["name"]).call_syntax if calls is not None else None
        if syntax is not None and syntax.marker:
            texts.add(syntax.marker)
        ids = (tokenizer.id_of(text) for text in texts)
        never = {*tokenizer.eos_token_ids, *(i for i in ids if i is not None)}
        return Excluded([text.encode() for text in texts], never, tokenizer.token_bytes, tokenizer.size)

    return make
