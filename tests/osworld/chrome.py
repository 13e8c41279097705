"""Tasks of the domain `chrome`: its settings, and its bookmarks."""

from __future__ import annotations

from functools import partial

from tests.osworld.playing import Case, Hands

_PREFERENCES = "/home/user/.config/google-chrome/Default/Preferences"
_CHANGE = """
import json, pathlib
path = pathlib.Path({path!r})
settings = json.loads(path.read_text())
at = settings
*way, last = {way!r}
for name in way:
    at = at.setdefault(name, {{}})
at[last] = json.loads({value!r})
path.write_text(json.dumps(settings))
"""
_BOOKMARKS = """
import json, pathlib
folder = dict(children=[], id="5", guid="0bf5ae02-6e42-4a0b-8b0e-53a27b1e9f0a", name="Favorites",
              type="folder", date_added="13350000000000000", date_modified="0")
def root(number, name, guid, *children):
    return dict(children=list(children), id=str(number), guid=guid, name=name, type="folder",
                date_added="13350000000000000", date_modified="0")
roots = dict(
    bookmark_bar=root(1, "Bookmarks bar", "0bc5d13f-2cba-5d74-951f-3f233fe6c908", folder),
    other=root(2, "Other bookmarks", "82b081ec-3dd3-529c-8475-ab6c344590dd"),
    synced=root(3, "Mobile bookmarks", "4cf2e351-0e85-532b-bb37-df045d8f8d0f"),
)
path = pathlib.Path("/home/user/.config/google-chrome/Default/Bookmarks")
path.write_text(json.dumps(dict(roots=roots, version=1)))
"""


def _change(way: str, value: str, hands: Hands) -> None:
    """End the browser, change one of its settings where it keeps them, and start it again."""
    _edit(_CHANGE.format(path=_PREFERENCES, way=way.split("/"), value=value), hands)


def _edit(script: str, hands: Hands) -> None:
    hands.quit("chrome", "Chromium")
    hands.edit(script)
    hands.launch("google-chrome --remote-debugging-port=1337", "Chromium")


def _open(address: str, hands: Hands) -> None:
    hands.press("ctrl+l")
    hands.type(f"{address}\n")


def _setting(task_id: str, way: str, value: str) -> Case:
    solve = partial(_change, way, value)
    return Case(domain="chrome", id=task_id, how="files", solve=solve)


CASES = (
    Case(
        domain="chrome",
        id="12086550-11c0-466b-b367-1d9e75b3910e",
        how="driven",
        solve=partial(_open, "chrome://password-manager/passwords"),
    ),
    _setting("030eeff7-b492-4218-b312-701ec99ee0cc", "enable_do_not_track", "true"),
    _setting("2ae9ba84-3a0d-4d4c-8338-3a1478dc5fe3", "profile/name", '"Thomas"'),
    _setting("9656a811-9b5b-4ddf-99c7-5117bcef0626", "safebrowsing/enhanced", "true"),
    _setting(
        "af630914-714e-4a24-a7bb-f9af687d3b91", "webkit/webprefs/default_font_size", "24"
    ),
    _setting(
        "bb5e4c0d-f964-439c-97b6-bdb9747de3f4",
        "default_search_provider_data/template_url_data",
        '{"short_name": "Microsoft Bing", "keyword": "bing.com", "prepopulate_id": 3, "id": "3",'
        ' "url": "https://www.bing.com/search?q={searchTerms}"}',
    ),
    Case(
        domain="chrome",
        id="2ad9387a-65d8-4e33-ad5b-7580065a27ca",
        how="files",
        solve=partial(_edit, _BOOKMARKS),
    ),
)  # fmt: skip
"""Each with its solution."""
