"""The element list, made from what applications say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.desktop.accessibility import Node
from envs_node.actors.desktop.elements import ELEMENTS_MAX, list_elements

WIDTH, HEIGHT = 1280, 720
LIVE = frozenset({"showing", "visible", "enabled", "sensitive"})
ROLES = ["push button", "text", "label", "menu item", "frame", "dialog", "filler", "table cell"]


def node(role: str, name: str = "", path: str = "", parent: str = "", **rest: object) -> Node:
    fields = {
        "bus": ":1", "path": path or f"{role}-{name}", "parent": parent, "role": role,
        "name": name, "description": "", "states": LIVE, "interfaces": frozenset({"Component"}),
        "extent": (10, 10, 50, 20), "text": "",
    } | rest  # fmt: skip
    return Node(**fields)  # type: ignore[arg-type]  # fields vary by test


def names(nodes: list[Node]) -> list[str]:
    return [element.name for element in list_elements(nodes, WIDTH, HEIGHT).elements]


def test_containers_and_insensitive_things_are_left_out() -> None:
    dead = LIVE - {"enabled", "sensitive"}

    listed = names([node("filler", "box"), node("push button", "Off", states=dead),
                    node("push button", "On")])  # fmt: skip

    assert listed == ["On"]


def test_only_the_active_dialog_is_listed() -> None:
    nodes = [
        node("frame", "Editor", path="f"),
        node("push button", "Behind", parent="f"),
        node("dialog", "Save?", path="d", states=LIVE | {"active"}, extent=(100, 100, 300, 200)),
        node("filler", path="box", parent="d"),
        node("push button", "Yes", parent="box", extent=(120, 200, 50, 20)),
    ]

    assert names(nodes) == ["Save?", "Yes"]


def test_what_a_dialog_places_outside_itself_is_left_out() -> None:
    nodes = [
        node("dialog", "Import", path="d", states=LIVE | {"modal"}, extent=(600, 200, 300, 200)),
        node("table cell", "preview", parent="d", extent=(0, 0, 64, 16)),
        node("push button", "OK", parent="d", extent=(800, 350, 50, 20)),
    ]

    assert names(nodes) == ["Import", "OK"]


def test_what_an_open_menu_covers_is_left_out() -> None:
    nodes = [
        node("menu", "File", path="m", extent=(0, 0, 40, 20)),
        node("menu item", "Open", parent="m", extent=(0, 20, 200, 20)),
        node("menu item", "Quit", parent="m", extent=(0, 60, 200, 20)),
        node("push button", "Under", extent=(10, 45, 30, 10)),
        node("push button", "Beside", extent=(400, 45, 30, 10)),
    ]

    assert names(nodes) == ["File", "Open", "Beside", "Quit"]


def test_a_field_without_a_name_takes_that_of_the_label_beside_it() -> None:
    nodes = [
        node("label", "Find:", extent=(10, 100, 60, 20)),
        node("label", "Replace with:", extent=(10, 140, 60, 20)),
        node("entry", path="e", extent=(80, 98, 200, 24)),
    ]

    fields = [e.name for e in list_elements(nodes, WIDTH, HEIGHT).elements if e.role == "entry"]

    assert fields == ["Find:"]


def test_content_that_libreoffice_places_too_high_is_mended_and_its_menus_are_not() -> None:
    nodes = [
        node("frame", "a.odt - LibreOffice Writer", path="f", extent=(0, 0, 1280, 720)),
        node("menu", "File", parent="f", extent=(0, 17, 40, 25)),
        node("push button", "Save", parent="f", extent=(90, 19, 44, 35)),
        node("status bar", parent="f", extent=(0, 673, 1280, 22)),
    ]

    tops = {e.name: e.y for e in list_elements(nodes, WIDTH, HEIGHT).elements}

    assert tops == {"a.odt - LibreOffice Writer": 0, "File": 17, "Save": 44}


def test_names_are_stripped_and_values_cut() -> None:
    nodes = [node("text", "  Notes \n here ", text="x" * 500, states=LIVE | {"editable"})]

    (element,) = list_elements(nodes, WIDTH, HEIGHT).elements

    assert element.name == "Notes here"
    assert len(element.value) == 200
    assert element.states == ("editable",)


@given(
    st.lists(
        st.tuples(st.sampled_from(ROLES), st.text(max_size=5), st.integers(-50, 1400),
                  st.integers(-50, 800), st.integers(-1, 500), st.integers(-1, 500)),
        max_size=250,
    )
)  # fmt: skip
def test_every_element_lies_on_the_screen_and_order_does_not_matter(
    things: list[tuple[str, str, int, int, int, int]],
) -> None:
    nodes = [
        node(role, name, path=str(number), extent=(x, y, wide, high))
        for number, (role, name, x, y, wide, high) in enumerate(things)
    ]

    listed = list_elements(nodes, WIDTH, HEIGHT).elements

    assert len(listed) <= ELEMENTS_MAX
    assert listed == list_elements(nodes[::-1], WIDTH, HEIGHT).elements
    for element in listed:
        assert 0 <= element.x < element.x + element.width <= WIDTH
        assert 0 <= element.y < element.y + element.height <= HEIGHT
