"""Tasks of the domain `thunderbird`: settings and folders of a profile."""

from __future__ import annotations

import io
import tarfile
from functools import partial

from envs_node.policy.task_files import Part
from tests.osworld.playing import Case, Hands

_HOME = "/home/user/.thunderbird/t5q2a5hp.default-release"
_WINDOW = "Mozilla Thunderbird"
_MAIL = "anonym-x2024@outlook.com"
_PREFS = {
    "app.normandy.first_run": "false",
    "mail.account.account1.identities": '"id1"',
    "mail.account.account1.server": '"server1"',
    "mail.account.account2.server": '"server2"',
    "mail.account.lastKey": "2",
    "mail.accountmanager.accounts": '"account1,account2"',
    "mail.accountmanager.defaultaccount": '"account1"',
    "mail.accountmanager.localfoldersserver": '"server2"',
    "mail.identity.id1.fullName": '"Anonym Tester"',
    "mail.identity.id1.useremail": f'"{_MAIL}"',
    "mail.identity.id1.valid": "true",
    "mail.server.server1.check_new_mail": "false",
    "mail.server.server1.directory-rel": '"[ProfD]ImapMail/outlook.office365.com"',
    "mail.server.server1.hostname": '"outlook.office365.com"',
    "mail.server.server1.login_at_startup": "false",
    "mail.server.server1.name": f'"{_MAIL}"',
    "mail.server.server1.type": '"imap"',
    "mail.server.server1.userName": f'"{_MAIL}"',
    "mail.server.server2.directory-rel": '"[ProfD]Mail/Local Folders"',
    "mail.server.server2.hostname": '"Local Folders"',
    "mail.server.server2.name": '"Local Folders"',
    "mail.server.server2.type": '"none"',
    "mail.server.server2.userName": '"nobody"',
    "offline.startup_state": "3",
}
_PROFILES = """[General]
StartWithLastProfile=1
Version=2

[Profile0]
Name=default-release
IsRelative=1
Path=t5q2a5hp.default-release
Default=1
"""
_MODE = f"""
import json, pathlib
path = pathlib.Path("{_HOME}/xulstore.json")
value = json.loads(path.read_text()) if path.exists() else dict()
window = value.setdefault("chrome://messenger/content/messenger.xhtml", dict())
window.setdefault("folderTree", dict())["mode"] = "smart"
path.write_text(json.dumps(value))
"""


def _profile(_name: str, _part: Part) -> bytes:
    prefs = "".join(f'user_pref("{name}", {value});\n' for name, value in _PREFS.items())
    folder = _HOME.removeprefix("/home/user/")
    files = {
        ".thunderbird/profiles.ini": _PROFILES,
        f"{folder}/prefs.js": prefs,
        f"{folder}/Mail/Local Folders/Trash": "",
        f"{folder}/ImapMail/outlook.office365.com/INBOX.msf": "",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, said in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(said)
            member.uid = member.gid = 1000
            archive.addfile(member, io.BytesIO(said.encode()))
    return out.getvalue()


def _set(settings: tuple[str, ...], hands: Hands) -> None:
    """End the program, change its settings, and start it again: the check closes its window."""
    hands.quit("thunderbird", _WINDOW)
    lines = "".join(f"user_pref({setting});\n" for setting in settings)
    hands.put("/tmp/more.js", lines.encode())
    hands.run(f"cat /tmp/more.js >> {_HOME}/prefs.js")
    hands.launch("/usr/bin/thunderbird", _WINDOW)


def _unify(hands: Hands) -> None:
    hands.quit("thunderbird", _WINDOW)
    hands.edit(_MODE)
    hands.launch("/usr/bin/thunderbird", _WINDOW)


def _make_folders(hands: Hands) -> None:
    hands.run(
        f"cd '{_HOME}/Mail/Local Folders' && touch COMPANY COMPANY.msf UNIVERSITY UNIVERSITY.msf"
    )


def _save_mail(hands: Hands) -> None:
    for subject in ("歡迎使用新的 Outlook.com 帳戶", "A Test E-mail"):
        hands.put(f"/home/user/emails.bak/{subject}.eml", b"Subject: mail\r\n\r\nText.\r\n")


def _setting(task_id: str, *settings: str) -> Case:
    return Case(
        domain="thunderbird", id=task_id, how="files", solve=partial(_set, settings), make=_profile
    )


CASES = (
    _setting(
        "08c73485-7c6d-4681-999d-919f5c32dcfa",
        '"mail.server.default.applyIncomingFilters", true',
        '"mail.imap.use_status_for_biff", false',
    ),
    _setting(
        "10a730d5-d414-4b40-b479-684bed1ae522",
        '"extensions.activeThemeID", "thunderbird-compact-dark@mozilla.org"',
    ),
    _setting(
        "3f28fe4f-5d9d-4994-a456-efd78cfae1a3",
        '"mail.identity.id1.htmlSigText", "Anonym\\nXYZ Lab"',
    ),
    _setting("f201fbc3-44e6-46fc-bcaa-432f9815454c", '"mail.identity.id1.auto_quote", false'),
    Case(
        domain="thunderbird",
        id="3f49d2cc-f400-4e7d-90cc-9b18e401cc31",
        how="files",
        solve=_unify,
        make=_profile,
    ),
    Case(
        domain="thunderbird",
        id="a10b69e1-6034-4a2b-93e1-571d45194f75",
        how="files",
        solve=_make_folders,
        make=_profile,
    ),
    Case(
        domain="thunderbird",
        id="9bc3cc16-074a-45ac-9bdc-b2a362e1daf3",
        how="files",
        solve=_save_mail,
        make=_profile,
    ),
)
"""Each with its solution."""
