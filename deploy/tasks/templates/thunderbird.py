"""Tasks in Thunderbird, a mail program, whose one account never reaches a server."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.mailboxes import FOLDERS, PROFILE, mailbox, profile, profiles
from envs_node.deploy.tasks.osworld import Json, launch, prints, upload
from envs_node.deploy.tasks.rules import file_at, meets
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Click, Finish, Key, Type

_ACCOUNT = "anna@example.org"
_ENTER = Key(keys=("enter",))
_TO_INBOX = (
    ClickOn("tree item", "Local Folders"),
    Key(keys=("right",)),
    ClickOn("tree item", "Inbox"),
)


def _instance(
    instruction: str, subjects: list[str], evaluator: Json, *solution: OracleStep
) -> Instance:
    return Instance(
        instruction=instruction,
        config=(
            upload("profiles.ini", folder=PROFILE.rsplit("/", 1)[0]),
            upload("prefs.js", folder=PROFILE),
            upload("Inbox", folder=FOLDERS),
            launch("thunderbird", "-P", "default"),
        ),
        evaluator=evaluator,
        oracle=(*solution, Finish()),
        files={"profiles.ini": profiles(), "prefs.js": profile(), "Inbox": mailbox(subjects)},
    )


def _subjects(chance: random.Random) -> list[str]:
    errands = zip(
        words.pick(chance, words.VERBS, 3), words.pick(chance, words.THINGS, 3), strict=True
    )
    return [f"{verb} {thing}" for verb, thing in errands]


def _listed(subjects: list[str], chosen: int) -> ClickOn:
    """A mail in the list, which is named by all that it shows."""
    shown = f"Bob <bob@example.org>, 1/1/24, 10:0{chosen}, {subjects[chosen]}, Read"
    return ClickOn("list item", shown)


def _draft(chance: random.Random) -> Instance:
    subjects = _subjects(chance)
    (place,), line = words.pick(chance, words.PLACES, 1), words.errand(chance)
    to = f"{place}@example.org"
    instruction = chance.choice(
        (
            f"Write a new message to {to} with the subject '{line}' and the text 'See you there.', "
            "and keep it as a draft with ctrl+s",
            f"Draft a mail for {to}, but do not send it: subject '{line}', text 'See you there.'; "
            "save it with ctrl+s",
        )
    )
    rules = {"expect": [f"^To: {to}$", f"^Subject: {line}$", "See you there\\."]}
    return _instance(
        instruction,
        subjects,
        meets("check_list", file_at(f"{FOLDERS}/Drafts"), rules),
        ClickOn("push button", "New Message"),
        Type(text=to),
        _ENTER,
        ClickOn("entry", "Subject"),
        Type(text=line),
        Key(keys=("tab",)),
        Type(text="See you there."),
        Key(keys=("ctrl", "s")),
    )


def _star(chance: random.Random) -> Instance:
    subjects, chosen = _subjects(chance), chance.randrange(3)
    instruction = chance.choice(
        (
            f"In the Inbox of Local Folders, choose the mail '{subjects[chosen]}' and star it with "
            "the key s",
            f"Give the message '{subjects[chosen]}' in Local Folders > Inbox a star",
        )
    )
    states = "".join(f"X-Mozilla-Status: 000{5 if n == chosen else 1}\n" for n in range(3))
    evaluator = prints(["grep", "^X-Mozilla-Status: ", f"{FOLDERS}/Inbox"], states)
    steps = (*_TO_INBOX, _listed(subjects, chosen), Key(keys=("s",)))
    return _instance(instruction, subjects, evaluator, *steps)


def _delete(chance: random.Random) -> Instance:
    subjects, chosen = _subjects(chance), chance.randrange(3)
    instruction = chance.choice(
        (
            f"In the Inbox of Local Folders, choose the mail '{subjects[chosen]}' and press delete",
            f"Throw the message '{subjects[chosen]}' of Local Folders > Inbox away, and no other",
        )
    )
    others = [f"^Subject: {each}$" for n, each in enumerate(subjects) if n != chosen]
    rules = {"expect": [f"^Subject: {subjects[chosen]}$"], "unexpect": others}
    steps = (*_TO_INBOX, _listed(subjects, chosen), Key(keys=("delete",)))
    evaluator = meets("check_list", file_at(f"{FOLDERS}/Trash"), rules)
    return _instance(instruction, subjects, evaluator, *steps)


def _folder(chance: random.Random) -> Instance:
    (name,) = words.pick(chance, words.STEMS, 1)
    instruction = chance.choice(
        (
            f"Make a new folder '{name}' in Local Folders: right click, New Folder...",
            f"Add a mail folder named '{name}' below Local Folders",
        )
    )
    path = f"{FOLDERS}/{name}"
    return _instance(
        instruction,
        _subjects(chance),
        prints(["ls", path], f"{path}\n"),
        ClickOn("tree item", "Local Folders", button=3),
        Key(keys=("n",)),
        Type(text=name),
        _ENTER,
    )


def _organization(chance: random.Random) -> Instance:
    (place,) = words.pick(chance, words.PLACES, 1)
    name = f"The {place.capitalize()}"
    instruction = chance.choice(
        (
            f"In the account settings of {_ACCOUNT}, set 'Organization:' to '{name}' and press tab",
            f"Let mails from {_ACCOUNT} name '{name}' as the organization (Account Settings)",
        )
    )
    rules = {"expect": {"mail.identity.id1.organization": {"method": "eq", "ref": name}}}
    return _instance(
        instruction,
        _subjects(chance),
        meets("check_thunderbird_prefs", file_at(f"{PROFILE}/prefs.js"), rules),
        ClickOn("tree item", _ACCOUNT),
        ClickOn("push button", "Account Settings"),
        ClickOn("entry", "Organization:"),
        Type(text=name),
        Key(keys=("tab",)),
    )


def _filter(chance: random.Random) -> Instance:
    word, name = words.pick(chance, words.THINGS, 2)
    instruction = chance.choice(
        (
            f"Make a message filter named '{name}' for Local Folders, which marks mails as read "
            f"whose subject contains '{word}', and close the filters",
            f"Mails in Local Folders with '{word}' in their subject shall be marked as read by a "
            f"filter called '{name}'. Close the window of the filters at the end",
        )
    )
    wanted = {
        "name": name,
        "enabled": "yes",
        "action": "Mark read",
        "condition": [f"AND (subject,contains,{word})"],
    }
    return _instance(
        instruction,
        _subjects(chance),
        meets(
            "check_thunderbird_filter",
            file_at(f"{FOLDERS}/msgFilterRules.dat"),
            {"expect": [wanted]},
        ),
        ClickOn("tree item", "Local Folders"),
        ClickOn("push button", "Manage message filters"),
        ClickOn("push button", "New…"),
        ClickOn("entry", "Filter name:"),
        Type(text=name),
        Click(x=849, y=318),  # the field has no name
        Type(text=word),
        ClickOn("combo box", "Perform these actions:"),
        Key(keys=("down",), count=3),
        _ENTER,
        ClickOn("push button", "OK"),
        Key(keys=("escape",)),
    )


TEMPLATES = (
    Template(
        name="thunderbird-star",
        app="thunderbird",
        category="thunderbird",
        split="train",
        make=_star,
    ),
    Template(
        name="thunderbird-delete",
        app="thunderbird",
        category="thunderbird",
        split="train",
        make=_delete,
    ),
    Template(
        name="thunderbird-draft",
        app="thunderbird",
        category="thunderbird",
        split="train",
        make=_draft,
    ),
    Template(
        name="thunderbird-folder",
        app="thunderbird",
        category="thunderbird",
        split="train",
        make=_folder,
    ),
    Template(
        name="thunderbird-organization",
        app="thunderbird",
        category="thunderbird",
        split="validation",
        make=_organization,
    ),
    Template(
        name="thunderbird-filter",
        app="thunderbird",
        category="thunderbird",
        split="held-out",
        make=_filter,
    ),
)
