"""Mail folders and a Thunderbird profile, the same bytes every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from envs_node.deploy.tasks.osworld import HOME

PROFILE = f"{HOME}/.thunderbird/bundle.default"
FOLDERS = f"{PROFILE}/Mail/Local Folders"
_PREFERENCES: Mapping[str, str | bool] = {
    "mail.accountmanager.accounts": "account1,account2",
    "mail.accountmanager.defaultaccount": "account2",
    "mail.accountmanager.localfoldersserver": "server1",
    "mail.account.account1.server": "server1",
    "mail.server.server1.type": "none",
    "mail.server.server1.hostname": "Local Folders",
    "mail.server.server1.name": "Local Folders",
    "mail.server.server1.userName": "nobody",
    "mail.server.server1.directory-rel": "[ProfD]Mail/Local Folders",
    "mail.account.account2.server": "server2",
    "mail.account.account2.identities": "id1",
    "mail.server.server2.type": "pop3",
    "mail.server.server2.hostname": "mail.example.org",
    "mail.server.server2.name": "anna@example.org",
    "mail.server.server2.userName": "anna",
    "mail.server.server2.directory-rel": "[ProfD]Mail/mail.example.org",
    "mail.server.server2.check_new_mail": False,
    "mail.server.server2.login_at_startup": False,
    "mail.identity.id1.fullName": "Anna",
    "mail.identity.id1.useremail": "anna@example.org",
    "mail.identity.id1.valid": True,
    "mail.identity.id1.smtpServer": "smtp1",
    "mail.identity.id1.draft_folder": "mailbox://nobody@Local%20Folders/Drafts",
    "mail.smtpservers": "smtp1",
    "mail.smtp.defaultserver": "smtp1",
    "mail.smtpserver.smtp1.hostname": "mail.example.org",
    "mail.smtpserver.smtp1.username": "anna",
}
"""One account that fetches nothing by itself, and the folders of this computer."""


def profiles() -> bytes:
    """The list of profiles: one, which is taken without a question."""
    name = PROFILE.rsplit("/", 1)[-1]
    return (
        f"[Profile0]\nName=default\nIsRelative=1\nPath={name}\nDefault=1\n\n"
        "[General]\nStartWithLastProfile=1\nVersion=2\n"
    ).encode()


def profile() -> bytes:
    """The preferences of the profile."""
    lines = (
        f'user_pref("{name}", {msgspec.json.encode(value).decode()});\n'
        for name, value in _PREFERENCES.items()
    )
    return "".join(lines).encode()


def mailbox(subjects: Sequence[str]) -> bytes:
    """A folder of at most ten mails from Bob, which have all been read, a minute after another."""
    return b"".join(_mail(number, subject) for number, subject in enumerate(subjects))


def _mail(number: int, subject: str) -> bytes:
    return (
        f"From - Mon Jan  1 10:0{number}:00 2024\n"
        "X-Mozilla-Status: 0001\n"
        "X-Mozilla-Status2: 00000000\n"
        f"X-Mozilla-Keys: {' ' * 80}\n"
        f"Message-ID: <{number}@example.org>\n"
        f"Date: Mon, 1 Jan 2024 10:0{number}:00 +0000\n"
        "From: Bob <bob@example.org>\n"
        "To: Anna <anna@example.org>\n"
        f"Subject: {subject}\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 7bit\n\n"
        f"Please {subject[0].lower()}{subject[1:]}.\n\n"
    ).encode()
