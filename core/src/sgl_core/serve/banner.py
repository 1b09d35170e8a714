"""What start-up prints: progress while loading, then one short table: platform, model, capacity, choices, where to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgl_core import __version__
from sgl_core.checkpoint.progress import TerminalProgress
from sgl_core.engine.messages import Progress

from .prepare import Prepared


def progress_printer() -> Callable[[Progress], None]:
    """Shows the worker's progress as the download's is shown."""
    sink = TerminalProgress()
    return lambda message: sink(message.what, message.done, message.total)


def startup_table(prepared: Prepared, name: str, capacity: Mapping[str, Any], url: str, seconds: float) -> str:
    """The table, a line each."""
    plan = prepared.plan
    facts, model = plan.facts, plan.model
    pages, size = int(capacity.get("num_pages") or 0), int(capacity.get("page_size") or 1)
    rows = [
        ("sgl", f"{__version__}, ready in {seconds:.1f} s"),
        ("platform", f"{facts.platform}" + (f" ({facts.device_name})" if facts.device_name else "")),
        ("model", f"{name} ({model.architecture}, {_size(prepared.files.weight_bytes)})"),
        ("context", f"{capacity.get('context_length')} tokens"),
        ("kv cache", f"{pages * size} tokens in {pages} pages of {size}{_kv_bytes(capacity, pages * size)}"),
        ("requests", f"{capacity.get('max_requests')} at once"),
    ]
    rows += [("", str(note)) for note in capacity.get("notes") or ()]
    rows += _decisions(prepared)
    rows += [("listening", f"{url} (docs: `sgl explain`, {url}/server_info)")]
    generates = not plan.config.get("is_embedding")
    rows += [("try", line) if at == 0 else ("", line) for at, line in enumerate(sample_request(url, generates))]
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)


def sample_request(url: str, generates: bool = True) -> tuple[str, str]:
    """A first chat to paste into a shell, in two lines; a ranking for a model that writes no text."""
    if not generates:
        return (
            f"curl {url}/v1/rerank -H 'Content-Type: application/json' \\",
            """  -d '{"query": "a small cat", "documents": ["a kitten", "the stock market"]}'""",
        )
    return (
        f"curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\",
        """  -d '{"messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 80}'""",
    )


def _decisions(prepared: Prepared) -> list[tuple[str, str]]:
    """What the operator set, and the entries that were chosen; `sgl explain` tells every decision with its reason."""
    args, plan = prepared.args, prepared.plan
    rows = []
    mine = [f"{name}={_short(args.get(name))}" for name in args if name not in _SECRETS and name != "model_path"]
    if mine:
        rows.append(("you set", ", ".join(mine)))
    chosen = {slot: entry["name"] for slot, entry in plan.selection.items() if slot not in ("platforms", "models")}
    if chosen:
        rows.append(("choices", ", ".join(f"{slot}={name}" for slot, name in chosen.items())))
    return rows


_SECRETS = frozenset({"api_key", "admin_api_key", "ssl_keyfile_password"})


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _kv_bytes(capacity: Mapping[str, Any], tokens: int) -> str:
    each = int(capacity.get("kv_bytes_per_token") or 0)
    return f", {_size(each * tokens)}" if each else ""
