"""Leases beside a plain model: one holder an item, and old numbers never come back."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from envs_node.supervisor.lease import LeaseTable

LENGTH_NS = 10
items = st.sampled_from("abc")
holders = st.sampled_from(["x", "y"])


class Leases(RuleBasedStateMachine):
    """The model keeps, for each item, the last number granted and until when it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable[str]()
        self.now_ns = 0
        self.model: dict[str, tuple[int, int]] = {}
        self.numbers: list[tuple[str, int]] = []

    def is_held(self, item: str, number: int) -> bool:
        held = self.model.get(item)
        return held is not None and held[0] == number and self.now_ns < held[1]

    @rule(by_ns=st.integers(0, 8))
    def wait(self, by_ns: int) -> None:
        self.now_ns += by_ns

    @rule(item=items, holder=holders)
    def grant(self, item: str, holder: str) -> None:
        held = self.model.get(item)
        lease = self.table.grant(item, holder, now_ns=self.now_ns, length_ns=LENGTH_NS)

        assert (lease is None) == (held is not None and self.now_ns < held[1])
        if lease is not None:
            assert all(lease.number > number for _, number in self.numbers)
            self.numbers.append((item, lease.number))
            self.model[item] = (lease.number, self.now_ns + LENGTH_NS)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        if self.numbers:
            item, number = data.draw(st.sampled_from(self.numbers))
            kept = self.table.renew(item, number, now_ns=self.now_ns, length_ns=LENGTH_NS)
            assert kept is (self.model.get(item, (0, 0))[0] == number)
            if kept:
                self.model[item] = (number, self.now_ns + LENGTH_NS)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.numbers:
            item, number = data.draw(st.sampled_from(self.numbers))
            is_last = self.model.get(item, (0, 0))[0] == number
            assert self.table.release(item, number) is is_last
            if is_last:
                del self.model[item]

    @rule()
    def lapse(self) -> None:
        lapsed = {lease.item for lease in self.table.lapse(self.now_ns)}

        late = {item for item, (_, until_ns) in self.model.items() if self.now_ns >= until_ns}
        assert lapsed == late
        for item in late:
            del self.model[item]

    @invariant()
    def only_the_last_number_may_hold(self) -> None:
        for item, number in self.numbers:
            holds = self.table.holds(item, number, now_ns=self.now_ns)
            assert holds is self.is_held(item, number)

    @invariant()
    def it_holds_what_the_model_holds(self) -> None:
        held = {lease.item: (lease.number, lease.until_ns) for lease in self.table.held()}
        assert held == self.model


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_clock_that_was_set_back_keeps_no_item_from_the_others() -> None:
    table = LeaseTable[str]()
    table.grant("a", "x", now_ns=1_000_000, length_ns=LENGTH_NS)

    assert table.lapse(0) == ()
    assert [lease.item for lease in table.lapse(LENGTH_NS)] == ["a"]


def test_all_that_a_holder_has_ends_at_once_and_nothing_else() -> None:
    table = LeaseTable[str]()
    for item, holder in (("a", "x"), ("b", "y"), ("c", "x")):
        table.grant(item, holder, now_ns=0, length_ns=LENGTH_NS)

    ended = table.release_all("x")

    assert [(lease.item, lease.holder) for lease in ended] == [("a", "x"), ("c", "x")]
    assert [lease.item for lease in table.held()] == ["b"]
    assert not table.renew("a", ended[0].number, now_ns=1, length_ns=LENGTH_NS)


def test_two_tables_that_start_apart_share_no_number() -> None:
    old, new = LeaseTable[str](), LeaseTable[str]()
    new.start_at(1000)

    numbers = [t.grant("a", "x", now_ns=0, length_ns=LENGTH_NS) for t in (old, new)]

    assert [lease.number for lease in numbers if lease is not None] == [1, 1001]


def test_a_lease_that_is_over_holds_again_until_it_is_taken_back() -> None:
    table = LeaseTable[str]()
    for item in "ab":
        table.grant(item, "x", now_ns=0, length_ns=LENGTH_NS)

    revived = table.renew("a", 1, now_ns=5 * LENGTH_NS, length_ns=LENGTH_NS)
    lapsed = table.lapse(5 * LENGTH_NS)

    assert revived
    assert [lease.item for lease in lapsed] == ["b"]
    assert not table.renew("b", 2, now_ns=5 * LENGTH_NS, length_ns=LENGTH_NS)


def test_a_table_is_due_exactly_when_lapsing_changes_something() -> None:
    table: LeaseTable[str] = LeaseTable()
    table.grant("a", "x", now_ns=100, length_ns=10)

    # At 99 the clock was set back: the lease reaches further than its own length.
    due = [table.is_due(now_ns) for now_ns in (99, 100, 109, 110, 200)]

    assert due == [True, False, False, True, True]
    table.lapse(110)
    assert not table.is_due(200)
