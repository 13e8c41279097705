"""Input for an X server by XTEST, with the standard library: for programs inside a desktop.

Keys of the layout are pressed by their own key. A character that no key has is mapped to a spare
key for as long as it takes, and the key is given back afterwards: the host types with those keys.
"""

from __future__ import annotations

import atexit
import struct
import time
from collections.abc import Iterable, Iterator

from envs_node.actors.desktop.guest.xclient import XClient

_CHANGE_MAPPING, _GET_MAPPING, _GET_MODIFIERS = 100, 101, 119
_QUERY_POINTER, _GET_FOCUS = 38, 43
_FAKE_INPUT = 2
_KEY, _BUTTON, _MOTION = 2, 4, 6
"""Codes of a press; that of the release is the next."""
_FIRST_KEY, _KEYS = 8, 248
_SHIFT_L = 0xFFE1
_UNICODE = 0x01000000
# The protocol has no answer that says a client has taken in a new mapping, or a key before the
# mapping goes. 30 ms for the one and 150 ms for the other were enough in every toolkit; each key
# that is mapped has every client ask for the layout once more.
_MAPPED_S, _MAPPED_KEY_S, _DRAINED_S = 0.03, 0.005, 0.15


def keysym_of_character(character: str) -> int:
    """The X11 keysym of a character."""
    return ord(character) if ord(character) < 0x100 else _UNICODE | ord(character)


class XInput(XClient):
    """A connection that makes input, and takes no pictures. Call from one thread at a time."""

    def press_key(self, keysym: int) -> None:
        """Press the key of a keysym, Shift before it where it needs that, and keep it down."""
        code, level = self._find(keysym)
        if level:
            self._fake(_KEY, self._find(_SHIFT_L)[0])
        self._fake(_KEY, code)

    def release_key(self, keysym: int) -> None:
        """Let go of the key of a keysym, and of the Shift that it needed."""
        code, level = self._find(keysym)
        self._fake(_KEY + 1, code)
        if level:
            self._fake(_KEY + 1, self._find(_SHIFT_L)[0])

    def press_button(self, button: int) -> None:
        """Press a button of the pointer, and keep it down."""
        self._fake(_BUTTON, button)

    def release_button(self, button: int) -> None:
        """Let go of a button."""
        self._fake(_BUTTON + 1, button)

    def move(self, x: int, y: int) -> None:
        """Put the pointer somewhere; beyond the edge is at the edge."""
        x, y = min(max(x, 0), self.width - 1), min(max(y, 0), self.height - 1)
        self._fake(_MOTION, 0, x, y)

    def position(self) -> tuple[int, int]:
        """Where the pointer is."""
        answer = self._ask(struct.pack("<BxHI", _QUERY_POINTER, 2, self._root))
        x, y = struct.unpack_from("<hh", answer, 16)
        return x, y

    def sync(self) -> None:
        """Wait until the server has handed all input on."""
        self._ask(struct.pack("<BxH", _GET_FOCUS, 1))

    def chunks(self, keysyms: Iterable[int]) -> Iterator[list[int]]:
        """Split a text so that each part can be typed with the spare keys there are."""
        chunk: list[int] = []
        foreign: set[int] = set()
        for keysym in keysyms:
            if keysym not in self._keys and keysym not in foreign:
                if len(foreign) == 2 * len(self._spare):
                    yield chunk
                    chunk, foreign = [], set()
                foreign.add(keysym)
            chunk.append(keysym)
        yield chunk

    def place(self, keysyms: Iterable[int]) -> None:
        """Give a key to each that has none."""
        wanted = {keysym for keysym in keysyms if keysym not in self._keys} - {*self._places}
        slots = [(code, level) for code in self._spare for level in (0, 1)]
        free = [slot for slot in slots if slot not in self._places.values()]
        if len(wanted) > len(free):
            self._drain()
            self._places.clear()
            free = slots
        if len(wanted) > len(free):
            raise OSError(f"{len(wanted)} characters at once, and no key for {len(free)} of them")
        placed = dict(zip(sorted(wanted), free, strict=False))
        self._places.update(placed)
        self._remap({code for code, _ in placed.values()})

    def give_back(self) -> None:
        """Unmap what was mapped, once it has been typed."""
        if self._mapped:
            self._drain()
            self._places.clear()
            self._remap({*self._mapped})
            self._mapped.clear()

    def _share(self) -> None:
        """Takes no pictures, so shares no memory."""

    def _watch(self) -> None:
        """Learn the layout."""
        self._xtest, _ = self._extension(b"XTEST")
        answer = self._ask(struct.pack("<BxHBBxx", _GET_MAPPING, 2, _FIRST_KEY, _KEYS))
        width = answer[1]
        keysyms = struct.unpack_from(f"<{_KEYS * width}I", answer, 32)
        self._rows = {
            _FIRST_KEY + key: keysyms[key * width : key * width + width] for key in range(_KEYS)
        }
        modifiers = self._ask(struct.pack("<BxH", _GET_MODIFIERS, 1))[32:]
        free = [code for code, row in self._rows.items() if not any(row) and code not in modifiers]
        own = [code for code, row in self._rows.items() if any(row) and min(row[:2]) >= _UNICODE]
        self._spare = free or own  # of the host, which has mapped all
        self._mapped: set[int] = set()
        self._places: dict[int, tuple[int, int]] = {}
        """Keysym to the spare key that has it now, and whether it takes Shift."""
        self._keys: dict[int, tuple[int, int]] = {}
        for code, row in self._rows.items():
            for level in (0, 1):
                if level < width and row[level]:
                    self._keys.setdefault(row[level], (code, level))
        atexit.register(self._end)

    def _end(self) -> None:
        try:
            self.give_back()
        except OSError:  # the server is gone, and its layout with it
            return
        finally:
            self.close()

    def _find(self, keysym: int) -> tuple[int, int]:
        """The key of a keysym, and whether it takes Shift; mapped now if there is none."""
        if keysym not in self._keys:
            self.place([keysym])
            return self._places[keysym]
        return self._keys[keysym]

    def _drain(self) -> None:
        """Wait until all that was typed has been taken in."""
        self.sync()
        time.sleep(_DRAINED_S)

    def _remap(self, codes: set[int]) -> None:
        """Have keys mean what is placed on them, and what they meant at first if nothing is."""
        for code in codes:
            pair = [0, 0]
            for keysym, (where, level) in self._places.items():
                if where == code:
                    pair[level] = keysym
            self._map(code, tuple(pair) if any(pair) else self._rows[code])
        self._mapped |= codes
        if codes:
            self.sync()
            time.sleep(_MAPPED_S + _MAPPED_KEY_S * len(codes))

    def _map(self, code: int, keysyms: tuple[int, ...]) -> None:
        head = struct.pack("<BBHBBxx", _CHANGE_MAPPING, 1, 2 + len(keysyms), code, len(keysyms))
        self._send(head + struct.pack(f"<{len(keysyms)}I", *keysyms))

    def _fake(self, kind: int, detail: int, x: int = 0, y: int = 0) -> None:
        self._send(
            struct.pack("<BBHBBxxII8xhh8x", self._xtest, _FAKE_INPUT, 9, kind, detail, 0,
                        self._root, x, y)
        )  # fmt: skip
