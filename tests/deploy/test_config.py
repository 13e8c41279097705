"""A configuration is read strictly: every refusal names the key and what is allowed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envs_node.deploy.config import Config, ConfigError, check_config, load_config


def _written(folder: Path, text: str) -> Path:
    path = folder / "envs.toml"
    path.write_text(text)
    return path


def test_without_a_file_there_are_defaults_and_they_are_in_range() -> None:
    config = load_config(None)

    assert config == Config()
    check_config(config)


def test_what_a_file_sets_is_set_and_the_rest_is_default(tmp_path: Path) -> None:
    path = _written(tmp_path, "[search]\nsamples = 4\n[policy]\nfolder = '/srv/p'\n")

    config = load_config(path)

    assert (config.search.samples, config.policy.folder) == (4, "/srv/p")
    assert config.desktop == Config().desktop


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[search]\nbranch_max = 3", "unknown field `branch_max` - at `$.search`"),
        ("[serach]\nsamples = 3", "unknown field `serach`"),
        ("[desktop]\ncount = 'two'", "Expected `int`, got `str` - at `$.desktop.count`"),
        ("[search", "envs.toml"),
        ("[search]\nfingerprint = 'pixel'", "at `$.search.fingerprint`"),
        ("[desktop]\ncount = 0", "desktop.count is 0; it must be between 1 and 512"),
        ("[desktop.limits]\ncpus = -1.0", "desktop.limits.cpus is -1.0; it must be between 0"),
        ('[desktop]\nallowed_hosts = ["http://x"]', "desktop.allowed_hosts has 'http://x'"),
        ('[desktop]\nallowed_hosts = ["a.org:70000"]', "desktop.allowed_hosts has 'a.org:70000'"),
        ('[desktop]\nallowed_hosts = ["a.org:0"]', "desktop.allowed_hosts has 'a.org:0'"),
        ('[desktop]\nlower = ""', "desktop.lower is empty"),
        ("[search]\nsupport_min = 9", "search.support_min is 9; it must be between 1 and 8"),
        ("[search]\ntemperature = 0", "search.temperature is 0"),
        ("[search]\ntemperature = nan", "search.temperature is nan"),
        ("[search]\nlease_ms = 999", "search.lease_ms is 999; it must be between 1000"),
        ("[search]\nseed = 9223372036854775808", "search.seed is 9223372036854775808"),
        ("[fit]\nseed = -1", "fit.seed is -1"),
        ("[fit]\nlearning_rate = 0", "fit.learning_rate is 0"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(_written(tmp_path, text))

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: No such file.*--config"):
        load_config(tmp_path / "none.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "envs.toml"
    path.write_bytes(b"\xff\xfe[search]")

    with pytest.raises(ConfigError, match=r"envs\.toml"):
        load_config(path)


def test_every_number_has_a_range() -> None:
    """A setting without a bound would be found by a desktop, not by the user."""
    for section in ("desktop", "policy", "search", "fit"):
        for field in msgspec.structs.fields(getattr(Config(), section)):
            if field.type in (int, float) and field.name != "seed":
                part = getattr(Config(), section)
                wild = msgspec.structs.replace(part, **{field.name: -(10**9)})
                with pytest.raises(ConfigError, match=rf"{section}\.{field.name}"):
                    check_config(msgspec.structs.replace(Config(), **{section: wild}))


@pytest.mark.parametrize("wild", ["inf", "-inf", "nan", "-1", "'30s'", "true"])
def test_no_number_is_without_end_negative_or_no_number_at_all(tmp_path: Path, wild: str) -> None:
    """Row E22: a time of `inf` is refused when it is read, not at step 40."""
    for part in msgspec.structs.fields(Config):
        for field in msgspec.structs.fields(part.type):
            is_seed = field.name == "seed" and part.name == "search"  # may be negative
            if field.type in (int, float) and not (is_seed and wild == "-1"):
                text = f"[{part.name}]\n{field.name} = {wild}"
                with pytest.raises(ConfigError, match=rf"{part.name}\.{field.name}"):
                    load_config(_written(tmp_path, text))
