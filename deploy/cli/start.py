"""`envs-node start`: run a node until it is stopped."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec

from envs_node.actors.room import JournalSettings
from envs_node.deploy.checker_origin import CheckerSettings
from envs_node.deploy.cli.console import Interrupted, run_until_interrupted, tell
from envs_node.deploy.cli.verb import Verb, load_configured, require_checker, require_host
from envs_node.deploy.config import (
    Config,
    ConfigError,
    DesktopSettings,
    LinkSettings,
    PolicySettings,
    check_config,
)
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.node import node_name, run_desktops, run_head, run_policy, run_trainer
from envs_node.deploy.sweep import owning


class Start(Verb, frozen=True, kw_only=True):
    """Run a node: a head, desktops for a head, a policy for desktops, a trainer, or all of it."""

    role: Literal["all", "head", "desktop", "policy", "trainer"]
    """What this node does. `search` and `eval` without `--head` do everything themselves."""
    folder: Path = Path("runs")
    """Where a head keeps its runs; where other nodes keep their journals and logs."""
    listen: str = ""
    """Address to listen at: `tcp://127.0.0.1:7711`, `ipc:///run/x`; `tls+tcp://0.0.0.0:7711` for
    other machines."""
    head: str = ""
    """Address of the head, for desktops, policies and trainers."""
    resume: bool = False
    """Of a head: go on with the run that was on when the last head of this folder died."""
    config: Path | None = None
    """A TOML file with defaults."""
    desktop: DesktopSettings = DesktopSettings()
    policy: PolicySettings = PolicySettings()
    checker: CheckerSettings = CheckerSettings()
    link: LinkSettings = LinkSettings()
    journal: JournalSettings = JournalSettings()

    @classmethod
    def configured(cls, config: Config) -> Start:
        """With the defaults of a configuration; only the role has none."""
        return cls(
            role="head",
            desktop=config.desktop,
            policy=config.policy,
            checker=config.checker,
            link=config.link,
            journal=config.journal,
        )

    def run(self) -> int:
        """Run until SIGINT or SIGTERM."""
        link = msgspec.structs.replace(
            self.link,
            listen=self.listen or self.link.listen,
            head=self.head or self.link.head,
        )
        config = Config(
            desktop=self.desktop,
            policy=self.policy,
            checker=self.checker,
            link=link,
            journal=self.journal,
        )
        check_config(config)
        is_head = self.role in ("all", "head")
        if not is_head and not link.head:
            raise ConfigError(f"a {self.role} node needs the address of its head: give --head")
        if self.resume and not is_head:
            raise ConfigError(f"a {self.role} node has no runs to go on with: leave --resume out")
        name = node_name(config, self.role)
        serve = self._serving(config, self.folder / name)
        logs = self.folder / name / "logs" if not is_head else None
        with keep_logs(node=name, folder=logs), owning(name, link.listen):
            try:
                run_until_interrupted(serve, "the node was stopped")
            except Interrupted:
                tell(f"{name} was stopped")
        return 0

    def _serving(self, config: Config, folder: Path) -> Callable[[], Awaitable[None]]:
        if self.role == "policy":
            return functools.partial(
                run_policy,
                config,
                folder=folder,
                policy=load_configured(config.policy),
                tell=lambda url: tell(f"the policy listens at {url}"),
            )
        if self.role == "trainer":
            return functools.partial(
                run_trainer,
                config,
                folder=folder,
                tell=lambda url: tell(f"the trainer listens at {url}"),
            )
        checker = require_checker(config.checker.name)
        if self.role != "head":
            require_host(Path(), config.desktop)
        if self.role == "desktop":
            return functools.partial(run_desktops, config, folder=folder, checker=checker)
        return functools.partial(
            run_head,
            config,
            root=self.folder,
            checker=checker,
            policy=load_configured(config.policy) if self.role == "all" else None,
            tell=lambda url: tell(f"the head listens at {url}"),
            is_resuming=self.resume,
        )
