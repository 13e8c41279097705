"""What `fidelity.py` does to each application: a task to start with, and a script of actions.

A step that names an element is aimed where the first desktop shows it. A script is begun anew
until enough of its actions have changed something.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import msgspec
from PIL import Image, ImageDraw

from envs_node.messages.actions import Action, Click, Drag, Key, Point, Scroll, Type
from envs_node.messages.tasks import Task
from tests.fakes_desktop import make_task

HOME = "/home/user"


class Hit(msgspec.Struct, frozen=True):
    """A click on the first element of this role whose name begins so; left out if there is none."""

    role: str
    name: str
    button: int = 1
    count: int = 1


Line = Action | Hit


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """How an application is started, and what is done there."""

    argv: tuple[str, ...]
    lines: tuple[Line, ...]
    files: dict[str, bytes] = {}
    """By path below the home."""

    def task(self) -> Task:
        """The task that starts it."""
        folders = sorted({f"{HOME}/{name}".rpartition("/")[0] for name in self.files})
        names = {name.replace("/", "+").lstrip("."): name for name in self.files}
        uploads = [{"local_path": key, "path": f"{HOME}/{names[key]}"} for key in names]
        steps: list[tuple[str, dict[str, object]]] = []
        if self.files:
            steps.append(("execute", {"command": ["mkdir", "-p", *folders]}))
            steps.append(("upload_file", {"files": uploads}))
            # Their times are told by dialogs, and they were written just now.
            find = ["find", HOME, "-newermt", "2020-01-01", "-exec", "touch", "-d", "2020-01-01"]
            steps.append(("execute", {"command": [*find, "{}", "+"]}))
        steps.append(("launch", {"command": list(self.argv)}))
        return make_task(*steps, files={key: self.files[name] for key, name in names.items()})


def _k(words: str, count: int = 1) -> Key:
    return Key(keys=tuple(words.split("+")), count=count)


def _drag(*points: tuple[int, int]) -> Drag:
    return Drag(path=tuple(Point(x, y) for x, y in points))


def _lines(words: str) -> tuple[Line, ...]:
    """Chords parted by blanks; what stands after `"` up to the next blank is typed, `_` a blank."""
    return tuple(
        Type(text=word[1:].replace("_", " ").replace("\\n", "\n")) if word[0] == '"' else _k(word)
        for word in words.split()
    )


def _picture(seed: int) -> bytes:
    image = Image.new("RGB", (320, 240), (200 - 40 * seed, 60 * seed, 90))
    drawing = ImageDraw.Draw(image)
    for number in range(6):
        x = 20 + 45 * number
        drawing.ellipse((x, 40 + 20 * seed, x + 40, 80 + 20 * seed), (250, 30 * number, 40 * seed))
    packed = BytesIO()
    image.save(packed, "PNG")
    return packed.getvalue()


_TEXT = b"".join(b"line %d of a note: alpha bravo charlie delta\n" % n for n in range(1, 41))
_EDITOR: tuple[Line, ...] = (
    *_lines('"one_two_three\\n shift+up ctrl+c right ctrl+v ctrl+z ctrl+end "last ctrl+home'),
    Click(x=640, y=300), Click(x=500, y=320, count=2), _k("delete"), _drag((420, 260), (620, 340)),
    *_lines('"X ctrl+z ctrl+f "bravo enter enter esc shift+end ctrl+x ctrl+v pagedown pageup'),
    Scroll(x=640, y=400, dy=4), Scroll(x=640, y=400, dy=-2), Click(x=560, y=380, button=3),
    *_lines('down down esc ctrl+s alt+f down down right esc esc alt+e down up esc'),
    *_lines('ctrl+a shift+left "gone ctrl+z ctrl+h "alpha tab "omega esc ctrl+g'),
    *_lines('"7 enter home shift+down tab ctrl+z ctrl+shift+s "copy.txt enter ctrl+n ctrl+w'),
)  # fmt: skip
_TABLE: tuple[Line, ...] = (
    *_lines('"7\\n "12\\n "=A1+A2\\n up ctrl+b ctrl+i right "hello tab "world enter ctrl+home'),
    *_lines('shift+down shift+right ctrl+c ctrl+end down ctrl+v esc ctrl+1 right right esc'),
    Click(x=500, y=300), _drag((420, 300), (660, 420)), _k("delete"), *_lines('ctrl+z ctrl+y f2'),
    *_lines('"_more esc ctrl+f "hello enter esc alt+f down down esc alt+o down esc'),
    Click(x=560, y=360, button=3), _k("esc"), *_lines('pagedown pageup ctrl+d ctrl+space'),
    *_lines('shift+space'),
    Scroll(x=600, y=400, dy=3), Scroll(x=600, y=400, dy=-3), *_lines('ctrl+home ctrl+s'),
    *_lines('"name.ods esc f5 f5 ctrl+shift+1 "3.5\\n up ctrl+5 down "=SUM(A1:A3)\\n'),
)  # fmt: skip
_PROSE: tuple[Line, ...] = (
    *_lines('"A_title enter "some_words_that_follow ctrl+a ctrl+b ctrl+i ctrl+e ctrl+end enter'),
    *_lines('"second_line shift+home ctrl+u ctrl+x ctrl+v ctrl+z ctrl+y home shift+end ctrl+r'),
    *_lines('ctrl+home shift+ctrl+right delete ctrl+z ctrl+f "words enter esc ctrl+h esc'),
    Click(x=600, y=400, count=2), Click(x=560, y=400, button=3), *_lines('down down esc alt+f'),
    *_lines('down'),
    *_lines('down esc alt+o down esc ctrl+end ctrl+enter "on_page_two pageup pagedown ctrl+f12'),
    *_lines('esc'),
    Scroll(x=640, y=400, dy=4), Scroll(x=640, y=400, dy=-4), *_lines('f11 f11 ctrl+s esc f5 f5'),
    *_lines('ctrl+1 "heading ctrl+0 ctrl+] ctrl+[ ctrl+l tab "x ctrl+backspace'),
)  # fmt: skip
_SLIDES: tuple[Line, ...] = (
    Click(x=620, y=300, count=2), *_lines('"A_title ctrl+a ctrl+b ctrl+i ctrl+u esc tab tab'),
    *_lines('enter "first_point enter "second shift+home ctrl+e esc esc ctrl+m ctrl+m pageup'),
    *_lines('pageup pagedown ctrl+d esc tab right right down ctrl+z ctrl+y delete ctrl+z'),
    Click(x=620, y=300), Click(x=620, y=300, button=3), *_lines('down esc alt+f down down esc'),
    *_lines('alt+o'),
    *_lines('down esc ctrl+s esc f11 f11 ctrl+f "point enter esc ctrl+a esc f4 esc'),
    _drag((300, 200), (900, 600)), Scroll(x=620, y=400, dy=1), Scroll(x=620, y=400, dy=-1),
    *_lines('esc pagedown tab f2 "more_words esc esc shift+f3 esc pageup'),
)  # fmt: skip
_FILES: tuple[Line, ...] = (
    *_lines('right right left down ctrl+2 down down ctrl+1 right alt+enter tab right esc f2'),
    *_lines('"new-name enter ctrl+a esc ctrl+shift+n "made enter ctrl+l esc ctrl+h ctrl+h'),
    *_lines('home ctrl+c ctrl+b ctrl+e ctrl+b ctrl+m ctrl+m home enter alt+up alt+left alt+right'),
    *_lines('ctrl+2 home end home shift+down shift+down ctrl+plus ctrl+minus ctrl+0 alt+f down'),
    *_lines('down esc esc alt+e down down esc esc alt+v down esc esc alt+h down esc esc ctrl+1'),
    _k('end'),
    Click(x=640, y=420, button=3), *_lines('down down esc'), _drag((900, 560), (420, 200)),
    Click(x=900, y=560), *_lines('home f2 esc shift+f10 down esc right f2 "again enter alt+left'),
)  # fmt: skip
_SHELL: tuple[Line, ...] = (
    *_lines('"ls\\n "cat_notes.txt|head_-n5\\n "echo_one_two_three up ctrl+a "x_ ctrl+k'),
    *_lines('"seq_90\\n shift+pageup shift+pagedown ctrl+l "for_i_in_1_2;do_echo_$i;done enter'),
    *_lines('up up'),
    *_lines('ctrl+c ctrl+r "cat enter "less_notes.txt\\n space "/line_3\\n "n "G "g "q'),
    *_lines('"pwd\\n "mkdir_made\\n "ls_-F\\n "cd_made\\n "touch_a_b\\n "ls tab backspace'),
    *_lines('backspace'),
    *_lines('"\\n ctrl+l "python3_-q\\n "6*7\\n "print([n*n_for_n_in_range(9)])\\n ctrl+d'),
    _drag((400, 250), (560, 250)), Click(x=450, y=250, count=2), Click(x=640, y=320),
    *_lines('"cd\\n "wc_notes.txt\\n "nl_notes.txt\\n "sort_-r_notes.txt|head\\n "false\\n'),
    *_lines('"false||echo_no\\n'),
    Scroll(x=500, y=350, dy=-3), Scroll(x=500, y=350, dy=3), *_lines('"echo_a>z.txt\\n'),
    *_lines('"cat_z.txt\\n'),
)  # fmt: skip
_SUMS: tuple[Line, ...] = (
    *_lines('"1 "2 "+ "3 enter "* "7 "= "- "0 ". "5 enter esc "( "9 "/ "4 ") enter backspace'),
    *_lines('esc "8 "2 alt+v down down esc alt+f down esc alt+e down up esc alt+c esc "^ "2 enter'),
    Hit("push button", "7"), Hit("push button", "+"), Hit("push button", "5"),
    Hit("push button", "="), *_lines('ctrl+c esc "6 "6 "1 enter alt+v right down enter esc "9 "1'),
    *_lines('"+ "1 enter esc alt+h down esc "3 "5 "* "2 enter esc'),
)  # fmt: skip
_PHOTOS: tuple[Line, ...] = (
    *_lines('ctrl+plus ctrl+plus ctrl+minus right right left ctrl+r ctrl+z f9 f9 f10 down down'),
    _k("esc"), *_lines('right left plus plus minus plus'), _drag((640, 400), (560, 330)),
    Scroll(x=640, y=400, dy=1), Scroll(x=640, y=400, dy=-2), *_lines('"1 "f home end ctrl+f9'),
    _k("ctrl+f9"), Click(x=640, y=360, button=3), *_lines('down down down esc ctrl+shift+r ctrl+z'),
    *_lines('plus plus plus down right up left "f right left f11 right f11 ctrl+r right ctrl+r'),
)  # fmt: skip
"""One Escape too many ends it."""
_PAINT: tuple[Line, ...] = (
    *_lines('ctrl+n enter p'), _drag((500, 250), (700, 400), (520, 420)), _k("x"),
    _drag((520, 300), (720, 300)), *_lines('ctrl+z ctrl+y ctrl+i ctrl+a ctrl+shift+a r'),
    _drag((520, 260), (640, 360)), *_lines('delete ctrl+, ctrl+z ctrl+shift+a e'),
    _drag((560, 300), (700, 380)), _drag((520, 300), (600, 420)),
    *_lines('ctrl+shift+a ctrl+b esc'),
    *_lines('plus plus minus shift+ctrl+j shift+ctrl+n enter p'), _drag((600, 260), (610, 400)),
    *_lines('ctrl+z shift+b'), Click(x=620, y=330), *_lines('alt+f down down esc alt+i down esc'),
    Click(x=620, y=340, button=3), *_lines('down down esc esc "x d'),
    *_lines('n'), _drag((560, 350), (700, 350)),
    *_lines('ctrl+l esc f ctrl+z'), _drag((540, 300), (700, 390)), *_lines('ctrl+i ctrl+z p'),
    _drag((500, 400), (700, 410)), _drag((500, 370), (700, 360)), *_lines('alt+l down esc q u m'),
)  # fmt: skip
_MEDIA: tuple[Line, ...] = (
    *_lines('ctrl+o esc ctrl+n esc alt+m down down esc esc alt+a down esc alt+v down down esc'),
    *_lines('ctrl+p'),
    *_lines('tab tab esc ctrl+l ctrl+l ctrl+e right esc ctrl+i esc ctrl+j esc ctrl+m esc ctrl+b'),
    *_lines('esc'),
    *_lines('alt+t down down esc alt+h down esc ctrl+h ctrl+h shift+f1 esc ctrl+t esc f11 f11'),
    Click(x=640, y=300, button=3), *_lines('down down esc ctrl+r esc ctrl+d tab esc alt+s down'),
    *_lines('esc'),
    *_lines('ctrl+up ctrl+down m "m t l r ctrl+l'), Click(x=700, y=380, button=3),
    *_lines('esc ctrl+l ctrl+shift+o esc alt+p down esc ctrl+p right tab esc'),
)  # fmt: skip
_PAGE = b"""<!doctype html><meta charset=utf-8><title>Orders</title>
<style>body{font:18px sans-serif}
td{border:1px solid #888;padding:6px}#far{margin-top:900px}button:hover{background:#fd8}</style>
<h1>Orders</h1><form onsubmit="add();return false"><input id=who placeholder=Name autofocus>
<select id=what><option>Apples<option>Pears<option>Plums</select><input type=number id=many value=1>
<label><input type=checkbox id=now> urgent</label>
<label><input type=radio name=r checked> post</label>
<label><input type=radio name=r> pick up</label><button>Add</button></form><p id=sum>nothing yet
<table id=list></table><details><summary>More</summary><textarea rows=4 cols=40>notes</textarea>
<input type=range min=0 max=10></details><p><a href=other.html>other page</a>
<button onclick="document.body.style.background='#def'">Blue</button>
<button onclick="alert('Sure?')">Ask</button><p id=far>the end <a href=#list>up</a>
<script>function add(){let r=list.insertRow();
for(let c of [who.value,what.value,many.value,now.checked])
r.insertCell().textContent=c;sum.textContent=list.rows.length+' orders'}</script>"""
_OTHER = b"<!doctype html><title>Other</title><h1>Other</h1><a href=page.html>back</a>" + b"".join(
    b"<p>paragraph %d" % number for number in range(60)
)
_WEB: tuple[Line, ...] = (
    *_lines('"Ann tab down tab up up tab space tab down enter'), Hit("entry", "Name"),
    *_lines('ctrl+a "Bob enter'), Hit("push button", "Add"), Hit("check box", "urgent"),
    Hit("push button", "Blue"), Hit("push button", "Ask"), _k("enter"), Hit("combo box", ""),
    *_lines('down enter'), _drag((20, 130), (300, 200)), *_lines('end home pagedown pageup ctrl+f'),
    *_lines('"orders enter esc'), Click(x=600, y=420, button=3),
    *_lines('down down esc'), Hit("link", "other page"), *_lines('pagedown space alt+left'),
    *_lines('alt+right'),
    Scroll(x=600, y=400, dy=3), Scroll(x=600, y=400, dy=-3), *_lines('alt+left ctrl+t'),
    *_lines('ctrl+w ctrl+l "other esc esc alt+f down down esc f6 ctrl+d esc ctrl+t'),
    *_lines('"file:///home/user/other.html\\n ctrl+a ctrl+tab ctrl+w ctrl+shift+b tab tab tab tab'),
)  # fmt: skip
_PREFS = {
    "mail.accountmanager.accounts": "account1,account2",
    "mail.accountmanager.defaultaccount": "account2",
    "mail.accountmanager.localfoldersserver": "server1",
    "mail.account.account1.server": "server1",
    "mail.account.account2.server": "server2",
    "mail.account.account2.identities": "id1",
    "mail.server.server1.type": "none",
    "mail.server.server1.hostname": "Local Folders",
    "mail.server.server1.name": "Local Folders",
    "mail.server.server1.userName": "nobody",
    "mail.server.server1.directory-rel": "[ProfD]Mail/Local Folders",
    "mail.server.server2.type": "pop3",
    "mail.server.server2.hostname": "mail.invalid",
    "mail.server.server2.name": "ann@mail.invalid",
    "mail.server.server2.userName": "ann",
    "mail.server.server2.directory-rel": "[ProfD]Mail/mail.invalid",
    "mail.server.server2.login_at_startup": False,
    "mail.server.server2.check_new_mail": False,
    "mail.identity.id1.fullName": "Ann",
    "mail.identity.id1.useremail": "ann@mail.invalid",
    "mail.identity.id1.smtpServer": "smtp1",
    "mail.smtpservers": "smtp1",
    "mail.smtp.defaultserver": "smtp1",
    "mail.smtpserver.smtp1.hostname": "mail.invalid",
    "mail.smtpserver.smtp1.username": "ann",
}  # fmt: skip
_MAILS = b"".join(
    b"From - Mon Jan 06 10:0%d:00 2025\nX-Mozilla-Status: 0000\n"
    b"From: Person %d <p%d@mail.invalid>\n"
    b"To: ann@mail.invalid\nSubject: Message number %d\nDate: Mon, 06 Jan 2025 10:0%d:00 +0000\n"
    b"Message-ID: <m%d@mail.invalid>\nContent-Type: text/plain\n\nBody of mail %d.\n%s\n\n"
    % (n, n, n, n, n, n, n, b"More words follow here.\n" * 12)
    for n in range(1, 9)
)
_MAIL: tuple[Line, ...] = (
    Hit("tree item", "Local Folders"), _k("right"), Hit("tree item", "Inbox"),
    Click(x=420, y=115), *_lines('down down up end home enter ctrl+w down ctrl+n'),
    *_lines('"bob@mail.invalid tab tab "subject tab "some_words_of_a_letter ctrl+a ctrl+b ctrl+i'),
    *_lines('right "_end ctrl+z alt+f down esc esc ctrl+w'), Hit("push button", "Discard"),
    *_lines('down alt+v down esc esc f8 f8 down ctrl+shift+k "number esc esc ctrl+k esc'),
    Click(x=420, y=115), *_lines('delete ctrl+z down ctrl+r "_thanks ctrl+shift+home delete'),
    _k("ctrl+w"),
    Hit("push button", "Discard"), Click(x=420, y=270, button=3),
    *_lines('down down esc down up'),
    *_lines('alt+t down down esc esc alt+m down down esc esc s down s down m down ctrl+plus'),
    _k("ctrl+0"),
    Hit("tree item", "Trash"), Hit("tree item", "Inbox"), Hit("push button", "Address Book"),
    Hit("push button", "Calendar"), Hit("push button", "Tasks"), Hit("push button", "Mail"),
    Hit("push button", "AppMenu"), *_lines('down down esc'),
)  # fmt: skip


def _prefs() -> bytes:
    rows = (
        (name, f'"{v}"' if isinstance(v, str) else str(v).lower()) for name, v in _PREFS.items()
    )
    return "".join(f'user_pref("{name}", {value});\n' for name, value in rows).encode()


_PROFILE = ".thunderbird/small"
_OFFICE = "libreoffice"
_NOTE = {"notes.txt": _TEXT}
_TREE = {"a/one.txt": _TEXT, "b/two.txt": b"two\n", "notes.txt": _TEXT, "zebra.txt": b"z\n"}
SCRIPTS: dict[str, Script] = {
    "mousepad": Script(argv=("mousepad", f"{HOME}/notes.txt"), lines=_EDITOR, files=_NOTE),
    "gedit": Script(argv=("gedit", f"{HOME}/notes.txt"), lines=_EDITOR, files=_NOTE),
    "thunar": Script(argv=("thunar",), lines=_FILES, files=_TREE),
    "xterm": Script(argv=("xterm",), lines=_SHELL, files=_NOTE),
    "galculator": Script(argv=("galculator",), lines=_SUMS),
    "eog": Script(
        argv=("eog", f"{HOME}/1.png"), lines=_PHOTOS,
        files={f"{number}.png": _picture(number) for number in (1, 2, 3)},
    ),
    "calc": Script(argv=(_OFFICE, "--calc"), lines=_TABLE),
    "writer": Script(argv=(_OFFICE, "--writer"), lines=_PROSE),
    "impress": Script(argv=(_OFFICE, "--impress"), lines=_SLIDES),
    "gimp": Script(argv=("gimp",), lines=_PAINT),
    "vlc": Script(argv=("vlc", "--no-audio"), lines=_MEDIA),
    "thunderbird": Script(
        argv=("/usr/bin/thunderbird", "--profile", f"{HOME}/{_PROFILE}"), lines=_MAIL,
        files={
            f"{_PROFILE}/prefs.js": _prefs(),
            f"{_PROFILE}/Mail/Local Folders/Inbox": _MAILS,
            f"{_PROFILE}/Mail/mail.invalid/Inbox": b"",
        },
    ),
    "chromium": Script(
        argv=("google-chrome", f"file://{HOME}/page.html"), lines=_WEB,
        files={"page.html": _PAGE, "other.html": _OTHER},
    ),
}  # fmt: skip
"""By application, in the order of the table."""


def aim(line: Line, elements: Sequence[object]) -> Action | None:
    """A line as an action on what a desktop shows; None where the element is not there."""
    if not isinstance(line, Hit):
        return line
    for element in elements:
        role, name = getattr(element, "role", ""), getattr(element, "name", "")
        if role == line.role and name.startswith(line.name):
            x = getattr(element, "x", 0) + getattr(element, "width", 0) // 2
            y = getattr(element, "y", 0) + getattr(element, "height", 0) // 2
            return Click(x=x, y=y, button=line.button, count=line.count)
    return None
