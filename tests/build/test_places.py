"""Odd and hostile places: read-only, foreign, missing, full, and strangely named folders."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asc_sched import files, paths
from asc_sched.build import Cache, LoweringPool, lower, lower_file
from asc_sched.build.cache import default_cache
from asc_sched.files import write_atomic
from asc_sched.paths import cache_dir, open_folder
from tests.build import kernels
from tests.build.kernels import F32, I32, exp_request, nth
from tests.build.processes import ROOT, python

NOBODY = 65534
KEY, OTHER = "ab" * 32, "cd" * 32
TEXTS = {"asc_ir": "module {\n}\n", "ascendc": "// text\n"}


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="asc_sched-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def as_nobody(code: str, first: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program that becomes a real other user (for good) once it has been loaded and has run `first`."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    # This Python and this checkout may lie where the other user can't go, so all modules are loaded before.
    become = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); os.umask(0o022)\n"
    load = "import platformdirs, pwd, asc_sched.build.api; platformdirs.user_cache_dir('x')\n"
    command = [sys.executable, "-c", load + first + become + code]
    full = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | env
    return subprocess.run(command, env=full, cwd="/", capture_output=True, text=True, timeout=60, check=False)


USE_CACHE = f"""
from asc_sched.build.cache import default_cache
cache = default_cache()
print(cache.get({KEY!r}))
for _ in range(3):
    cache.put({OTHER!r}, {TEXTS!r})
