"""`envs-node status`: how the nodes of a head, and the run that is on, stand."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import tyro
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.nng import open_links
from envs_node.actors.post import Post
from envs_node.deploy.cli.console import Interrupted, run_until_interrupted, show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.conduct import HeadLostError
from envs_node.deploy.config import Config, ConfigError
from envs_node.deploy.door import find_door
from envs_node.deploy.links import open_links_to
from envs_node.deploy.membership import HEAD
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.status import NodeStatus, Status, StatusWanted

_ASK_S = 10.0
_EVERY_S = 2.0
_LEASES_SHOWN_MAX = 40
_CLIENT = ActorName("client")


class StatusVerb(Verb, frozen=True, kw_only=True):
    """Look at nodes, desktops, queues and leases. Exit status: 0 healthy, 1 degraded or paused."""

    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """The folder of a run that is on, on this machine."""
    head: str = ""
    """Address of a head, instead."""
    json: bool = False
    """Print JSON; with `--watch`, a line each time."""
    watch: bool = False
    """Look again every two seconds, until Ctrl-C."""
    config: Path | None = None
    """A TOML file with defaults."""

    @classmethod
    def configured(cls, config: Config) -> StatusVerb:
        """With the head of a configuration."""
        return cls(head=config.link.head)

    def run(self) -> int:
        """Show it once, or until interrupted."""
        if self.folder is None and not self.head:
            raise ConfigError("status of what? Give the folder of a run, or --head URL")
        url = find_door(self.folder) if self.folder is not None else self.head
        if self.watch:
            return self._watch(url)
        found: list[Status] = []
        look = functools.partial(_look, url, _once(found))
        run_until_interrupted(look, "nobody had answered yet", closing="")
        (status,) = found
        if self.json:
            show(status, "", as_json=True)
        else:
            Console(file=sys.stdout).print(status_table(status))
        return 0 if is_healthy(status) else 1

    def _watch(self, url: str) -> int:
        live = Live(console=Console(file=sys.stdout), auto_refresh=False)
        look = functools.partial(_look, url, self._show_each(live))
        try:
            run_until_interrupted(look, "looked at enough", closing="")
        except Interrupted:
            pass
        finally:
            live.stop()
        return 0

    def _show_each(self, live: Live) -> Callable[[Status], Awaitable[bool]]:
        async def show_one(status: Status) -> bool:
            if self.json:
                sys.stdout.write(msgspec.json.encode(status).decode() + "\n")
                sys.stdout.flush()
            elif sys.stdout.isatty():
                live.start()
                live.update(status_table(status), refresh=True)
            else:
                Console(file=sys.stdout).print(status_table(status))
            await trio.sleep(_EVERY_S)
            return True

        return show_one


def is_healthy(status: Status) -> bool:
    """Whether every node is alive and whole, and the run goes on."""
    return not status.paused and all(
        node.is_alive and not node.report.degraded for node in status.nodes
    )


def status_table(status: Status) -> Group:
    """For people: the run, the nodes, why some are degraded, and who drives what."""
    parts: list[RenderableType] = [*_run_lines(status), _node_table(status)]
    for node in status.nodes:
        if not node.is_alive:
            parts.append(_line(f"{node.node} was not heard for {_ago(node.heard_ms)}", "red"))
        says = node.node if node.is_alive else f"{node.node} had said"
        parts += [_line(f"{says}: {reason}", "yellow") for reason in node.report.degraded]
    parts += [_line(words) for node in status.nodes if (words := _place(node))]
    if status.leases:
        parts.append(_lease_table(status))
    return Group(*parts)


def _once(found: list[Status]) -> Callable[[Status], Awaitable[bool]]:
    async def keep(status: Status) -> bool:
        found.append(status)
        return False

    return keep


async def _look(url: str, tell: Callable[[Status], Awaitable[bool]]) -> bool:
    """Ask for the status, and again while it is wanted. True when it no longer is."""
    post = Post(RunId("status"))
    opening = open_links() if url.startswith("ipc:") else open_links_to(url)
    async with opening as links:
        post.add_route(HEAD, links.to(url))
        head = post.ref(HEAD, sender=_CLIENT)
        is_wanted = True
        while is_wanted:
            try:
                status = await head.ask(StatusWanted(), timeout_s=_ASK_S)
            except (AskTimeoutError, ActorCrashedError) as error:
                raise HeadLostError(f"nobody answers at {url}: {error}") from error
            assert isinstance(status, Status), f"a head does not answer {status!r}"
            is_wanted = await tell(status)
        return True


def _run_lines(status: Status) -> list[Text]:
    lines = [_line(f"head {status.head} (envs-node {status.version})")]
    if not status.run:
        return [*lines, _line("no run is on")]
    tasks = ", ".join(f"{count} {state}" for state, count in status.tasks) or "none known"
    lines.append(_line(f"run {status.run}: tasks {tasks}"))
    lines.append(
        _line(
            f"branches sent out again {status.reassigned}, given up {status.lost}; "
            f"late reports refused {status.refused}"
        )
    )
    if status.paused:
        reason = status.paused.removeprefix("paused: ")
        lines.append(_line(f"paused: {reason}", "bold red"))
    return lines


def _node_table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("node", "role", "is", "desktops", "waiting", "restarts", "refused"):
        justify: JustifyMethod = "right" if name in ("restarts", "refused") else "left"
        table.add_column(name, justify=justify, no_wrap=name in ("role", "is"))
    for node in status.nodes:
        report = node.report
        living = report.desktops if node.is_alive else ()
        states = Counter(desktop.state for desktop in living)
        cells = (
            node.node,
            node.role,
            _state(node),
            ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "-",
            ", ".join(f"{name} {count}" for name, count in report.queues) or "-",
            str(report.restarts),
            str(report.refusals),
        )
        table.add_row(*(_line(cell) for cell in cells))
    return table


def _lease_table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("branch", "held by", "lease", "left"):
        table.add_column(name, justify="right" if name in ("lease", "left") else "left")
    for lease in status.leases[:_LEASES_SHOWN_MAX]:
        left = f"{lease.left_ms / 1000:.1f} s"
        cells = (lease.branch_id, lease.holder, str(lease.number), left)
        table.add_row(*(_line(cell) for cell in cells))
    if len(status.leases) > _LEASES_SHOWN_MAX:
        table.add_row(_line(f"and {len(status.leases) - _LEASES_SHOWN_MAX} more"))
    return table


def _place(node: NodeStatus) -> str:
    """Where a node listens and what it does, below the table: both may be long."""
    words = ", ".join(filter(None, (node.url and f"at {node.url}", node.report.doing)))
    return words and f"{node.node}: {words}"


def _state(node: NodeStatus) -> str:
    if not node.is_alive:
        return f"dead, {_ago(node.heard_ms)}"
    return "degraded" if node.report.degraded else "well"


def _ago(heard_ms: int) -> str:
    seconds = heard_ms // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def _line(text: str, style: str = "") -> Text:
    """Foreign text, without what would move the cursor."""
    return Text("".join(c if c.isprintable() else "?" for c in text), style=style)
