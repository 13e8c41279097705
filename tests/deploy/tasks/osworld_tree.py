"""An OSWorld tree of a few tasks, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envs_node.policy.tasks import Vocabulary

HUB = "https://hub.example.org/files"
KNOWN = Vocabulary(
    metrics=frozenset({"compare_text_file", "exact_match", "compare_audios", "infeasible"}),
    getters=frozenset({"vm_file", "cloud_file", "rule", "page_info", "googledrive_file"}),
    setup_types=frozenset(
        {"sleep", "download", "launch", "open", "execute", "login", "chrome_open_tabs"}
    ),
    unsupported={"metric:compare_audios": "needs librosa, which is not installed"},
)


def write_task(root: Path, domain: str, name: str, **changes: Any) -> Path:
    """A task that downloads `in.txt` and is compared with `gold.txt`, unless changed."""
    path = root / "evaluation_examples" / "examples" / domain / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [{"url": f"{HUB}/{name}/in.txt", "path": "/home/user/in.txt"}]
    task = {
        "id": name,
        "snapshot": domain,
        "instruction": "Do it.",
        "related_apps": ["os"],
        "config": [{"type": "download", "parameters": {"files": files}}],
        "evaluator": {
            "func": "compare_text_file",
            "result": {"type": "vm_file", "path": "/home/user/in.txt", "dest": "in.txt"},
            "expected": {
                "type": "cloud_file",
                "path": f"{HUB}/{name}/gold.txt",
                "dest": "gold.txt",
            },
        },
        **changes,
    }
    path.write_text(json.dumps(task, indent=2), encoding="utf-8")
    return path


RULED = {
    "func": "exact_match",
    "result": {"type": "vm_file", "path": "/a", "dest": "a"},
    "expected": {"type": "rule", "rules": {"expected": "a"}},
}
