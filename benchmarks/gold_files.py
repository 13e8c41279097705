"""Small valid files of each kind that OSWorld's tasks compare with. Runs in the checker's Python.

`python gold_files.py FOLDER` writes `gold.<kind>` for every kind.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import tarfile
import wave
import zipfile
from pathlib import Path
from typing import Any

TEXTS = {
    "txt": "gold\n", "csv": "name,number\ngold,1\n", "py": "print('gold')\n", "js": "let a = 1;\n",
    "sh": "echo gold\n", "css": "a { color: gold; }\n", "tex": "\\section{Gold}\n",
    "bib": "@book{gold, title={Gold}}\n", "html": "<html><body><p>gold</p></body></html>\n",
    "eml": "Subject: gold\n\ngold\n", "srt": "1\n00:00:00,000 --> 00:00:01,000\ngold\n",
    "json": '{"gold": 1}\n', "xml": "<gold/>\n", "md": "# gold\n",
}  # fmt: skip


def _picture() -> Any:
    picture = importlib.import_module("PIL.Image").new("RGB", (64, 48), (180, 140, 20))
    importlib.import_module("PIL.ImageDraw").Draw(picture).rectangle((8, 8, 30, 30), fill="navy")
    return picture


def _office(folder: Path) -> None:
    book = importlib.import_module("openpyxl").Workbook()
    book.active.append(["name", "number"])
    book.active.append(["gold", 1])
    book.save(folder / "gold.xlsx")
    text = importlib.import_module("docx").Document()
    text.add_paragraph("gold")
    text.save(folder / "gold.docx")
    slides = importlib.import_module("pptx").Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[0])
    slide.shapes.title.text = "gold"
    slides.save(folder / "gold.pptx")
    odf = importlib.import_module("odf.opendocument").OpenDocumentText()
    odf.text.addElement(importlib.import_module("odf.text").P(text="gold"))
    odf.save(str(folder / "gold.odt"))
    pdf = importlib.import_module("fitz").open()
    pdf.new_page().insert_text((72, 72), "gold")
    pdf.save(folder / "gold.pdf")


def _media(folder: Path) -> None:
    for kind in ("png", "jpg", "gif"):
        _picture().save(folder / f"gold.{kind}")
    with wave.open(str(folder / "gold.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(range(256)) * 32)
    for kind in ("mp3", "mp4"):
        source = ["-f", "lavfi", "-i", "sine=d=1" if kind == "mp3" else "testsrc=d=1:s=64x48:r=5"]
        command = ["ffmpeg", "-loglevel", "error", "-y", *source, str(folder / f"gold.{kind}")]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _archives(folder: Path) -> None:
    for kind in ("zip", "epub"):
        with zipfile.ZipFile(folder / f"gold.{kind}", "w") as archive:
            archive.writestr("gold.txt", "gold\n")
    with tarfile.open(folder / "gold.gz", "w:gz") as archive:
        info = tarfile.TarInfo("gold.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"gold\n"))


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1])
    for kind, text in TEXTS.items():
        (folder / f"gold.{kind}").write_text(text, encoding="utf-8")
    _office(folder)
    _media(folder)
    _archives(folder)


if __name__ == "__main__":
    main()
