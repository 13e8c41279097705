"""Whatever OSWorld's metrics return or take, the verdict is right and the host untouched."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from envs_node.actors.verifier.checker import Checker
from tests.actors.verifier.conftest import OVERLAY

RESULT = "/home/user/a.txt"


@pytest.mark.parametrize(
    ("func", "kind"),
    [("none", "NoneType"), ("text", "str"), ("several", "list"), ("huge", "int"), ("nan", "float")],
)
@pytest.mark.parametrize("conj", ["and", "or"])
def test_what_is_no_number_is_the_checkers_fault_among_several_metrics_too(
    checker, desktop, make_task, func, kind, conj
):
    guest = desktop()
    guest.write(RESULT, b"right\n")
    there = {"type": "vm_file", "path": RESULT, "dest": "a.txt"}
    task = make_task(func=["half", func], result=[there, there], expected=None, conj=conj)

    verdict = checker.verify(task, guest.pid, "DONE")

    reason = f"the metric returned no finite number but a {kind}"
    assert (verdict.verdict, verdict.score, verdict.reason) == ("checker_error", None, reason)


def test_a_metric_fills_no_disk_of_the_hosts(checker, desktop, make_task):
    patient = Checker(checker._source, verdict_s=20.0, overlay={"filling": OVERLAY})
    guest = desktop()
    guest.write(RESULT, b"right\n")
    before = shutil.disk_usage(tempfile.gettempdir()).free
    try:
        verdict = patient.verify(make_task(func="filling", expected=None), guest.pid, "DONE")
    finally:
        patient.close()

    assert (verdict.verdict, verdict.reason) == ("success", "")
    assert before - shutil.disk_usage(tempfile.gettempdir()).free < 200 << 20
