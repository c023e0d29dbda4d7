"""Files are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from asc_sched.errors import AscSchedError, StorageError
from asc_sched.files import TEMP_SUFFIX, atomic_file, create, is_disk_full, remove_stale_temps, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_written_and_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    for data in ("eins\r\n", "昇腾", b"\x00\xff", ""):
        write_atomic(target, data)
        assert target.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert names(tmp_path) == ["a.txt"]


def test_error_or_interrupt_inside_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, "old")
    for error in (ValueError("no"), KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(error)), atomic_file(target) as file:
            file.write(b"new")
            raise error
    assert target.read_text() == "old" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_error_of_the_system_at_any_step_leaves_the_old_file_and_no_other(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    said = rf"can't write {target}: No space left on device \(ENOSPC\); \d+ bytes"
    with pytest.raises(StorageError, match=said), atomic_file(target) as file:
        if step == "write":
            full()
        file.write(b"new")
        monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], full)
    monkeypatch.undo()
    assert target.read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_a_new_file_is_written_where_nothing_is_and_nowhere_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    assert create(target, b"new" * 1000) and target.read_bytes() == b"new" * 1000
    assert not create(target, b"newer") and target.read_bytes() == b"new" * 1000
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert not create(tmp_path / "link", b"new")
    assert not create(tmp_path / "none" / "a.txt", b"new")
    assert names(tmp_path) == ["a.txt", "link"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_new_file_that_the_disk_has_no_room_for_is_taken_away_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, real = tmp_path / "a.txt", os.open

    def full(path: object, flags: int, *mode: int) -> int:
        os.close(real(path, flags, *mode))  # type: ignore[call-overload]
        return real("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StorageError, match=rf"can't write {target}: No space left on device \(ENOSPC\)"):
        create(target, b"new")
    assert names(tmp_path) == []


def test_file_is_on_disk_before_it_takes_the_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    real_sync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append(("sync", os.fstat(fd).st_ino)) or real_sync(fd))
    monkeypatch.setattr(Path, "replace", lambda self, to: steps.append(("name", 0)) or real_replace(self, to))
    write_atomic(tmp_path / "a", "x")
    inode, folder = (tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino
    assert steps == [("sync", inode), ("name", 0), ("sync", folder)]
    steps.clear()
    write_atomic(tmp_path / "a", "x", durable=False)
    assert steps == [("name", 0)]


def test_file_system_without_sync_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", unable)
    write_atomic(tmp_path / "a", "x")
    assert (tmp_path / "a").read_text() == "x"


def test_permissions_are_the_usual_ones_and_kept_on_replacing(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", "x")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
        (tmp_path / "a").chmod(0o755)
        write_atomic(tmp_path / "a", "y")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(old)


def test_link_in_the_targets_place_is_replaced_and_what_it_points_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "a").symlink_to(tmp_path / "precious")
    write_atomic(tmp_path / "a", "x")
    assert (tmp_path / "precious").read_text() == "keep"
    assert not (tmp_path / "a").is_symlink() and (tmp_path / "a").read_text() == "x"


def test_longest_name_that_the_file_system_takes_can_be_written_and_a_longer_one_is_told(tmp_path: Path) -> None:
    name = "昇" * 85  # 255 bytes
    write_atomic(tmp_path / name, "x")
    assert (tmp_path / name).read_text() == "x"
    with pytest.raises(StorageError, match=r"\(ENAMETOOLONG\); the name has 258 bytes, most file systems take 255"):
        write_atomic(tmp_path / (name + "昇"), "x")
    assert len(names(tmp_path)) == 1


def test_errors_of_the_system_are_told_with_path_and_reason(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"can't write .*/folder: Is a directory \(EISDIR\)"):
        write_atomic(tmp_path / "folder", "x")
    with pytest.raises(AscSchedError, match=r"No such file or directory \(ENOENT\)") as caught:
        write_atomic(tmp_path / "no" / "a", "x")
    assert isinstance(caught.value, OSError) and caught.value.errno == errno.ENOENT
    assert not is_disk_full(caught.value) and not is_disk_full(ValueError())
    assert names(tmp_path) == ["folder"]


def test_only_old_temporary_files_of_ours_are_cleaned_up(tmp_path: Path) -> None:
    for name in (f".old{TEMP_SUFFIX}", f".new{TEMP_SUFFIX}", "old.txt"):
        (tmp_path / name).write_text("x")
        if "old" in name:
            os.utime(tmp_path / name, (1, 1))
    assert remove_stale_temps(tmp_path) == 1
    assert names(tmp_path) == [f".new{TEMP_SUFFIX}", "old.txt"]
    assert remove_stale_temps(tmp_path / "missing") == 0