print(cache.get({OTHER!r}) == {TEXTS!r})
"""


def filled(folder: Path) -> Path:
    Cache(open_folder(folder / "lower")).put(KEY, TEXTS)
    return folder


def give_to_nobody(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


# -- read-only and foreign -------------------------------------------------------------------------------------
def test_read_only_filled_cache_gives_hits_and_warns_once_when_written(public: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    folder = filled(public / "cache")
    give_to_nobody(folder)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir())):
        path.chmod(0o555)
    done = as_nobody(USE_CACHE, ASC_SCHED_CACHE_DIR=str(folder))
    assert done.stdout.splitlines() == [str(TEXTS), "True"], done.stderr
    assert done.stderr.count("\n") == 1 and "is read-only for this user" in done.stderr
    assert sum(p.is_file() for p in folder.rglob("*")) == 2


def test_cache_filled_by_root_for_all_is_read_by_others(public: Path) -> None:
    folder = filled(public / "cache")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    done = as_nobody(USE_CACHE, ASC_SCHED_CACHE_DIR=str(folder))
    assert done.stdout.splitlines() == [str(TEXTS), "True"], done.stderr


def test_folder_of_another_user_is_neither_read_nor_written(public: Path, caplog: pytest.LogCaptureFixture) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    folder = filled(public / "cache") / "lower"
    give_to_nobody(folder)
    opened = open_folder(folder)
    assert (opened.path, opened.writable) == (None, False)
    assert opened.problem == f"{folder} belongs to user {NOBODY}, not to this user (0)"
    cache = Cache(opened)
    Cache(opened)
    assert cache.get(KEY) is None
    cache.put(OTHER, TEXTS)
    assert cache.get(OTHER) == TEXTS
    assert len(caplog.records) == 1 and "kept in memory only" in caplog.text
    assert not list(folder.glob("cd/*"))


def test_link_planted_by_another_user_is_not_followed(public: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    target = public / "mine"
    target.mkdir(mode=0o700)
    link = public / "cache"
    link.symlink_to(target)
    os.lchown(link, NOBODY, NOBODY)
    assert "belongs to user 65534" in open_folder(link).problem
    os.lchown(link, 0, 0)
    assert open_folder(link).path == link


def test_own_folder_that_others_may_write_to_is_closed_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    folder.chmod(0o777)
    assert open_folder(folder).writable
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    assert open_folder(folder).problem == f"{folder} can be written to by others (mode 777)"


def test_file_system_that_refuses_writing_leaves_hits_and_one_warning(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(KEY, TEXTS)
    real = os.open

    def read_only(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system", path)
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", read_only)
    assert cache.get(KEY) == TEXTS
    for _ in range(3):
        cache.put(OTHER, TEXTS)
    assert cache.get(OTHER) == TEXTS
    assert len(caplog.records) == 1 and "Read-only file system (EROFS)" in caplog.text


# -- missing and wrong -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["file", "dangling link", "file above", "dangling link above", "device"])
def test_something_else_where_the_folder_should_be_means_memory_and_one_warning(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "place"
    if what.startswith("file"):
        place.write_text("mine")
    elif what == "device":
        place = Path("/dev/null")
    else:
        place.symlink_to(tmp_path / "nowhere" / "at all")
    if what.endswith("above"):
        monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(place / "cache"))
    else:
        monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(paths, "open_folder", lambda path: open_folder(place))
    assert not lower(nth(1)).cached
    assert lower(nth(1)).cached  # in memory
    assert len(caplog.records) == 1 and str(place) in caplog.text
    assert "is not a folder" in caplog.text or "is a dangling symbolic link" in caplog.text
    assert not what.startswith("file") or place.read_text() == "mine"


def test_user_without_home_works_in_memory_and_makes_no_folder_named_tilde(public: Path) -> None:
    code = USE_CACHE + "import os; print(os.path.exists('~'), cache.folder)"
    done = as_nobody("import os; os.chdir('/tmp')\n" + code, HOME="/no/such/home")
    assert done.stdout.splitlines() == ["None", "True", "False None"], done.stderr
    assert "/no/such/home/.cache/asc_sched/lower can't be made: Permission denied" in done.stderr
    unknown = "import os, pwd; os.environ.pop('HOME', None); pwd.getpwuid = {}.__getitem__\n"
    done = python(unknown + USE_CACHE + "print(cache.folder)", cwd=public, env={"ASC_SCHED_CACHE_DIR": ""})
    assert done.stdout.splitlines() == ["None", "True", "None"], done.stderr
    assert "no home folder; set ASC_SCHED_CACHE_DIR" in done.stderr
    assert list(public.iterdir()) == []


def test_default_folder_is_per_user_and_follows_the_xdg_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASC_SCHED_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "one"))
    assert cache_dir("lower").path == tmp_path / "one" / ".cache" / "asc_sched" / "lower"
    first = default_cache()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    assert cache_dir("lower").path == tmp_path / "two" / "asc_sched" / "lower"
    assert default_cache() is not first and default_cache() is default_cache()


def test_relative_folder_in_the_environment_is_taken_from_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", "here")
    assert cache_dir("lower").path == tmp_path / "here" / "lower"


def test_works_where_the_current_folder_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd())\nfrom tests.build.kernels import nth; from asc_sched.build import lower\n"
    code += "print(lower(nth(1)).cached, lower(nth(1)).cached)"
    for place in (str(tmp_path / "c"), "relative"):
        gone.mkdir(exist_ok=True)
        paths = os.pathsep.join([str(ROOT), "elsewhere"])
        done = python(code, cwd=gone, env={"ASC_SCHED_CACHE_DIR": place, "PYTHONPATH": paths})
        assert done.stdout.split() == ["False", "True"], done.stderr
        assert ("is relative to a folder that is gone" in done.stderr) == (place == "relative")


def test_another_user_lowers_a_kernel_in_a_place_of_his_own(public: Path) -> None:
    home = public / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    start = "from tests.build.kernels import *; from asc_sched.build import *; lower(nth(0), cache=None)\n"
    code = "print(len(lower(exp_request()).ascendc), lower(exp_request()).cached)"
    done = as_nobody(code, start + "pyasc_version()\n", HOME=str(home))
    assert done.stdout.split()[1:] == ["True"], done.stderr
    assert (home / ".cache" / "asc_sched" / "lower").stat().st_uid == NOBODY


# -- strange names ---------------------------------------------------------------------------------------------
def test_spaces_quotes_and_foreign_letters_in_every_path_under_the_c_locale(tmp_path: Path) -> None:
    odd = tmp_path / "my dir" / "昇腾 élan'$x;&\"\\ \n"
    odd.mkdir(parents=True)
    (odd / "k ernel.py").write_text(kernels.EXP)
    shutil.copytree(ROOT / "asc_sched", odd / "site" / "asc_sched", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import sys
sys.path.insert(0, {str(odd / "site")!a})
import asc_sched
assert "my dir" in asc_sched.__file__
from asc_sched.build import *
F32, I32 = ArgType("pointer", "float32"), ArgType("scalar", "int32")
request = LowerRequest(source={kernels.EXP!r}, entry="exp_kernel", arg_types=(F32, F32, I32))
first, second = lower(request), lower(request)
assert (first.cached, second.cached) == (False, True) and first == second
assert lower_file("k ernel.py", "exp_kernel", (F32, F32, I32)).ascendc == first.ascendc
print("ok")
"""
    env = {
        "HOME": str(odd),
        "ASC_SCHED_CACHE_DIR": str(odd / "cache"),
        "TMPDIR": str(odd),
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONPATH": "",
    }
    done = python(code, cwd=odd, env=env)
    assert done.stdout == "ok\n", done.stderr
    assert len(list((odd / "cache").rglob("*.txt"))) == 1


