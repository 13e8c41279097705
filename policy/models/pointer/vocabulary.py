"""What the pointer policy can say and see: operations, chords, kinds of elements, states."""

from __future__ import annotations

OPERATIONS = ("click", "double_click", "right_click", "type", "key", "finish", "other")
"""`other` stands in a history for what this policy cannot do itself; it is never proposed."""
CLICKS = 3
"""The first operations are clicks: they take an element."""
TYPE, KEY, FINISH, OTHER = 3, 4, 5, 6

CHORDS = (
    "ctrl+s", "ctrl+a", "ctrl+c", "ctrl+v", "ctrl+x", "ctrl+z", "ctrl+f", "ctrl+n", "ctrl+o",
    "ctrl+w", "ctrl+q", "ctrl+b", "ctrl+i", "ctrl+u", "ctrl+home", "ctrl+end", "ctrl+shift+n",
    "ctrl+shift+s", "enter", "tab", "escape", "delete", "backspace", "home", "end", "up", "down",
    "left", "right", "f2", "f5", "alt+f4",
)  # fmt: skip

STATES = ("focused", "checked", "selected", "pressed", "editable", "expanded")

KINDS = (
    "other", "frame", "dialog", "menu", "menu item", "push button", "check box", "text",
    "combo box", "table cell", "icon", "label", "page tab", "document", "paragraph", "terminal",
    "slider", "header",
)  # fmt: skip
_KIND_OF_ROLE = {
    "window": "frame", "alert": "dialog", "file chooser": "dialog",
    "check menu item": "menu item", "radio menu item": "menu item",
    "tearoff menu item": "menu item",
    "toggle button": "push button", "link": "push button", "push button menu": "push button",
    "radio button": "check box", "switch": "check box",
    "entry": "text", "password text": "text", "spin button": "text", "editbar": "text",
    "list item": "table cell", "tree item": "table cell", "table row": "table cell",
    "static": "label", "heading": "paragraph", "image": "icon",
    "document text": "document", "document frame": "document", "document spreadsheet": "document",
    "document presentation": "document", "document web": "document",
    "table column header": "header", "column header": "header", "row header": "header",
}  # fmt: skip
_NOT_CLICKED = ("frame", "dialog")


def kind_of(role: str) -> int:
    """Index in `KINDS` of an AT-SPI role."""
    name = _KIND_OF_ROLE.get(role, role)
    return KINDS.index(name) if name in KINDS else 0


def is_clickable(kind: int) -> bool:
    """Whether the policy may point at elements of this kind."""
    return KINDS[kind] not in _NOT_CLICKED
