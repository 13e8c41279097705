"""Tasks of the domain `os`: settings, files, and commands in a terminal."""

from __future__ import annotations

from functools import partial

from envs_node.policy.task_files import Part
from tests.osworld.playing import Case, Hands

_PICTURE = b"\xff\xd8\xff\xe0picture"
_OLD_FILES = """#!/bin/bash
mkdir -p /tmp/test_files/old_files /tmp/test_files/new_files
for name in a b c; do
  echo "$name" > /tmp/test_files/old_files/$name.txt
  touch -d '30 days ago' /tmp/test_files/old_files/$name.txt
  echo "$name" > /tmp/test_files/new_files/$name.txt
done
"""
_OLD_FILES_CHECK = """#!/bin/bash
packed=$(find /tmp/test_files/old_files -name '*.txt.gz' | wc -l)
left=$(find /tmp/test_files/new_files -name '*.txt' | wc -l)
if [ "$packed" = 3 ] && [ "$left" = 3 ]; then
  echo "Success: The task was completed correctly."
else
  echo "Failure: $packed packed, $left left."
fi
"""
_MODES = """#!/bin/bash
mkdir -p testDir/inner
touch testDir/one testDir/inner/two
chmod 600 testDir/one
chmod 755 testDir/inner/two
"""
_MODES_CHECK = """#!/bin/bash
if [ -z "$(find testDir -type f ! -perm 644)" ]; then
  echo "All files have the correct permissions."
else
  echo "Some files have other permissions."
fi
"""
_NOTEBOOKS = """#!/bin/bash
mkdir -p test_environment/a/b test_environment/c
touch test_environment/a/one_failed.ipynb test_environment/a/b/two_failed.ipynb
touch test_environment/a/three.ipynb test_environment/c/four.ipynb
"""
_NOTEBOOKS_CHECK = """#!/bin/bash
cd test_environment
if [ -f fails/a/one_failed.ipynb ] && [ -f fails/a/b/two_failed.ipynb ] &&
    [ "$(find fails -type f | wc -l)" = 2 ]; then
  echo "Evaluation successful."
else
  echo "Evaluation failed."
fi
"""
_LINES_CHECK = """#!/bin/bash
if [ "$(cat output.txt)" = "$(printf '1<br/>\\n2<br/>\\n3<br/>')" ]; then
  echo "Success: The task has been completed correctly."
else
  echo "Failure."
fi
"""
_COPIES = """#!/bin/bash
echo text > file1
mkdir dir1 dir2 dir3
"""
_COPIES_CHECK = """#!/bin/bash
for folder in dir1 dir2 dir3; do
  if [ -f $folder/file1 ]; then echo "Success: file1 exists in $folder."; else echo "No."; fi
done
"""
_SCRIPTS = {
    "37887e8c": {"setup.sh": _OLD_FILES, "eval_20250703.sh": _OLD_FILES_CHECK},
    "4d117223": {"setup.sh": _MODES, "eval.sh": _MODES_CHECK},
    "5c1075ca": {"setup.sh": _NOTEBOOKS, "eval.sh": _NOTEBOOKS_CHECK},
    "5ced85fc": {"eval.sh": _LINES_CHECK},
    "6f56bf42": {"setup.sh": _COPIES, "eval.sh": _COPIES_CHECK},
}


def _set(schema: str, key: str, value: str, hands: Hands) -> None:
    hands.run(f"gsettings set {schema} {key} {value}")


def _run(command: str, hands: Hands) -> None:
    hands.run(command)


def _type(command: str, hands: Hands) -> None:
    """In the terminal that the set-up opened; then wait until its prompt is back."""
    hands.type(f"{command}; touch /tmp/done\n")
    hands.run("until [ -f /tmp/done ]; do sleep 0.05; done")


def _picture(_name: str, _part: Part) -> bytes:
    return _PICTURE


def _script(task: str, name: str, _part: Part) -> bytes:
    return _SCRIPTS[task][name].encode()


def _setting(task_id: str, *setting: str) -> Case:
    return Case(domain="os", id=task_id, how="files", solve=partial(_set, *setting))


def _terminal(task_id: str, command: str) -> Case:
    return Case(
        domain="os",
        id=task_id,
        how="driven",
        solve=partial(_type, command),
        make=partial(_script, task_id.split("-", maxsplit=1)[0]),
    )


CASES = (
    _setting(
        "3ce045a0-877b-42aa-8d2c-b4a863336ab8",
        "org.gnome.desktop.interface", "text-scaling-factor", "1.5",
    ),
    _setting(
        "a4d98375-215b-4a4d-aee9-3d4370fccc41",
        "org.gnome.desktop.screensaver", "lock-enabled", "true",
    ),
    _setting(
        "bedcedc4-4d72-425e-ad62-21960b11fe0d", "org.gnome.desktop.session", "idle-delay", "0"
    ),
    _setting(
        "f9be0997-4b7c-45c5-b05c-4612b44a6118",
        "org.gnome.desktop.notifications", "show-banners", "false",
    ),
    _setting(
        "ec4e3f68-9ea4-4c18-a5c9-69f89d1178b3",
        "org.gnome.shell", "favorite-apps", "\"['thunderbird.desktop', 'google-chrome.desktop']\"",
    ),
    Case(
        domain="os",
        id="23393935-50c7-4a86-aeea-2b78fd089c5c",
        how="files",
        solve=partial(_run, "find ~/Desktop/photos -name '*.jpg' -exec cp {} ~/Desktop/cpjpg ';'"),
        make=_picture,
    ),
    Case(
        domain="os",
        id="5ea617a3-0e86-4ba6-aab2-dac9aa2e8d57",
        how="files",
        solve=partial(_run, "mv ~/.local/share/Trash/files/*.webp ~/Desktop"),
        make=_picture,
    ),
    _terminal(
        "37887e8c-da15-4192-923c-08fa390a176d",
        "find /tmp/test_files -type f -mtime +29 -exec gzip {} +",
    ),
    _terminal(
        "4d117223-a354-47fb-8b45-62ab1390a95f",
        "find . -type f -exec chmod 644 {} +",
    ),
    _terminal(
        "5c1075ca-bb34-46a3-a7a0-029bd7463e79",
        "mkdir fails; find . -path ./fails -prune -o -name '*failed.ipynb' "
        "-exec cp --parents {} fails ';'",
    ),
    _terminal(
        "5ced85fc-fa1a-4217-95fd-0fb530545ce2",
        "printf '1\\n2\\n3' | sed 's|$|<br/>|' > output.txt",
    ),
    _terminal(
        "6f56bf42-85b8-4fbb-8e06-6c44960184ba",
        "for folder in dir1 dir2 dir3; do cp file1 $folder; done",
    ),
)  # fmt: skip
"""Each with its solution."""
