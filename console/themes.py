"""Themes: TOML files, checked, as Textual themes. A broken one is reported and leaves the others alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from textual.color import Color, ColorParseError
from textual.theme import Theme

from console.host.errors import SettingsError
from console.nearest import did_you_mean
from console.settings import config_folder
from console.validated import read_toml

PLAIN_THEMES = ("dark", "light")
"""Offered first."""

OWN_VARIABLES = {
    # name: (dark, light)
    "muted": ("#8b98a5", "#57606a"),
    "good": ("#56d364", "#116329"),
    "caution": ("#e3b341", "#7d4e00"),
    "danger": ("#ff8078", "#b3141f"),
    "danger-background": ("#7d1a1a", "#b3141f"),
    "danger-foreground": ("#ffffff", "#ffffff"),
    "stale": ("#5c4a12", "#ffe8a3"),
    "stale-foreground": ("#ffe9a8", "#4a3200"),
    "paused": ("#d2a8ff", "#6f3cc4"),
    "accent-text": ("#79b8ff", "#0b57b0"),
    "found": ("#ffd866", "#8a4600"),
    "guide": ("#4b5663", "#a3acb6"),
    "heading-background": ("#161b22", "#eaecef"),
    "gpu-bar": ("#3fa7a0", "#1f7a8c"),
    "gpu-bar-full": ("#d29922", "#b35900"),
    "gpu-track": ("#343e4a", "#c8d0d8"),
    "gpu-spark": ("#58a6ff", "#0b57b0"),
}
"""Variables of this console beside Textual's, with what a theme that leaves them out gets."""

STYLED_VARIABLES = (
    "text-muted",
    "foreground-muted",
    "block-cursor-foreground",
    "block-cursor-background",
    "block-cursor-blurred-foreground",
    "block-cursor-blurred-background",
    "border",
    "border-blurred",
    "footer-foreground",
    "footer-background",
    "footer-key-foreground",
    "footer-key-background",
    "footer-description-foreground",
    "footer-description-background",
    "input-cursor-background",
    "input-cursor-foreground",
    "input-selection-background",
    "button-foreground",
    "button-color-foreground",
    "scrollbar",
    "scrollbar-background",
)
"""Variables of Textual that a theme may set as well."""


def _colour(value: str) -> str:
    try:
        Color.parse(value)
    except ColorParseError:
        raise ValueError('expected a colour such as "#58a6ff"') from None
    return value


Colour = Annotated[str, AfterValidator(_colour)]


class ColourSettings(BaseModel):
    """The base colours of a theme, named as Textual names them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    primary: Colour
    secondary: Colour
    accent: Colour
    foreground: Colour
    background: Colour
    surface: Colour
    panel: Colour
    warning: Colour
    error: Colour
    success: Colour


class ThemeFile(BaseModel):
    """One TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    description: str = ""
    dark: bool
    colors: ColourSettings
    variables: dict[str, Colour] = {}

    def theme(self) -> Theme:
        """Return it for Textual, with every variable of our own filled in."""
        shade = 0 if self.dark else 1
        own = {name: pair[shade] for name, pair in OWN_VARIABLES.items()} | self.variables
        # Textual's own muted texts are the foreground at 60 %, which is too faint on a light surface.
        variables = {"text-muted": own["muted"], "foreground-muted": own["muted"]} | own
        return Theme(name=self.name, dark=self.dark, variables=variables, **self.colors.model_dump())


@dataclass(frozen=True, slots=True)
class LoadedTheme:
    """A theme that can be chosen."""

    theme: Theme
    description: str
    path: Path


@dataclass(frozen=True, slots=True)
class FailedTheme:
    """A file that is no theme, and why, in one sentence."""

    path: Path
    reason: str


def shipped_folder() -> Path:
    """Return the folder of the themes that come with the console: in the wheel, else in the source tree."""
    package = Path(__file__).parent
    packed = package / "_themes"
    return packed if packed.is_dir() else package.parent / "themes"


def user_folder() -> Path:
    """Return the folder of the operator's own themes."""
    return config_folder() / "themes"


def load_themes(*folders: Path) -> tuple[dict[str, LoadedTheme], list[FailedTheme]]:
    """Return the themes by name, shipped ones first, and the files that failed. A later one replaces its namesake."""
    loaded: dict[str, LoadedTheme] = {}
    failed: list[FailedTheme] = []
    for folder in folders or (shipped_folder(), user_folder()):
        for path in sorted(folder.glob("*.toml"), key=lambda path: (path.stem not in PLAIN_THEMES, path.stem)):
            try:
                found = load_theme(path)
            except SettingsError as error:
                failed.append(FailedTheme(path, str(error)))
            else:
                loaded[found.theme.name] = found
    return loaded, failed


def load_theme(path: Path) -> LoadedTheme:
    """Return the theme in ``path``.

    Raises:
        SettingsError: it is no theme; the sentence names the file and the key.
    """
    file = read_toml(path, ThemeFile)
    known = {*OWN_VARIABLES, *STYLED_VARIABLES}
    for name in file.variables:
        if name not in known:
            raise SettingsError(f'{path}: unknown key "variables.{name}"{did_you_mean(name, known)}')
    return LoadedTheme(file.theme(), file.description, path)


def choose_theme(loaded: Mapping[str, LoadedTheme], *wanted: str | None) -> tuple[str, list[str]]:
    """Return the first of ``wanted`` that there is, else a plain theme, and a sentence for each that there is not."""
    notices: list[str] = []
    for name in wanted:
        if name in loaded:
            return str(name), notices
        if name:
            notices.append(f'There is no theme "{name}"{did_you_mean(name, loaded)}')
    # Without any theme file the console still starts, in Textual's own colours.
    return next((name for name in PLAIN_THEMES if name in loaded), "textual-dark"), notices
