"""X servers, as command lines: Xvfb, and Xorg with the dummy driver."""

from __future__ import annotations

from collections.abc import Sequence

from envs_node.actors.desktop.kind import DesktopKind

XORG = "/usr/lib/xorg/Xorg"
"""The server itself: the command of that name may be a wrapper that wants a console."""
_COMMON = ("-nolisten", "tcp", "-noreset", "-ac", "-nocursor", "-dpi", "96", "-s", "0",
           "-dpms")  # fmt: skip
_CONFIGURATION = "/run/share/xorg.conf"
_BLANK_PX = 64
"""Added to each line and column of a mode: what is not shown. Nothing is, so little will do."""
_CLOCK_HZ_MIN, _CLOCK_HZ_MAX = 20e6, 250e6
"""Of pixels: the driver takes 11 to 300 MHz."""
_TEMPLATE = """
Section "ServerFlags"
    Option "AutoAddDevices" "false"
    Option "AutoEnableDevices" "false"
    Option "AutoAddGPU" "false"
    Option "DontVTSwitch" "true"
    Option "BlankTime" "0"
    Option "StandbyTime" "0"
    Option "SuspendTime" "0"
    Option "OffTime" "0"
EndSection
Section "Device"
    Identifier "card"
    Driver "dummy"
    VideoRam {memory_kib}
EndSection
Section "Monitor"
    Identifier "monitor"
    HorizSync 0.5-2000.0
    VertRefresh 0.5-2000.0
    Modeline "screen" {clock_mhz:.3f} {width} {h1} {h2} {h3} {height} {v1} {v2} {v3}
    Option "DPMS" "false"
EndSection
Section "Screen"
    Identifier "screen"
    Device "card"
    Monitor "monitor"
    DefaultDepth 24
    SubSection "Display"
        Depth 24
        Modes "screen"
        Virtual {width} {height}
    EndSubSection
EndSection
"""


def server_argv(kind: DesktopKind, *, needs_gl: bool) -> Sequence[str]:
    """How to start the X server of a desktop, on display 0, with its screen of 24 bits."""
    gl = () if needs_gl else ("-extension", "GLX")
    if kind.xserver == "xvfb":
        size = f"{kind.width}x{kind.height}x24"
        return ("Xvfb", ":0", "-screen", "0", size, *_COMMON, *gl)
    options = ("-novtswitch", "-sharevts", "-config", _CONFIGURATION, "-configdir", "/run/share")
    log = ("-logfile", "/run/share/log/xorg.log")
    server = (XORG, ":0", *_COMMON, *gl, *options, *log)
    # The shell writes down its first argument and becomes the others.
    script = f'printf %s "$0" > {_CONFIGURATION} && exec "$@"'
    return ("/bin/sh", "-c", script, xorg_configuration(kind.width, kind.height), *server)


def xorg_configuration(width: int, height: int) -> str:
    """A card without hardware, and one mode of exactly this size."""
    across, down = width + _BLANK_PX, height + _BLANK_PX
    clock_hz = min(max(60.0 * across * down, _CLOCK_HZ_MIN), _CLOCK_HZ_MAX)
    return _TEMPLATE.format(
        memory_kib=width * height * 4 // 1024 + 16384,
        clock_mhz=clock_hz / 1e6,
        width=width, h1=width + 16, h2=width + 32, h3=across,
        height=height, v1=height + 16, v2=height + 32, v3=down,
    )  # fmt: skip
