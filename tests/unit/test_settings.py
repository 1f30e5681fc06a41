"""The operator's config file, what the console remembers by itself, and the keymap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.app import ConsoleApp
from console.host.errors import SettingsError
from console.host.thresholds import Thresholds
from console.keymap import check_keymap, sections
from console.places import all_places
from console.remembered import Remembered, load_remembered, save_remembered
from console.settings import HostSettings, Settings, ThresholdSettings, config_folder, load_settings, state_folder


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text))
    return str(caught.value)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    settings = load_settings(
        written(
            tmp_path,
            """
            theme = "light"
            [hosts.gpu1]
            address = "root@10.0.0.7:2222"
            python = "/opt/py/bin/python3"
            identity_files = ["~/.ssh/id_gpu"]
            jump = "ops@bastion"
            disks = ["/", "/data"]
            interval_s = 2
            [thresholds]
            temperature_warn_c = 70
            [keymap]
            "process.kill" = "ctrl+k, F9"
            """,
        )
    )
    host = settings.hosts["gpu1"]
    assert (host.address, host.python, host.jump) == ("root@10.0.0.7:2222", "/opt/py/bin/python3", ("ops@bastion",))
    assert host.identity_files == (Path("~/.ssh/id_gpu").expanduser(),)
    assert (host.disks, host.interval_s) == (("/", "/data"), 2.0)
    assert settings.thresholds.limits().temperature_warn_c == 70.0
    assert settings.keymap == {"process.kill": "ctrl+k,F9"} and settings.theme == "light"


def test_no_file_means_defaults_and_xdg_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert load_settings() == Settings()
    assert config_folder() == tmp_path / "eagle3-console" and state_folder() == tmp_path / "s" / "eagle3-console"
    config_folder().mkdir()
    (config_folder() / "config.toml").write_text('theme = "light"')
    assert load_settings().theme == "light"
    with pytest.raises(SettingsError, match=r"missing\.toml cannot be read"):
        load_settings(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[hosts.gpu1]\nadress = "h"\n', ["config.toml", 'unknown key "hosts.gpu1.adress"', 'mean "address"?']),
        ('them = "dark"', ['unknown key "them"', 'mean "theme"?']),
        ("[thresholds]\ntemprature_warn_c = 1", ['"thresholds.temprature_warn_c"', 'mean "temperature_warn_c"?']),
        ("[hosts.gpu1]\npython = 'x'", ['the key "hosts.gpu1.address" is missing']),
        ("[hosts.gpu1]\naddress = 'a'\ninterval_s = 'fast'", ['"hosts.gpu1.interval_s"', "'fast'"]),
        ("[hosts.gpu1]\naddress = 'a b'", ['"hosts.gpu1.address"', "expected local"]),
        ("[hosts.gpu1]\naddress = '-oProxyCommand=x'", ['"hosts.gpu1.address"']),
        ("[hosts.gpu1]\naddress = 'a'\ndisks = ['data']", ["absolute paths"]),
        ("theme = [", ["config.toml is not valid TOML"]),
        ('[keymap]\n"process.kill" = "p,,"', ["expected a key"]),
        ("zzz = 1", ['unknown key "zzz"', "known are: hosts, keymap, theme, thresholds"]),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(tmp_path: Path, text: str, parts: list[str]) -> None:
    said = refusal(tmp_path, text)
    for part in parts:
        assert part in said
    assert "\n" not in said and "pydantic" not in said


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"theme = '\xff\xfe'")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings(path)


def test_thresholds_of_the_file_and_of_the_screens_are_the_same() -> None:
    assert ThresholdSettings().limits() == Thresholds()
    assert HostSettings(address="local").disks == ("/",)


def test_the_theme_is_remembered_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ui.json"
    assert load_remembered(path) == (Remembered(), "")
    save_remembered(Remembered(theme="light"), path)
    save_remembered(Remembered(theme="dark"), path)
    assert load_remembered(path) == (Remembered(theme="dark"), "")
    assert [p.name for p in path.parent.iterdir()] == ["ui.json"]


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"theme": 7}', b"\xff\xff", b""])
def test_a_broken_memory_is_ignored_with_a_notice(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ui.json"
    path.write_bytes(content)
    remembered, notice = load_remembered(path)
    assert remembered == Remembered() and str(path) in notice and "ignored" in notice


def test_what_a_later_version_remembers_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    path.write_text(json.dumps({"theme": "light", "from_the_future": {}}))
    assert load_remembered(path) == (Remembered(theme="light"), "")


def keymap_refusal(keymap: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        check_keymap(keymap, all_places(), (ConsoleApp,))
    return str(caught.value)


def test_a_keymap_must_name_a_binding_that_exists() -> None:
    said = keymap_refusal({"process.kil": "x"})
    assert '"process.kil"' in said and 'mean "process.kill"?' in said


@pytest.mark.parametrize(
    "keymap", [{"process.kill": "p"}, {"process.kill": "?"}, {"process.pause": "z", "view.sort": "z"}]
)
def test_a_key_never_gets_two_meanings(keymap: dict[str, str]) -> None:
    said = keymap_refusal(keymap)
    assert "would be both" in said and "Dashboard" in said


def test_keys_may_be_swapped_and_added() -> None:
    keymap = {"process.pause": "r", "process.resume": "p", "process.kill": "K,ctrl+k"}
    check_keymap(keymap, all_places(), (ConsoleApp,))
    lines = {line.id: line.keys for section in sections(all_places(), keymap) for line in section.lines}
    assert (lines["process.pause"], lines["process.kill"]) == (("r",), ("K", "ctrl+k"))


def test_the_keys_of_the_console_are_free_of_conflicts_and_explained() -> None:
    check_keymap({}, all_places(), (ConsoleApp,))
    for place in all_places():
        taken: dict[str, str] = {}
        for section in sections([place], {}):
            for line in section.lines:
                assert line.tooltip and line.id and line.description
                for key in line.keys:
                    assert taken.setdefault(key, line.id) == line.id
