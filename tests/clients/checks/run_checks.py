"""Runs every ``check_`` of a module of this folder in a client's own environment: ``python run_checks.py MODULE URL MODEL``.

One JSON line each on stdout: {"check": its name, "error": null or the traceback}.
"""

import importlib
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace


def main(module: str, url: str, model: str) -> None:
    """Run them in the order in which they are written."""
    sys.path.insert(0, str(Path(__file__).parent))
    checks = importlib.import_module(module)
    server = SimpleNamespace(url=url, model=model)
    for name in [name for name in vars(checks) if name.startswith("check_")]:
        try:
            getattr(checks, name)(server)
            error = None
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"check": name, "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