def test_path_that_is_no_unicode_is_lowered_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    folder.mkdir()
    (folder / "k.py").write_text(kernels.EXP)
    monkeypatch.setenv("ASC_SCHED_CACHE_DIR", str(folder / "cache"))
    assert "AscendC::Exp" in lower_file(folder / "k.py", "exp_kernel", (F32, F32, I32)).ascendc
    lower(exp_request())
    assert lower(exp_request()).cached


# -- full disks ------------------------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_full_cache_disk_only_warns_and_every_kernel_still_comes_out(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(open_folder(small_disk / "cache"))
    with LoweringPool(1) as pool:
        from asc_sched.build import lower_many
        from asc_sched.build.request import Lowered

        (small_disk / "ballast").write_bytes(b"x" * 900_000)
        results = list(lower_many((nth(i) for i in range(80)), cache=cache, pool=pool))
    assert all(isinstance(result, Lowered) for result in results)
    assert len(caplog.records) == 1
    assert "No space left on device (ENOSPC)" in caplog.text and "bytes are free there" in caplog.text
    assert str(small_disk) in caplog.text
    again = Cache(open_folder(small_disk / "cache"))
    kept = [again.get(nth(i).key("1.1.1")) for i in range(80)]
    assert 0 < sum(entry is not None for entry in kept) < 80
    assert len(caplog.records) == 1  # nothing half-written
    assert not list(small_disk.rglob(f"*{files.TEMP_SUFFIX}"))
    (small_disk / "ballast").unlink()
    for index in range(80):
        lower(nth(index), cache=again)
    assert all(again.get(nth(i).key("1.1.1")) for i in range(80)) and not again._memory


def test_full_disk_keeps_the_old_file_and_names_path_reason_and_free_space(small_disk: Path) -> None:
    target = small_disk / "result.json"
    write_atomic(target, "old")
    with pytest.raises(files.StorageError) as caught:
        write_atomic(target, b"x" * 2_000_000)
    assert caught.value.errno == errno.ENOSPC and files.is_disk_full(caught.value)
    assert str(caught.value).startswith(f"can't write {target}: No space left on device (ENOSPC); ")
    assert target.read_text() == "old" and list(small_disk.iterdir()) == [target]


def test_quota_on_file_size_keeps_the_old_file_and_is_told(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    code = f"""
import resource, signal
from asc_sched.files import write_atomic, is_disk_full
from asc_sched.errors import AscSchedError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
write_atomic({str(target)!r}, "old")
try:
    write_atomic({str(target)!r}, b"x" * 20_000)
except AscSchedError as err:
    print(is_disk_full(err), err)
"""
    assert resource.RLIMIT_FSIZE is not None
    done = python(code)
    assert done.stdout.startswith(f"True can't write {target}: File too large (EFBIG); "), done.stderr
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["result.json"]
