"""Configuration: one TOML file, decoded into frozen structs that refuse unknown keys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from envs_node.actors.desktop.kind import DesktopKind, Limits, SessionName, XServerName
from envs_node.actors.desktop.remote.address import parse_address
from envs_node.actors.room import JournalSettings
from envs_node.deploy.checker_origin import CheckerSettings
from envs_node.messages.base import EnvsError
from envs_node.messages.fit import FitSettings
from envs_node.messages.lifecycle import SearchSettings

BASE_POLICY = Path(__file__).parent / "base-policy"


class ConfigError(EnvsError):
    """A configuration that cannot be used. The message names the file, the key and the way out."""


_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")


class DesktopSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The desktops of a node."""

    count: int = 2
    """Desktops driven at once; where there are `machines`, each is one desktop instead."""
    backend: Literal["sandbox", "osworld-http"] = "sandbox"
    """What desktops are: made on this host, or machines that run OSWorld's server already."""
    machines: tuple[str, ...] = ()
    """Of backend osworld-http: `http://HOST:PORT` of each. A token that they want is in the
    variable ENVS_MACHINE_TOKEN."""
    revert_command: tuple[str, ...] = ()
    """Of backend osworld-http: program and arguments that make a machine fresh, with `{machine}`,
    `{host}` and `{port}` replaced; no shell reads it. Without, a machine serves one episode."""
    renew_timeout_s: float = 60.0
    """How long a machine may take to be reverted, and again to answer after that."""
    width: int = 1280
    """Of the screen, in pixels."""
    height: int = 720
    session: SessionName = "openbox"
    xserver: XServerName = "xvfb"
    lower: str = "/"
    """What desktops stand on: the host's own file tree, or the path of a folder or an image (see
    `envs-node image build`)."""
    limits: Limits = Limits()
    """Of each desktop."""
    ocr: bool = False
    """Whether text is read off the picture where a window says nothing of itself; needs the
    program tesseract."""
    allowed_hosts: tuple[str, ...] = ()
    """What tasks may reach that ask for a network: `example.org`, `*.example.org`,
    `example.org:8080`; nothing unless given."""
    record: bool = False
    """Whether what each branch shows is filmed, into `recordings/` of the run; needs ffmpeg."""
    warm: int = 1
    """Desktops kept ready, running and set up for no task, so that a reset takes one at once; they
    are started when the processors have nothing to do."""
    memory_reserve_bytes: int = 512 << 20
    """Memory that no desktop is promised."""
    load_cpu_max: float = 8.0
    """With more load a processor than this, no more desktops are started than there are
    processors."""

    fork: Literal["auto", "on", "off"] = "auto"
    """Whether branches may begin on copies of live desktops: once a try has shown that this host
    can; untried; or never, and every branch replays."""
    fork_bytes_max: int = 2 << 30
    """Memory that desktops may take which are kept to make copies of."""

    def kind(self) -> DesktopKind:
        """What its desktops are."""
        return DesktopKind(
            width=self.width,
            height=self.height,
            session=self.session,
            xserver=self.xserver,
            lower=os.path.abspath(self.lower),
            limits=self.limits,
            ocr=self.ocr,
        )


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy of a node."""

    folder: str = ""
    """Folder of the policy; the built-in one unless given."""
    threads: int = 1
    """CPU threads of one proposal."""

    def path(self) -> Path:
        """The folder that is meant."""
        return Path(self.folder) if self.folder else BASE_POLICY


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the nodes of a run find each other."""

    node: str = ""
    """Name of this node; made from the host's name and the role unless given."""
    listen: str = "tcp://127.0.0.1:7711"
    """Address a head or policy node listens at: `tls+tcp://0.0.0.0:7711` for other machines."""
    host: str = ""
    """What other machines call this one, where it listens; its name unless given."""
    head: str = ""
    """Address of the head, for the other roles."""
    token_file: str = ""
    """File with a join token, for a node that has no certificate yet; else ENVS_NODE_TOKEN."""
    silence_s: float = 300.0
    """How long `search --head` waits for a head that went away, before it gives the run up."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    desktop: DesktopSettings = DesktopSettings()
    policy: PolicySettings = PolicySettings()
    checker: CheckerSettings = CheckerSettings()
    link: LinkSettings = LinkSettings()
    search: SearchSettings = SearchSettings()
    fit: FitSettings = FitSettings()
    journal: JournalSettings = JournalSettings()


def load_config(path: Path | None) -> Config:
    """Read a TOML file, or return the defaults.

    Raises:
        ConfigError: no such file, not TOML, an unknown key or a value out of range.
    """
    if path is None:
        return Config()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a TOML file with --config") from error
    try:
        config = msgspec.toml.decode(data, type=Config)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    check_config(config)
    return config


def check_config(config: Config) -> None:
    """Refuse numbers that make no sense.

    Raises:
        ConfigError: naming the key, its value and what is allowed.
    """
    search = config.search
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("desktop.count", config.desktop.count, 1, 512),
        ("desktop.width", config.desktop.width, 320, 7680),
        ("desktop.fork_bytes_max", config.desktop.fork_bytes_max, 64 << 20, 1 << 50),
        ("desktop.height", config.desktop.height, 240, 4320),
        ("desktop.limits.memory_bytes", config.desktop.limits.memory_bytes, 1 << 27, 2**50),
        ("desktop.limits.disk_bytes", config.desktop.limits.disk_bytes, 1 << 25, 2**50),
        ("desktop.limits.processes_max", config.desktop.limits.processes_max, 64, 4_000_000),
        ("desktop.limits.cpus", config.desktop.limits.cpus, 0, 4096),
        ("desktop.warm", config.desktop.warm, 0, 64),
        ("desktop.memory_reserve_bytes", config.desktop.memory_reserve_bytes, 0, 2**50),
        ("desktop.load_cpu_max", config.desktop.load_cpu_max, 0.1, 10_000),
        ("desktop.renew_timeout_s", config.desktop.renew_timeout_s, 1, 3600),
        ("policy.threads", config.policy.threads, 1, 256),
        ("link.silence_s", config.link.silence_s, 1, 86_400),
        ("journal.free_bytes_min", config.journal.free_bytes_min, 0, 2**50),
        ("search.samples", search.samples, 1, 256),
        ("search.temperature", search.temperature, 0.01, 10),
        ("search.support_min", search.support_min, 1, search.samples),
        ("search.branches_node_max", search.branches_node_max, 1, 64),
        ("search.looks_max", search.looks_max, 1, 100),
        ("search.leaves_task_max", search.leaves_task_max, 1, 100_000),
        ("search.successes_task_max", search.successes_task_max, 1, 10_000),
        ("search.certify_replays", search.certify_replays, 1, 100),
        ("search.actions_task_max", search.actions_task_max, 1, 10_000_000),
        ("search.steps_max", search.steps_max, 1, 200),
        ("search.lease_ms", search.lease_ms, 1000, 3_600_000),
        ("search.infra_retries_max", search.infra_retries_max, 0, 100),
        ("search.interruptions_max", search.interruptions_max, 0, 100_000),
        ("search.seed", search.seed, -(2**63), 2**63 - 1),
        ("search.rollouts", search.rollouts, 0, 1000),
        ("fit.batch_size", config.fit.batch_size, 1, 4096),
        ("fit.epochs", config.fit.epochs, 1, 100),
        ("fit.learning_rate", config.fit.learning_rate, 1e-8, 1),
        ("fit.label_smoothing", config.fit.label_smoothing, 0, 0.9),
        ("fit.hard_beta", config.fit.hard_beta, 0, 10),
        ("fit.weight_max", config.fit.weight_max, 1, 1000),
        ("fit.checkpoint_steps", config.fit.checkpoint_steps, 1, 1_000_000),
        ("fit.seed", config.fit.seed, 0, 2**32 - 1),
        ("fit.threads", config.fit.threads, 1, 256),
    )
    for name, value, least, most in bounds:
        if not least <= value <= most:
            raise ConfigError(f"{name} is {value}; it must be between {least:g} and {most:g}")
    _check_backend(config.desktop)
    for host in config.desktop.allowed_hosts:
        port = host.partition(":")[2] or "80"
        if not _HOST.fullmatch(host) or not 0 < int(port) < 1 << 16:
            raise ConfigError(
                f"desktop.allowed_hosts has {host!r}; write example.org, *.example.org or either "
                "with a port, example.org:8080"
            )
    if not config.desktop.lower:
        raise ConfigError("desktop.lower is empty; name a folder or an image, or / for the host's")


def _check_backend(desktop: DesktopSettings) -> None:
    """Refuse machines that are none, and what only a desktop of this host can do."""
    is_sandbox = desktop.backend == "sandbox"
    if is_sandbox and (desktop.machines or desktop.revert_command):
        raise ConfigError('desktop.machines need desktop.backend = "osworld-http"')
    if is_sandbox:
        return
    if not desktop.machines:
        raise ConfigError('desktop.machines is empty; name some, like ["http://10.0.0.7:5000"]')
    if len(set(desktop.machines)) < len(desktop.machines):
        raise ConfigError("desktop.machines names one twice; each is one desktop")
    for machine in desktop.machines:
        try:
            parse_address(machine)
        except ValueError as error:
            raise ConfigError(f"desktop.machines: {error}") from error
    for name in ("record", "ocr"):
        if getattr(desktop, name):
            raise ConfigError(f"desktop.{name} is for desktops of this host, not for machines")
