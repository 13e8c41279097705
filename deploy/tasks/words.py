"""The words the bundled tasks are made of. No other part may draw from them."""

from __future__ import annotations

import random

# Short on purpose: Writer offers to complete words of eight letters and more.
VERBS = ("Buy", "Call", "Check", "Clean", "Count", "Fetch", "Order", "Paint", "Return", "Sell")
THINGS = (
    "bread", "candles", "chairs", "copper", "flour", "gloves", "honey", "lamps", "lemons", "maps",
    "milk", "nails", "olives", "paper", "pears", "plums", "rope", "salt", "spoons", "stamps",
    "string", "tea", "tiles", "towels", "wool",
)  # fmt: skip
DAYS = ("on Monday", "on Tuesday", "on Friday", "on Sunday", "before noon", "after lunch", "today")
PLACES = (
    "attic", "barn", "cellar", "dock", "garage", "harbour", "kiosk", "library", "market", "museum",
    "office", "school", "shed", "station", "stable", "theatre",
)  # fmt: skip
STEMS = (
    "agenda", "budget", "catalog", "diary", "fares", "guests", "ideas", "journal", "ledger", "menu",
    "orders", "plan", "recipes", "roster", "songs", "trips",
)  # fmt: skip


def pick(chance: random.Random, words: tuple[str, ...], count: int) -> list[str]:
    """Draw `count` different words."""
    return chance.sample(words, count)


def errand(chance: random.Random) -> str:
    """A short line such as `Buy lemons on Friday`."""
    return f"{chance.choice(VERBS)} {chance.choice(THINGS)} {chance.choice(DAYS)}"
