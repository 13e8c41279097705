"""What a user who is not root sees of a desktop, as JSON: run by `test_rootless.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import msgspec

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.messages.actions import Key, Type
from envs_node.policy.tasks import read_task
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import open_task

TEXT = "typed: ä€"
NOTES = "/home/user/notes.txt"
METRICS = Path(__file__).parents[1] / "verifier" / "metrics_for_tests.py"
GOLD = {"type": "cloud_file", "path": "bundle://gold/a.txt", "dest": "gold.txt"}


def judge(guest_pid: int) -> dict[str, object]:
    """What the real checker says of the notes, and what two metrics say of where they run."""
    source = read_checker(checker_folder())
    known = msgspec.structs.replace(
        source.vocabulary, metrics=source.vocabulary.metrics | {"who", "lent"}
    )
    checker = Checker(source, overlay={"who": METRICS, "lent": METRICS})
    scores: dict[str, object] = {}
    try:
        for metric in ("compare_text_file", "who", "lent"):
            result = {"type": "vm_file", "path": NOTES, "dest": "notes.txt"}
            evaluator: dict[str, object] = {"func": metric, "result": result}
            if metric == "compare_text_file":
                evaluator["expected"] = GOLD
            text = json.dumps({"id": "t", "instruction": "Type.", "evaluator": evaluator}).encode()
            files = {"gold/a.txt": TEXT.encode()}
            verdict = checker.verify(
                read_task(text, files, known, file="t.json"), guest_pid, "DONE"
            )
            scores[metric] = f"{verdict.verdict} {verdict.reason}".strip()
        scores["folder is empty"] = [path.name for path in checker.folder.iterdir()]
    finally:
        checker.close()
    return scores


def processes_of_mine() -> dict[int, str]:
    """Every process of this user but this one, and what it is."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_mine = entry.stat().st_uid == os.getuid()
            program = (entry / "stat").read_text().rpartition(")")[0] if is_mine else ""
        except (FileNotFoundError, ProcessLookupError):
            continue
        if is_mine and int(entry.name) != os.getpid():
            found[int(entry.name)] = program.partition("(")[2]
    return found


def main() -> None:
    """Reset a desktop, type, save, look around in it, close it."""
    seen: dict[str, object] = {"uid": os.getuid()}
    mounts = Path("/proc/self/mountinfo").read_text()
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        task = open_task("mousepad", NOTES, files={"notes.txt": b""})
        start = sandbox.reset(task)
        end = sandbox.act(Type(text=TEXT))
        sandbox.act(Key(keys=("ctrl", "s")))
        saved = inside(sandbox, NOTES)
        wait_until(lambda: saved.read_text() != "")
        seen["text"] = saved.read_text()
        seen["elements"] = len(end.elements)
        seen["is_drawn"] = start.signature.frame != end.signature.frame
        seen["files"] = start.signature.files != sandbox.observe().signature.files
        seen["whoami"] = shell(sandbox, "id -u; id -un; hostname").split()
        seen["groups"] = shell(sandbox, "id -G").split()
        seen["capabilities"] = shell(sandbox, "grep CapEff /proc/self/status").split()[1]
        seen["owner_of_etc"] = shell(sandbox, "stat -c %U /etc/hostname").strip()
        closed = "/usr/bin /etc /var/tmp /opt /root /home / /run /dev"
        seen["writable"] = shell(sandbox, f"for f in {closed}; do test -w $f && echo $f; done")
        seen["mount"] = shell(sandbox, "mount -t tmpfs x /tmp && echo mounted")
        seen["home"] = shell(sandbox, f"ls {Path.home()} {Path(__file__).parent}")
        seen["links"] = shell(sandbox, "ls /sys/class/net /proc/net/dev; cat /proc/net/route")
        seen["verdicts"] = judge(sandbox.guest_pid)
        seen["before"] = len(processes_of_mine())
        sandbox.close()
        seen["left by a close"] = [
            program for pid, program in processes_of_mine().items() if pid != launcher.pid
        ]
        sandbox = Sandbox(launcher)
        sandbox.reset(open_task("xterm"))
        os.kill(launcher.pid, signal.SIGKILL)
        seen["dies with its launcher"] = wait_until(
            lambda: [*processes_of_mine()] == [launcher.pid]
        )
        sandbox.kill()
    seen["left"] = [*processes_of_mine().values()]
    now = Path("/proc/self/mountinfo").read_text()
    seen["mounts"] = sorted({*now.splitlines()} ^ {*mounts.splitlines()})
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
