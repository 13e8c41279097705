"""One verdict in a fresh interpreter: the alternative that `benchmarks/verdict.py` measures.

Run by the checker's own Python, in the desktop's network namespace. Imports OSWorld's evaluators as
OSWorld does, all of them, and calls its `evaluate` once.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, f"{path} is no Python file"
    assert spec.loader is not None, f"{path} is no Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Judge as the order on the command line says and print the score."""
    verifier, order, absent = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3].split(",")
    sys.meta_path.append(_load(verifier / "zygote.py")._AbsentFinder(absent))
    guards = _load(verifier / "guard.py")
    outcome = _load(verifier / "judge.py").judge({"machine": None, "read_s": 30.0, **order}, guards)
    sys.stdout.write(json.dumps(outcome["score"]))


if __name__ == "__main__":
    main()
