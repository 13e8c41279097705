"""The curve of a plan as a picture: cost of a desktop for a day against desktops on the host."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from envs_node.deploy.plan import Packing, Plan

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 60
_STYLE = 'font-family="sans-serif" font-size="12" fill="#222"'
_COLOURS = ("#1565c0", "#ef6c00")


def svg_of(plan: Plan) -> str:
    """Both axes are logarithmic; what does not fit into memory is drawn pale."""
    points = plan.curve
    xs = [math.log2(point.desktops) for point in points]
    costs = [cost for point in points for cost in (point.desktop_day, point.working_day)]
    low, high = math.log10(min(costs)), math.log10(max(costs))

    def place(desktops: int, cost: float) -> tuple[float, float]:
        across = (math.log2(desktops) - xs[0]) / max(xs[-1] - xs[0], 1e-9)
        up = (math.log10(cost) - low) / max(high - low, 1e-9)
        x = _LEFT + across * (_WIDTH - _LEFT - _RIGHT)
        return x, _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 22, f"cost of a desktop for a day, in {_unit(plan)}; {_mix(plan)}"),
        _text(_WIDTH / 2, _HEIGHT - 12, "desktops on the host"),
    ]
    for point in points:
        x, y = place(point.desktops, point.desktop_day)
        parts.append(_text(x, _HEIGHT - _BOTTOM + 20, str(point.desktops), "middle"))
        parts.append(_text(_LEFT - 8, y + 4, f"{point.desktop_day:.3g}", "end"))
    for name, colour in zip(("desktop_day", "working_day"), _COLOURS, strict=True):
        parts += _line(points, name, colour, place)
    x, _ = place(max(plan.desktops, 1), min(costs))
    parts.append(
        f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="#888" '
        'stroke-dasharray="4"/>'
    )
    label = f"{plan.desktops}: {plan.binds} bind"
    parts.append(_text(x - 6, _TOP + 12, label, "end"))
    parts.append(_text(_WIDTH - 20, _TOP + 12, "a desktop that is kept", "end", _COLOURS[0]))
    parts.append(_text(_WIDTH - 20, _TOP + 28, "a desktop's whole work", "end", _COLOURS[1]))
    return "\n".join([*parts, "</svg>", ""])


def _line(
    points: Sequence[Packing],
    name: str,
    colour: str,
    place: Callable[[int, float], tuple[float, float]],
) -> list[str]:
    found = []

    for one, other in itertools.pairwise(points):
        (x, y), (x2, y2) = (place(point.desktops, getattr(point, name)) for point in (one, other))
        opacity = 1.0 if other.fits else 0.25
        found.append(
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="2" opacity="{opacity}"/>'
        )
    return found


def _unit(plan: Plan) -> str:
    return "the price's currency" if plan.currency == "price" else "host-days"


def _mix(plan: Plan) -> str:
    return ", ".join(f"{app} {share:g}" for app, share in plan.mix.items())


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "") -> str:
    style = _STYLE.replace("#222", colour) if colour else _STYLE
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} text-anchor="{anchor}">{safe}</text>'
