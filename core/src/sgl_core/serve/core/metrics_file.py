"""Each request's performance figures as a line of JSON (``--export-metrics-to-file``), a file an hour under the reference's names."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec

from sgl_core.config import ConfigError

from .choice import Choice
from .events import Event, Failed, Finished
from .observer import Observer

log = logging.getLogger("sgl.metrics")


class MetricsFile(Observer):
    """Appends to ``sglang-request-metrics-YYYYMMDD_HH.log`` (local time) in ``folder``. Prompts and answers are not written.

    Raises ConfigError where the folder cannot be written. A disk that fills up later costs lines, not answers.
    """

    def __init__(self, folder: str | None, model: str, clock: Callable[[], float] = time.time) -> None:
        if not folder:
            raise ConfigError(
                "export_metrics_to_file needs a folder",
                fields=("export_metrics_to_file",),
                fix="add --export-metrics-to-file-dir",
            )
        self._folder = Path(folder)
        self._model = model
        self._clock = clock
        self._file: IO[str] | None = None
        self._hour = ""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._open(self._now_hour())
        except OSError as error:
            raise ConfigError(
                f"export_metrics_to_file_dir {folder} cannot be written: {error}",
                fields=("export_metrics_to_file_dir",),
            ) from None

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        if not choice.request.measured:
            return
        hour = self._now_hour()
        try:
            file = self._file if hour == self._hour and self._file is not None else self._open(hour)
            file.write(json.dumps(self._figures(choice, event, now)) + "\n")
            file.flush()
        except OSError as error:
            log.warning("the figures of a request were not written to %s: %s", self._folder, error)

    def close(self) -> None:
        """Close the file; a request that ends later opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _now_hour(self) -> str:
        return time.strftime("%Y%m%d_%H", time.localtime(self._clock()))

    def _open(self, hour: str) -> IO[str]:
        self.close()
        path = self._folder / f"sglang-request-metrics-{hour}.log"
        self._file, self._hour = path.open("a", encoding="utf-8"), hour
        return self._file

    def _figures(self, choice: Choice, event: Event | None, now: float) -> dict[str, Any]:
        request = choice.request
        sampling = msgspec.to_builtins(request.sampling)
        parameters = {"stream": request.stream, "n": request.n, "embed": request.embed, "sampling_params": sampling}
        whole = now - choice.arrived
        first = choice.first_at - choice.arrived if choice.first_at else None
        rest = choice.last_at - choice.first_at
        return {
            "request_parameters": json.dumps(parameters),
            "id": request.rid or choice.rid,
            "model": self._model,
            "time": self._clock(),
            "finish_reason": event.reason
            if isinstance(event, Finished)
            else "error"
            if isinstance(event, Failed)
            else "abort",
            "prompt_tokens": len(request.input_ids),
            "completion_tokens": choice.tokens,
            "cached_tokens": choice.cached_tokens,
            "queue_time": choice.queue_seconds,
            "e2e_latency": whole,
            "time_to_first_token": first,
            "inter_token_latency": rest / (choice.tokens - 1) if choice.tokens > 1 else None,
        }
