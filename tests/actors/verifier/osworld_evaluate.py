"""Runs OSWorld's own `evaluate` on made-up metrics. Runs in the checker's own Python.

`python osworld_evaluate.py ZYGOTE ABSENT`: reads a case a line, answers with a line.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any


class Env:
    """As much of OSWorld's DesktopEnv as evaluating takes."""

    enable_proxy = False

    def __init__(self, last_action: str) -> None:
        self.action_history = [last_action]
        self.setup_controller = types.SimpleNamespace(setup=lambda *_: True)


def get_given(_: Env, config: dict[str, Any]) -> Any:
    """Find what the case says, or raise it."""
    if "raises" in config:
        raise getattr(builtins, config["raises"])("as the case wants")
    return config["value"]


def metric(result: Any, *expected: Any, **options: Any) -> Any:
    """Score what was found, and take what OSWorld hands on."""
    assert expected in ((), ("gold",)), expected
    assert options in ({}, {"option": 1}), options
    return result


def main() -> None:
    """Serve cases until standard input ends."""
    spec = importlib.util.spec_from_file_location("zygote", Path(sys.argv[1]))
    assert spec is not None
    assert spec.loader is not None
    zygote = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zygote)
    nothing: dict[str, str] = {}
    absent = sys.argv[2].split(",")
    zygote._prepare({"absent": absent, "metrics": nothing, "getters": nothing, "overlay": nothing})
    desktop = importlib.import_module("desktop_env.desktop_env")
    vars(desktop)["metrics"] = types.SimpleNamespace(metric=metric)
    vars(desktop)["getters"] = types.SimpleNamespace(get_given=get_given)
    for line in sys.stdin:
        case = json.loads(line)
        env = Env(case["last_action"])
        try:
            desktop.DesktopEnv._set_evaluator_info(env, {"evaluator": case["evaluator"]})
            answer = {"value": desktop.DesktopEnv.evaluate(env)}
        except (ArithmeticError, LookupError, NameError, OSError, TypeError, ValueError) as error:
            answer = {"raises": type(error).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
