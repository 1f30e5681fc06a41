"""Themes: what ships can be read by everyone, what is broken is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from console.themes import OWN_VARIABLES, LoadedTheme, choose_theme, load_themes, shipped_folder

SHIPPED, FAILED = load_themes(shipped_folder())

ON_THE_SCREEN = ("foreground", "muted", "good", "caution", "danger", "paused", "accent-text", "found", "text-muted")
"""Colours of text that stands on the background, on a dialog's surface and on a panel."""

PAIRS = [
    *((text, ground) for text in ON_THE_SCREEN for ground in ("background", "surface", "panel")),
    ("muted", "heading-background"),
    ("accent-text", "heading-background"),
    ("stale-foreground", "stale"),
    ("danger-foreground", "danger-background"),
    ("block-cursor-foreground", "block-cursor-background"),
    ("block-cursor-blurred-foreground", "block-cursor-blurred-background"),
    ("footer-key-foreground", "footer-background"),
    ("footer-description-foreground", "footer-background"),
    ("footer-key-foreground", "surface"),
    ("text-success", "surface"),
    ("text-warning", "surface"),
    ("text-error", "surface"),
    ("foreground-muted", "surface"),
]

PICTURES = [("gpu-bar", "background"), ("gpu-bar-full", "background"), ("gpu-spark", "background")]
"""Bars and lines: 3:1 (WCAG 1.4.11)."""


def luminance(color: Color) -> float:
    """Return the relative luminance of WCAG 2.1."""

    def linear(part: int) -> float:
        value = part / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b)


def contrast(text: str, ground: str) -> float:
    """Return the contrast ratio of WCAG 2.1; ``text`` may be translucent."""
    below = Color.parse(ground)
    lights = sorted((luminance(below + Color.parse(text)), luminance(below)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def variables(loaded: LoadedTheme) -> dict[str, str]:
    return {**loaded.theme.to_color_system().generate(), **loaded.theme.variables}


def test_the_measure_is_the_one_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_all_shipped_themes_load() -> None:
    assert FAILED == []
    assert list(SHIPPED)[:2] == ["dark", "light"]
    assert {"dark", "light", "high-contrast", "colour-blind"} <= set(SHIPPED)
    assert all(loaded.description for loaded in SHIPPED.values())


@pytest.mark.parametrize("name", SHIPPED)
def test_every_text_can_be_read(name: str) -> None:
    needed = 7.0 if name.startswith("high-contrast") else 4.5
    known = variables(SHIPPED[name])
    poor = {
        f"{text} on {ground}": round(ratio, 2)
        for text, ground in PAIRS
        if (ratio := contrast(known[text], known[ground])) < needed
    }
    assert poor == {}


@pytest.mark.parametrize("name", SHIPPED)
def test_bars_and_lines_can_be_seen(name: str) -> None:
    known = variables(SHIPPED[name])
    assert {
        each: contrast(known[each[0]], known[each[1]])
        for each in PICTURES
        if contrast(known[each[0]], known[each[1]]) < 3
    } == {}
    assert contrast(known["gpu-bar"], known["gpu-track"]) > 1.5


@pytest.mark.parametrize("name", SHIPPED)
def test_every_own_variable_is_set_by_the_file_itself(name: str) -> None:
    text = SHIPPED[name].path.read_text(encoding="utf-8")
    assert [each for each in OWN_VARIABLES if f"\n{each} = " not in text] == []


MINIMAL = """
name = "mine"
dark = true
[colors]
primary = "#4c9df3"
secondary = "#7aa2c8"
accent = "#e3b341"
foreground = "#d7dde5"
background = "#0e1116"
surface = "#161b22"
panel = "#1f262e"
warning = "#e3b341"
error = "#ff8078"
success = "#56d364"
"""


def test_a_theme_may_leave_our_variables_out(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINIMAL)
    loaded, failed = load_themes(tmp_path)
    assert failed == [] and set(loaded["mine"].theme.variables) >= set(OWN_VARIABLES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MINIMAL.replace("primary", "primry"), 'unknown key "colors.primry"; did you mean "primary"?'),
        (MINIMAL.replace('"#4c9df3"', '"blurple"'), "expected a colour"),
        (MINIMAL.replace('"mine"', '"My Theme!"'), '"name"'),
        (MINIMAL + '[variables]\n"gpu-bra" = "red"\n', 'unknown key "variables.gpu-bra"; did you mean "gpu-bar"?'),
        (MINIMAL.replace("dark = true", ""), 'the key "dark" is missing'),
        ("name = ", "not valid TOML"),
    ],
)
def test_a_broken_theme_is_reported_and_the_others_load(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "broken.toml").write_text(text)
    (tmp_path / "good.toml").write_text(MINIMAL)
    loaded, failed = load_themes(tmp_path)
    assert list(loaded) == ["mine"]
    assert [f.path.name for f in failed] == ["broken.toml"]
    assert said in failed[0].reason and "\n" not in failed[0].reason


def test_a_theme_of_the_operator_replaces_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(MINIMAL.replace('"mine"', '"dark"'))
    loaded, _ = load_themes(shipped_folder(), tmp_path)
    assert loaded["dark"].path == tmp_path / "x.toml" and "light" in loaded


def test_the_first_theme_that_there_is_wins_and_the_others_are_told() -> None:
    assert choose_theme(SHIPPED, "light", "dark") == ("light", [])
    assert choose_theme(SHIPPED, None, "light") == ("light", [])
    assert choose_theme(SHIPPED, "gone", "ligth") == (
        "dark",
        [
            'There is no theme "gone"; known are: ' + ", ".join(sorted(SHIPPED)),
            'There is no theme "ligth"; did you mean "light"?',
        ],
    )
    assert choose_theme({}, None) == ("textual-dark", [])
