"""Tasks in Chrome (Debian's Chromium), on pages that lie on the desktop."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, upload
from envs_node.deploy.tasks.rules import after, equals, getter
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Click, Finish, Key, Type

_START = "start.html"
_ADDRESS = Key(keys=("ctrl", "l"))


def _page(title: str, body: str) -> bytes:
    text = f"<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}\n"
    return text.encode()


def _instance(
    instruction: str,
    evaluator: Json,
    *solution: OracleStep,
    pages: dict[str, bytes] | None = None,
    gold: dict[str, bytes] | None = None,
) -> Instance:
    files = {_START: _page("Start", "<p>Nothing to see here.</p>"), **(pages or {})}
    return Instance(
        instruction=instruction,
        config=(upload(*files), launch("google-chrome", f"{HOME}/{_START}")),
        evaluator=evaluator,
        oracle=(*solution, Finish()),
        files=files,
        gold=gold or {},
    )


def _setting(instruction: str, evaluator: Json, page: str, *solution: OracleStep) -> Instance:
    """A change on a page of the settings, which are written down when the browser ends."""
    steps = (_ADDRESS, Type(text=f"chrome://settings/{page}\n"), *solution)
    return _instance(instruction, after("chrome", evaluator), *steps)


def _download(chance: random.Random) -> Instance:
    names = words.pick(chance, words.STEMS, 3)
    name = chance.choice(names)
    tables = {f"{each}.csv": f"{each},{chance.randint(1, 99)}\n".encode() for each in names}
    links = "".join(f"<p><a href={each}.csv download>{each} as a table</a></p>" for each in names)
    pages = {
        _START: _page("House", "<p><a href=tables.html>All tables</a></p>"),
        "tables.html": _page("Tables", links),
        **tables,
    }
    instruction = chance.choice(
        (
            f"Open 'All tables' and download '{name} as a table'",
            f"Download the table '{name}', which a page behind this one offers",
        )
    )
    path = f"{HOME}/Downloads/{name}.csv"
    return _instance(
        instruction,
        compare("compare_text_file", path, f"{name}.csv"),
        ClickOn("link", "All tables"),
        ClickOn("link", f"{name} as a table"),
        pages=pages,
        gold={f"{name}.csv": tables[f"{name}.csv"]},
    )


_FORM = """<p><label>Goods <input id=goods></label><p><label>Number <input id=number></label>
<p><button onclick="order()">Order now</button><script>
function order() {
  const a = document.createElement('a'), at = (id) => document.getElementById(id).value;
  a.href = URL.createObjectURL(new Blob([at('goods') + ': ' + at('number') + '\\n']));
  a.download = 'order.txt';
  a.click();
}
</script>"""


def _order(chance: random.Random) -> Instance:
    (goods,), number = words.pick(chance, words.THINGS, 1), chance.randint(2, 99)
    instruction = chance.choice(
        (
            f"Fill in the form: Goods '{goods}', Number '{number}', and click Order now",
            f"Order {number} pieces of '{goods}' with this form",
        )
    )
    return _instance(
        instruction,
        compare("compare_text_file", f"{HOME}/Downloads/order.txt", "order.txt"),
        ClickOn("entry", "Goods"),
        Type(text=goods),
        ClickOn("entry", "Number"),
        Type(text=str(number)),
        ClickOn("push button", "Order now"),
        pages={_START: _page("Order", _FORM)},
        gold={"order.txt": f"{goods}: {number}\n".encode()},
    )


def _profile_name(chance: random.Random) -> Instance:
    (place,) = words.pick(chance, words.PLACES, 1)
    name = place.capitalize()
    instruction = chance.choice(
        (
            f"Name this Chrome profile '{name}' on chrome://settings/manageProfile, and press tab",
            f"Open chrome://settings/manageProfile and change the profile's name to '{name}'",
        )
    )
    return _setting(
        instruction,
        equals(getter("profile_name"), name),
        "manageProfile",
        Click(x=556, y=275),  # any form has a Name
        Key(keys=("ctrl", "a")),
        Type(text=name),
        Key(keys=("tab",)),
    )


def _do_not_track(chance: random.Random) -> Instance:
    switch = 'Send a "Do Not Track" request with your browsing traffic'
    instruction = chance.choice(
        (
            "Turn 'Do Not Track' on at chrome://settings/cookies, and confirm it",
            "Let Chrome ask sites not to track: chrome://settings/cookies, confirm with enter",
        )
    )
    return _setting(
        instruction,
        equals(getter("enable_do_not_track"), "true"),
        "cookies",
        ClickOn("toggle button", switch),
        Key(keys=("enter",)),
    )


def _safe_browsing(chance: random.Random) -> Instance:
    instruction = chance.choice(
        (
            "Choose 'Enhanced protection' on chrome://settings/security",
            "Make safe browsing as strict as it gets: chrome://settings/security",
        )
    )
    return _setting(
        instruction,
        equals(getter("enable_enhanced_safety_browsing"), "true"),
        "security",
        ClickOn("radio button", "Enhanced protection"),
    )


TEMPLATES = (
    Template(
        name="chrome-download", app="chrome", category="chrome", split="train", make=_download
    ),
    Template(name="chrome-order", app="chrome", category="chrome", split="train", make=_order),
    Template(
        name="chrome-profile-name",
        app="chrome",
        category="chrome",
        split="train",
        make=_profile_name,
    ),
    Template(
        name="chrome-safe-browsing",
        app="chrome",
        category="chrome",
        split="validation",
        make=_safe_browsing,
    ),
    Template(
        name="chrome-do-not-track",
        app="chrome",
        category="chrome",
        split="held-out",
        make=_do_not_track,
    ),
)
