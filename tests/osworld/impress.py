"""Tasks of the domain `libreoffice_impress`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lxml import etree
from pptx.dml.color import RGBColor
from pptx.presentation import Presentation
from pptx.util import Emu, Inches

from tests.osworld.office import document_case, show
from tests.osworld.playing import Case, Hands

_PAGES = (("Harbour", "Boats at dawn"), ("Market", "Fish and bread"), ("Features", "Quiet"))
_REGISTRY = "/home/user/.config/libreoffice/4/user/registrymodifications.xcu"
_TRANSITION = (
    '<p:transition xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main">'
    "<p:dissolve/></p:transition>"
)
_SETTING = (
    '<item oor:path="/org.openoffice.Office.Common/Save/Document">'
    '<prop oor:name="AutoSaveTimeIntervall" oor:op="fuse"><value>3</value></prop></item>'
)


def _blue(presentation: Presentation) -> None:
    for slide in presentation.slides:
        slide.background.fill.solid()
        slide.background.fill.fore_color.rgb = RGBColor(0, 0, 255)


def _upright(presentation: Presentation) -> None:
    width, height = presentation.slide_width, presentation.slide_height
    presentation.slide_width, presentation.slide_height = height, width


def _dissolve(presentation: Presentation) -> None:
    slide = presentation.slides[0].element
    slide.insert(2, etree.fromstring(_TRANSITION))


def _font(number: int, name: str) -> Callable[[Presentation], None]:
    def edit(presentation: Presentation) -> None:
        for shape in presentation.slides[number].placeholders:
            for run in shape.text_frame.paragraphs[0].runs:
                run.font.name = name

    return edit


def _fonts(name: str) -> Callable[[Presentation], None]:
    def edit(presentation: Presentation) -> None:
        for number in range(len(presentation.slides)):
            _font(number, name)(presentation)

    return edit


def _boxes(*colours: str | None) -> bytes:
    def edit(presentation: Presentation) -> None:
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        for place, colour in enumerate(colours):
            box = slide.shapes.add_textbox(Inches(1), Inches(1 + place), Inches(6), Inches(1))
            run = box.text_frame.paragraphs[0].add_run()
            run.text = f"Line {place}"
            if colour is not None:
                run.font.color.rgb = RGBColor.from_string(colour)

    return show(edit=edit)


def _table(presentation: Presentation) -> None:
    shapes = presentation.slides[2].shapes
    shapes.add_table(5, 2, Inches(1), Inches(2), Inches(6), Inches(2))


def _title(number: int, words: str) -> Callable[[Presentation], None]:
    def edit(presentation: Presentation) -> None:
        presentation.slides[number].shapes.title.text_frame.paragraphs[0].runs[0].text = words

    return edit


def _move_title(presentation: Presentation) -> None:
    title = presentation.slides[1].shapes.title
    title.left, title.top = Emu(457200), Inches(6)
    title.width, title.height = Inches(8), Inches(1)


def _set_interval(hands: Hands) -> None:
    """End the program, and write down what its dialog would."""
    hands.quit("soffice", "LibreOffice")
    hands.run(f"sed -i 's|</oor:items>|{_SETTING}</oor:items>|' {_REGISTRY}")


def _show_panel(hands: Hands) -> None:
    """Through the menu through which the set-up hid it."""
    hands.press("f10")
    hands.press("right", 2)
    hands.press("down", 10)
    hands.press("down")
    hands.press("enter")


_case = partial(document_case, "libreoffice_impress")
_pages = partial(show, *_PAGES)
CASES: tuple[Case, ...] = (
    Case(
        domain="libreoffice_impress",
        id="2cd43775-7085-45d8-89fa-9e35c0a915cf",
        how="files",
        solve=_set_interval,
    ),
    Case(
        domain="libreoffice_impress",
        id="ef9d12bd-bcee-4ba0-a40e-918400f43ddf",
        how="driven",
        solve=_show_panel,
    ),
    _case("3b27600c-3668-4abd-8f84-7bcdebbccbdb", _pages, partial(show, *_PAGES, edit=_blue)),
    _case("ce88f674-ab7a-43da-9201-468d38539e4a", _pages, partial(show, *_PAGES, edit=_upright)),
    _case("21760ecb-8f62-40d2-8d85-0cee5725cb72", _pages, partial(show, *_PAGES, edit=_dissolve)),
    _case(
        "edb61b14-a854-4bf5-a075-c8075c11293a",
        _pages,
        partial(show, *_PAGES, edit=_font(2, "Times New Roman")),
    ),
    _case(
        "358aa0a7-6677-453f-ae35-e440f004c31e",
        _pages,
        partial(show, *_PAGES, edit=_fonts("Liberation Sans Narrow")),
    ),
    _case(
        "04578141-1d42-4146-b9cf-6fab4ce5fd74",
        partial(_boxes, None, None, None),
        partial(_boxes, "FFFF00", "FF0000", "00FF00"),
    ),
    _case("39be0d19-634d-4475-8768-09c130f5425d", _pages, partial(show, *_PAGES, edit=_table)),
    _case(
        "b8adbc24-cef2-4b15-99d5-ecbe7ff445eb",
        _pages,
        partial(show, *_PAGES, edit=_title(1, "Online Shopping")),
    ),
    _case(
        "15aece23-a215-4579-91b4-69eec72e18da",
        _pages,
        partial(show, *_PAGES, edit=_move_title),
    ),
)
"""Each with its solution."""
