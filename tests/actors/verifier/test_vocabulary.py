"""What the installed checker knows, read from its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs_node.actors.verifier.vocabulary import CheckerMissingError, CheckerSource, read_checker


def test_the_installed_checker_is_read_in_full(source: CheckerSource):
    known = source.vocabulary

    assert source.version == "desktop-env 1.0.2"
    assert (len(source.metric_modules), len(source.getter_modules)) == (136, 54)
    assert source.metric_modules["compare_table"] == "desktop_env.evaluators.metrics.table"
    assert {"exact_match", "infeasible"} <= known.metrics
    assert {"vm_file", "rule", "cloud_file"} <= known.getters
    assert {"execute", "launch", "download", "sleep"} <= known.setup_types
    assert not {"act", "replay", "tidy_desktop"} & known.setup_types


def test_only_what_needs_an_absent_package_is_unsupported(source: CheckerSource):
    unsupported = source.vocabulary.unsupported

    assert unsupported["metric:compare_image_text"] == "needs easyocr, which is not installed"
    assert unsupported["metric:compare_audios"] == "needs librosa, which is not installed"
    assert unsupported["getter:googledrive_file"] == "needs pydrive, which is not installed"
    assert unsupported["getter:page_info"] == "needs playwright, which is not installed"
    assert unsupported["setup:login"] == "needs playwright, which is not installed"
    assert len([name for name in unsupported if name.startswith("metric:")]) == 3
    assert "metric:compare_docx_files" not in unsupported


def test_a_checker_that_is_not_there_is_named_with_the_way_out(tmp_path: Path):
    with pytest.raises(CheckerMissingError, match="envs-node checker install") as caught:
        read_checker(tmp_path)

    assert str(tmp_path) in str(caught.value)
