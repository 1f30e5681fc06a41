"""known_hosts: matched as ssh-keygen and asyncssh match it, judged as ssh does, stored without a loss."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host import hostkeys
from console.host.errors import LinkRefused
from console.host.hostkeys import Verdict, look_up

BLOBS = [
    asyncssh.generate_private_key(kind).public_data for kind in ("ssh-ed25519", "ssh-ed25519", "ecdsa-sha2-nistp256")
]


def line(pattern: str, blob: bytes = BLOBS[0], marker: str = "") -> str:
    key = base64.b64encode(blob).decode("ascii")
    return f"{marker} {pattern} {hostkeys.algorithm_of(blob)} {key} a comment\n".lstrip()


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def verdict(known: Path, host: str, blob: bytes, port: int = 22, alias: str | None = None) -> Verdict:
    return look_up([known], host, port, alias).judge(blob)


def test_the_four_verdicts(known: Path) -> None:
    known.write_text(line("a") + line("b", BLOBS[1]) + line("*", BLOBS[2], "@revoked"))
    assert verdict(known, "a", BLOBS[0]) is Verdict.TRUSTED
    assert verdict(known, "A", BLOBS[0]) is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[1]) is Verdict.CHANGED
    assert verdict(known, "c", BLOBS[1]) is Verdict.UNKNOWN
    assert verdict(known, "a", BLOBS[2]) is Verdict.REVOKED
    assert verdict(known, "c", BLOBS[2]) is Verdict.REVOKED


def test_a_host_with_several_keys_may_present_any_of_them(known: Path) -> None:
    known.write_text(line("a") + line("a,b", BLOBS[2]))
    assert verdict(known, "a", BLOBS[0]) is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[2]) is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[1]) is Verdict.CHANGED


def test_an_entry_without_the_port_vouches_but_does_not_accuse(known: Path) -> None:
    known.write_text(line("a"))
    assert verdict(known, "a", BLOBS[0], port=2222) is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[1], port=2222) is Verdict.UNKNOWN
    known.write_text(line("a") + line("[a]:2222", BLOBS[2]))
    assert verdict(known, "a", BLOBS[0], port=2222) is Verdict.CHANGED
    known.write_text(line("a") + line("*", BLOBS[0], "@revoked"))
    assert verdict(known, "a", BLOBS[0], port=2222) is Verdict.REVOKED


def test_an_alias_is_the_only_name(known: Path) -> None:
    known.write_text(line("a") + line("alias", BLOBS[1]))
    assert verdict(known, "a", BLOBS[1], port=2222, alias="Alias") is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[0], port=2222, alias="alias") is Verdict.CHANGED


def test_an_authority_does_not_make_a_plain_key_changed(known: Path) -> None:
    known.write_text(line("*.corp", BLOBS[1], "@cert-authority"))
    assert verdict(known, "gpu1.corp", BLOBS[0]) is Verdict.UNKNOWN
    (authority,) = look_up([known], "gpu1.corp").of(hostkeys.AUTHORITY)
    assert asyncssh.import_public_key(authority.openssh).public_data == BLOBS[1]


def test_bad_lines_are_passed_over_and_counted_in_the_line_numbers(known: Path) -> None:
    short = base64.b64encode(b"\x00").decode()
    known.write_bytes(
        b"\xff\xfe\n# comment\n\nonly-one-field\n@unknown-marker a ssh-ed25519 AAAA\na ssh-ed25519 ***\n"
        + f"a ssh-rsa {base64.b64encode(BLOBS[0]).decode()}\na ssh-ed25519 {short}\n".encode()
        + line("a").encode()
    )
    found = look_up([known], "a")
    assert [key.line for key in found.keys] == [9]


def test_a_file_that_is_missing_is_empty_and_one_that_cannot_be_read_refuses(tmp_path: Path) -> None:
    assert look_up([tmp_path / "missing", tmp_path / "missing/below"], "a").keys == ()
    with pytest.raises(LinkRefused, match="cannot be read"):
        look_up([tmp_path], "a")


def test_a_changed_key_is_told_with_file_line_and_remedy(known: Path) -> None:
    known.write_text("\n" + line("[a]:2222", BLOBS[2]) + line("[a]:2222", BLOBS[1]))
    text = hostkeys.changed_text("gpu1 port 2222", BLOBS[0], look_up([known], "a", 2222))
    assert hostkeys.fingerprint(BLOBS[0]) in text
    assert hostkeys.fingerprint(BLOBS[1]) in text, "the old key of the same kind says more than another kind's"
    assert f"{known} line 3" in text
    assert f"ssh-keygen -f '{known}' -R '[a]:2222'" in text


NAMES = ["a", "gpu1.corp", "10.0.0.7", "::1", "xn--gpu", "gpu-1"]


@given(
    patterns=st.lists(
        st.builds(
            lambda negated, text: negated + text,
            st.sampled_from(["", "", "!"]),
            st.one_of(
                st.sampled_from(
                    [*NAMES, "[a]:2222", "[gpu1.corp]:22", "*", "gpu?.corp", "10.0.0.*", "[*]:2222", "[a]"]
                ),
                st.text(alphabet="a1.*?g-", min_size=1, max_size=5),
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    host=st.sampled_from(NAMES),
    port=st.sampled_from([22, 2222]),
)
def test_patterns_match_as_in_asyncssh(
    tmp_path_factory: pytest.TempPathFactory, patterns: list[str], host: str, port: int
) -> None:
    text = line(",".join(patterns))
    known = tmp_path_factory.getbasetemp() / f"patterns-{os.getpid()}"
    known.write_text(text)
    ours = [key.blob for key in look_up([known], host, port).of(hostkeys.HOST)]
    other = asyncssh.import_known_hosts(text).match(host, "", None if port == 22 else port)
    # asyncssh lists a line once for each of its names that is the host's.
    assert set(ours) == {key.public_data for key in other[0]}


def test_hashed_names_are_found_as_ssh_keygen_hashes_them(known: Path) -> None:
    assert shutil.which("ssh-keygen"), "These tests need OpenSSH: install the package openssh-client"
    known.write_text(line("a") + line("[a]:2222", BLOBS[1]) + line("gpu1.corp", BLOBS[2]))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "gpu1" not in known.read_text()
    assert verdict(known, "a", BLOBS[0]) is Verdict.TRUSTED
    assert verdict(known, "a", BLOBS[1], port=2222) is Verdict.TRUSTED
    assert verdict(known, "gpu1.corp", BLOBS[0]) is Verdict.CHANGED
    assert verdict(known, "other", BLOBS[0]) is Verdict.UNKNOWN
    known.write_text("|1|bad salt|bad hash ssh-ed25519 AAAA\n|2|x\n" + line("|1|!!|!!") + line("|1|AAAA"))
    assert verdict(known, "a", BLOBS[0]) is Verdict.UNKNOWN


def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    for blob in BLOBS:
        (tmp_path / "key.pub").write_text(line("", blob).strip())
        listing = subprocess.run(
            ["ssh-keygen", "-lf", tmp_path / "key.pub"], check=True, capture_output=True, text=True
        )
        assert listing.stdout.split()[1] == hostkeys.fingerprint(blob)


def test_a_stored_key_is_found_by_ssh_keygen_and_nothing_is_lost(tmp_path: Path) -> None:
    own = tmp_path / "state/eagle3-console/known_hosts"
    hostkeys.store(own, "[a]:2222", BLOBS[0])
    with own.open("a") as file:
        file.write("edited by hand, without a newline")
    own.chmod(0o644)
    hostkeys.store(own, "b", BLOBS[1])

    assert own.read_text().splitlines()[1] == "edited by hand, without a newline"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
    for name in ("[a]:2222", "b"):
        assert subprocess.run(["ssh-keygen", "-F", name, "-f", own], capture_output=True).returncode == 0
    assert verdict(own, "b", BLOBS[1]) is Verdict.TRUSTED


def test_consoles_that_store_at_the_same_time_do_not_tear_each_other(known: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: hostkeys.store(known, f"host-{n}", BLOBS[n % 3]), range(100)))
    assert all(verdict(known, f"host-{n}", BLOBS[n % 3]) is Verdict.TRUSTED for n in range(100))
    assert len(known.read_text().splitlines()) == 100


def test_a_key_that_cannot_be_stored_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkRefused, match=r"could not be stored in .*set `known_hosts`"):
        hostkeys.store(tmp_path / "file/known_hosts", "a", BLOBS[0])


@pytest.mark.parametrize("nothing", [[], ["none"], ["NONE"], ["/dev/null"], [""]])
def test_naming_no_file_leaves_the_default_files(nothing: list[str]) -> None:
    own = Path("/own")
    files = hostkeys.files_to_read(nothing, nothing, own)
    defaults = [Path(name).expanduser() for name in (*hostkeys.USER_FILES, *hostkeys.GLOBAL_FILES)]
    assert files == (*defaults, own)


def test_files_that_are_named_replace_the_default_ones_and_never_our_own() -> None:
    files = hostkeys.files_to_read(["/a", "/dev/null"], ["/b"], Path("/own"))
    assert files == (Path("/a"), Path("/b"), Path("/own"))
