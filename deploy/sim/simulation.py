"""One simulation: a head, policies and desktops in a world, the faults of a seed, a report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import msgspec
import trio
import trio.testing

from envs_node.actors.ledger.actor import Store
from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.post import Post
from envs_node.deploy.conduct import run_request
from envs_node.deploy.config import Config
from envs_node.deploy.membership import HEAD
from envs_node.deploy.parts import make_search
from envs_node.deploy.sim.disk import Disk, SimStore
from envs_node.deploy.sim.faults import Faults, Mischief
from envs_node.deploy.sim.machine import Toil
from envs_node.deploy.sim.network import Agenda, Network, Port, SimLink
from envs_node.deploy.sim.node import Life, SimNode
from envs_node.deploy.sim.roles import HEAD_NODE, DesktopRole, HeadRole, PolicyRole
from envs_node.deploy.sim.schedule import no_logs, same_order
from envs_node.deploy.sim.watch import MakeSearch, Watch
from envs_node.deploy.sim.world import World, WorldSettings
from envs_node.messages.base import ActorName, Envelope, Message, RunId
from envs_node.messages.lifecycle import RunRefused, RunStarted, SearchSettings, StopRun
from envs_node.messages.search import Progress, ProgressWanted

RUN = "simulated"
_CLIENT = ActorName("client")
_ASK_S = 20.0
_POLL_S = 2.0
_STOP_S = 600.0
_FIRST_S, _APART_S = 2.5, 0.05
"""When the first node of desktops starts, and how long after it the next."""


class SimSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to simulate."""

    seed: int = 1
    desktops: int = 16
    nodes: int = 4
    """That the desktops are spread over."""
    policies: int = 1
    """Nodes with a proposer."""
    world: WorldSettings = WorldSettings()
    search: SearchSettings = SearchSettings()
    faults: Faults = Faults()
    storm_s: float = 0.0
    """How long faults strike, from the start of the run; 0 for as long as it lasts."""
    head_service_s: float = 0.0002
    """How long the head takes over each message."""
    time_max_s: float = 24 * 3600.0
    """Virtual time after which a run that goes on has lost something."""
    keeps_branches: bool = False
    """Whether desktop nodes keep the journals of their branches, as real ones do."""


class SimParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation tries: the product, unless a test hands in something broken."""

    make_search: MakeSearch = make_search
    open_store: Callable[[Path], Store] = LedgerStore


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    settings: SimSettings
    progress: Progress | None
    """None when the run did not end."""
    watch: Watch
    digest: int
    duration_s: float
    """Virtual."""
    faults: dict[str, int]
    messages: dict[str, int]
    kinds: dict[str, int]
    """Messages that arrived, by the name of their class, the most frequent first."""
    queued_s: list[float]
    """Samples of how long messages queued at the head."""
    performed: int
    """Actions that desktops performed."""
    resets: int
    leaked: list[str]


def simulate(
    settings: SimSettings,
    root: Path,
    *,
    parts: SimParts | None = None,
    tell: Callable[[Progress, float], None] = lambda _progress, _time_s: None,
) -> Outcome:
    """Run one simulation in virtual time. `root` takes the run's folder; `tell` hears how it goes.

    Equal settings give equal outcomes, digest of all messages included.
    """
    site = Site(settings, root, parts or SimParts(), tell)
    clock = trio.testing.MockClock(autojump_threshold=0)
    with no_logs(), same_order(settings.seed):
        return trio.run(site.run, clock=clock)


class Site:
    """All nodes of a simulation, the network between them, and who strikes at them."""

    def __init__(
        self,
        settings: SimSettings,
        root: Path,
        parts: SimParts,
        tell: Callable[[Progress, float], None],
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._root = root
        self._world = World(settings.world)
        self._watch = Watch(self._world, parts.make_search)
        self._agenda = Agenda()
        chance = Random(f"{settings.seed}/network")
        self._network = Network(self._agenda, settings.faults.line, chance, self._tap)
        self._disk = Disk()
        self._parts = parts
        self._mischief = Mischief(self._agenda, settings.seed, self._strike)
        self._queued_s: list[float] = []
        role = HeadRole(
            root,
            Config(search=settings.search),
            open_store=self._open_store,
            make_search=self._watch.make_search,
        )
        self._head = self._node(HEAD_NODE, role.live, service_s=settings.head_service_s)
        self._policies = [
            self._node(f"policy-{number}", PolicyRole(self._world).live)
            for number in range(settings.policies)
        ]
        self._roles = list(self._desktop_roles(root / "nodes"))
        self._nodes = [
            self._node(f"node-{number}", role.live, start_s=_FIRST_S + number * _APART_S)
            for number, role in enumerate(self._roles)
        ]

    async def run(self) -> Outcome:
        """Run it all, until the run is over or its time is up."""
        progress: Progress | None = None
        async with trio.open_nursery() as agenda:
            agenda.start_soon(self._agenda.run)
            async with trio.open_nursery() as nodes:
                for node in self._everyone():
                    nodes.start_soon(node.keep)
                with trio.move_on_after(self._settings.time_max_s):
                    progress = await self._conduct()
                duration_s = trio.current_time()
                self._stop()
                nodes.cancel_scope.deadline = duration_s + _STOP_S
            agenda.cancel_scope.cancel()
        return self._outcome(progress, duration_s)

    # What a client does ----------------------------------------------------------------------

    async def _conduct(self) -> Progress:
        """Start the run, go on with it after each death of the head, and wait for its end."""
        post = Post(RunId("client"), clock_ns=self._head.clock_ns, stamp="client")
        port = Port("client", post.deliver)
        self._network.open(port)
        post.add_route("", SimLink(self._network, port, HEAD_NODE))
        head, scheduler = (
            post.ref(name, sender=_CLIENT) for name in (HEAD, ActorName("scheduler"))
        )
        request = run_request(RUN, Config(search=self._settings.search), self._world.tasks)
        is_begun = False
        while True:
            try:
                answer = await scheduler.ask(ProgressWanted(), timeout_s=_ASK_S)
                if isinstance(answer, Progress):
                    self._tell(answer, trio.current_time())
                    if answer.is_over:
                        break
            except (AskTimeoutError, ActorCrashedError):
                is_there = (self._root / RUN / "manifest.json").exists()
                again = msgspec.structs.replace(request, is_resumed=is_there)
                try:
                    said = await head.ask(again, timeout_s=_ASK_S)
                except (AskTimeoutError, ActorCrashedError):
                    said = None
                if isinstance(said, RunStarted) and not is_begun:
                    is_begun = True
                    self._begin_faults()
                if isinstance(said, RunRefused):
                    self._watch.refusals.append(said.reason)
            await trio.sleep(_POLL_S)
        self._mischief.end()
        self._network.line = msgspec.structs.replace(self._network.line, loss=0.0)
        with trio.move_on_after(_ASK_S * 3):
            await head.ask(StopRun(run=RUN), timeout_s=_ASK_S * 3)
        self._network.close(port)
        return answer

    def _stop(self) -> None:
        """Stop every node in order; what does not end in time has leaked."""
        self._mischief.end()
        for node in [*self._nodes, *self._policies, self._head]:
            node.stop()

    # Faults -----------------------------------------------------------------------------------

    def _begin_faults(self) -> None:
        faults, count = self._settings.faults, self._settings.desktops
        rates = {
            "desktop_crashes": faults.desktop_crashes * count,
            "checker_crashes": faults.checker_crashes * count,
            "node_crashes": faults.node_crashes * len(self._nodes),
            "node_freezes": faults.node_freezes * len(self._nodes),
            "policy_crashes": faults.policy_crashes * len(self._policies),
            "policy_freezes": faults.policy_freezes * len(self._policies),
            "clock_jumps": faults.clock_jumps * (len(self._nodes) + 1),
            "head_crashes": faults.head_crashes,
            "head_freezes": faults.head_freezes,
            "ledger_slowdowns": faults.ledger_slowdowns,
            "ledger_errors": faults.ledger_errors,
            "disk_fills": faults.disk_fills,
        }
        for kind, rate in rates.items():
            self._mischief.begin(kind, rate)
        if storm_s := self._settings.storm_s:
            self._agenda.at(trio.current_time() + storm_s, self._mischief.end)

    def _strike(self, kind: str, chance: Random) -> bool:
        """Do one fault."""
        faults, now_s = self._settings.faults, trio.current_time()
        restart_s = faults.restart_s * (1 + 9 * chance.random())
        freeze_s = faults.freeze_s * chance.random()
        match kind:
            case "desktop_crashes" | "checker_crashes":
                return self._doom(kind, chance)
            case "node_crashes" | "policy_crashes" | "head_crashes":
                return self._noted(kind, (node := self._one(kind, chance)), node.kill(restart_s))
            case "node_freezes" | "policy_freezes" | "head_freezes":
                return self._noted(kind, (node := self._one(kind, chance)), node.freeze(freeze_s))
            case "clock_jumps":
                node = chance.choice([*self._nodes, self._head])
                return node.jump(faults.jump_s * (2 * chance.random() - 1))
            case "ledger_slowdowns":
                self._disk.slow_until_s = now_s + faults.slow_s * chance.random()
            case "disk_fills":
                self._disk.full_until_s = now_s + faults.slow_s * chance.random()
            case "ledger_errors":
                self._disk.is_doomed = True
        return True

    def _one(self, kind: str, chance: Random) -> SimNode:
        """A node of the kind that a fault strikes."""
        if kind.startswith("head"):
            return self._head
        return chance.choice(self._policies if kind.startswith("policy") else self._nodes)

    def _noted(self, kind: str, node: SimNode, is_done: bool) -> bool:
        if is_done:
            self._watch.struck(node.name, kind, trio.current_time())
        return is_done

    def _doom(self, kind: str, chance: Random) -> bool:
        role = chance.choice(self._roles)
        doomed = role.desktops if kind == "desktop_crashes" else role.checkers
        if not doomed:
            return False
        desktop_id = chance.choice(sorted(doomed))
        doomed[desktop_id].is_doomed = True
        return True

    # Parts ------------------------------------------------------------------------------------

    def _tap(self, there: str, envelope: Envelope[Message]) -> None:
        self._watch.heard(there, trio.current_time())

    def _open_store(self, life: Life, toil: Toil, path: Path) -> Store:
        return SimStore(
            path,
            open_store=self._parts.open_store,
            disk=self._disk,
            life=life,
            toil=toil,
            world=self._world,
        )

    def _node(
        self,
        name: str,
        live: Callable[[Life], Awaitable[None]],
        *,
        service_s: float = 0.0,
        start_s: float = 0.0,
    ) -> SimNode:
        return SimNode(
            name,
            self._network,
            live,
            seed=self._settings.seed,
            service_s=service_s,
            start_s=start_s,
        )

    def _desktop_roles(self, folder: Path) -> list[DesktopRole]:
        """As many desktops on each node, as near as may be."""
        settings, roles, first = self._settings, [], 0
        for number in range(settings.nodes):
            count = (settings.desktops * (number + 1)) // settings.nodes - first
            kept = folder if settings.keeps_branches else None
            roles.append(DesktopRole(self._world, count, first, kept))
            first += count
        return roles

    def _everyone(self) -> list[SimNode]:
        return [self._head, *self._policies, *self._nodes]

    def _outcome(self, progress: Progress | None, duration_s: float) -> Outcome:
        desktops = [desktop for role in self._roles for desktop in role.desktops.values()]
        return Outcome(
            settings=self._settings,
            progress=progress,
            watch=self._watch,
            digest=self._network.digest,
            duration_s=duration_s,
            faults=dict(sorted(self._mischief.counts.items())),
            messages=self._network.counts,
            kinds=dict(self._network.kinds.most_common()),
            queued_s=self._head.queued_s,
            performed=sum(desktop.performed for desktop in desktops),
            resets=sum(desktop.resets for desktop in desktops),
            leaked=[words for node in self._everyone() for words in node.leaks()],
        )
