"""The set-up of `./run`, on a stub of Python that records what is asked of pip: no network."""

import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from waiting import wait_until

from flashlab.config import parse_override
from flashlab.terminal.__main__ import for_snakemake

ROOT = Path(__file__).parent.parent
TOOLS = "sh env cat cksum dirname id uname grep mkdir rm mv cp cmp sleep chmod flock dpkg-query"

# Stands for the system's Python and for .venv's: real in `-c`, a stub in `-m`.
PYTHON = f"""#!/bin/sh
echo "$*" | head -n 1 >>"$CALLS"
case "$*" in
*"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python
    printf '%s\\n' '#!/bin/sh' 'echo snakemake; for a; do echo "<$a>"; done' >.venv/bin/snakemake
    chmod +x .venv/bin/snakemake ;;
*"-m pip"*) sleep "${{PIP_SECONDS:-0}}"
    while [ -e "${{PIP_HELD:-}}" ]; do sleep 0.02; done
    case "$*" in *"${{PIP_FAILS:-nothing}}"*) echo "pip: no" >&2; exit 1 ;; esac ;;
*"-m flashlab.plan.recording"*) shift 2; echo record; for a; do echo "<$a>"; done ;;
*"-m flashlab.terminal"*) shift 2; echo snakemake; for a; do echo "<$a>"; done ;;
*tests/programs.py) echo "${{LACKING:-}}" ;;
*"-m pytest"*) shift 2; echo pytest; for a; do echo "<$a>"; done; [ -z "${{TESTS_FAIL:-}}" ] ;;
*"-m flashlab"*) shift 2; echo flashlab; for a; do echo "<$a>"; done ;;
*sysconfig*) mkdir -p .venv/site && echo .venv/site ;;
*ctypes*) [ -e "$LIBRARIES" ] ;;
*"envs/install_flash_attn.py"*) [ "${{FLASH_ATTN:-}}" != fails ] ;;
*) exec '{sys.executable}' "$@" ;;
esac
"""


class Checkout:
    """A copy of `run` and `envs`, and a PATH with nothing on it but the tools that `run` needs."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "a folder"
        self.folder.mkdir()
        shutil.copy(ROOT / "run", self.folder)
        shutil.copytree(ROOT / "envs", self.folder / "envs")
        self.bin = tmp_path / "bin"
        self.bin.mkdir()
        for tool in [*TOOLS.split(), "head"]:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.stub("python3", PYTHON)
        self.libraries = tmp_path / "libraries"
        self.libraries.touch()
        self.calls_file = tmp_path / "calls"
        self.cwd = tmp_path
        self.env = {
            "PATH": str(self.bin),
            "CALLS": str(self.calls_file),
            "LIBRARIES": str(self.libraries),
        }

    def stub(self, name: str, text: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def start(self, *args: str, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self.folder / "run"), *args],
            cwd=self.cwd,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
        process = self.start(*args, **env)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def calls(self, what: str) -> list[str]:
        """The calls of Python since the last look that hold this text."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return [line for line in lines if what in line]

    @property
    def stamp(self) -> Path:
        return self.folder / ".venv" / "stamp"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help(checkout: Checkout, args: list[str]) -> None:
    done = checkout.run(*args)
    assert (done.returncode, done.stderr) == (0, "")
    assert "./run report" in done.stdout
    assert not (checkout.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["reprot"], ["./run report", "no such verb: reprot"]),
        (["record"], ["record wants a name, as in: ./run record h100"]),
        (["check"], ["./run check Flash2", "./run lint"]),
        (["selfcheck"], ["selfcheck wants a folder, as in: ./run selfcheck MY_FOLDER"]),
    ],
)
def test_what_is_not_understood_is_said_before_anything_is_set_up(
    checkout: Checkout, args: list[str], said: list[str]
) -> None:
    done = checkout.run(*args)
    assert done.returncode == 2
    assert all(text in done.stderr for text in said)
    assert not (checkout.folder / ".venv").exists()


SNAKEMAKE = ["--cores", "1", "--logger=flashlab", "report/lab5.pdf"]


@pytest.mark.parametrize(
    ("verb", "before"),
    [
        ("report", ["snakemake", *(f"<{word}>" for word in SNAKEMAKE)]),
        *(("record", ["record"]), ("test", ["pytest"]), ("check", ["flashlab", "<check>"])),
        ("clean", ["flashlab", "<clean>"]),
    ],
)
def test_arguments_go_through_unaltered(checkout: Checkout, verb: str, before: list[str]) -> None:
    args = ["--config", "author=A  B", "*", "$HOME", "", "it's"]
    done = checkout.run(verb, *args)
    assert done.stdout.splitlines() == [*before, *(f"<{arg}>" for arg in args)], done.stderr


@pytest.mark.parametrize("word", ["ladder", "ladder.pdf"])
def test_a_report_is_asked_for_by_its_name(checkout: Checkout, word: str) -> None:
    done = checkout.run("report", word, "-n")
    assert done.stdout.splitlines()[-2:] == ["<report/ladder.pdf>", "<-n>"], done.stderr


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (["--again"], ["--config", 'again="all"']),
        (["--again", "Flash2"], ["--config", 'again=["Flash2"]']),
        (
            ["report/lab5.html", "--again", "Flash2", 'b16 "n1024"', "--verbose"],
            ["report/lab5.html", "--verbose", "--config", r'again=["Flash2", "b16 \"n1024\""]'],
        ),
        (
            ["--again", "it's", "--config", "dataset=local", "author={name: A  B}", "-n"],
            ["-n", "--config", 'again=["it\'s"]', "dataset=local", "author={name: A  B}"],
        ),
        (
            ["--config", "a=b", "-n", "-C", "c=d", "--config=e=*", "report/lab5.html"],
            ["-n", "report/lab5.html", "--config", "a=b", "c=d", "e=*"],
        ),
        (["--report", "x.html"], ["--report", "x.html"]),
        (["--quick", "--config", "a=b"], ["--config", "quick=true", "a=b"]),
    ],
)
def test_again_and_every_config_become_one_config(words: list[str], after: list[str]) -> None:
    assert for_snakemake([*SNAKEMAKE, *words]) == [*SNAKEMAKE, *after]


def test_lint_runs_every_tool_and_fails_with_any_of_them(checkout: Checkout) -> None:
    checkout.run("test")
    for tool in ("ruff", "mypy", "snakefmt"):
        checkout.stub(tool, f'echo "{tool} $*"; [ {tool} != mypy ]')
    done = checkout.run("lint")
    assert done.returncode == 1
    assert done.stdout.split("\n")[:5] == [
        "ruff check",
        "ruff format --check",
        "snakefmt --check Snakefile workflow",
        "snakemake",
        "<--lint>",
    ]
    assert done.stdout.split("\n")[5:] == ["mypy ", ""]
    assert not list(checkout.folder.glob(".venv/mypy.*"))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("passed", [True, False])
def test_ci_lints_beside_the_tests_and_fails_with_either(
    checkout: Checkout, clean: bool, passed: bool
) -> None:
    shutil.copytree(ROOT / ".ci", checkout.folder / ".ci")
    for tool in ("snakefmt", "mypy"):
        checkout.stub(tool, "")
    checkout.stub("ruff", f"echo ruff; {'' if clean else 'false'}")
    done = subprocess.run(
        [str(checkout.folder / ".ci" / "run"), "-k", "syntax"],
        env=checkout.env | ({} if passed else {"TESTS_FAIL": "yes"}),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    ran = done.stdout.splitlines()
    assert "pytest" in ran
    assert ("ruff" in ran) == (not clean)  # what lint says, last
    assert (done.returncode == 0) == (clean and passed)


TESTS_PACKAGES = ["chromium", "munge"]


@pytest.mark.parametrize("root", [True, False])
def test_all_tests_have_their_programs_installed_or_say_how(checkout: Checkout, root: bool) -> None:
    checkout.stub("id", f"echo {0 if root else 1000}")
    checkout.stub("sudo", "exit 1")
    checkout.stub("apt-get", 'echo "apt-get $*" >>"$CALLS"')
    (checkout.bin / "true").symlink_to(shutil.which("true") or "/bin/true")
    done = checkout.run("test", "--all", "-k", "syntax", LACKING=" ".join(TESTS_PACKAGES))
    installs = [call for call in checkout.calls("") if " install " in call]
    executor = "install --upgrade --target .venv/slurm --no-deps -r .venv/requirements.slurm.txt"
    if root:
        assert done.stdout.splitlines() == ["pytest", "<-k>", "<syntax>"], done.stderr
        apt, pip = installs[-2:]
        assert apt.split()[-2:] == TESTS_PACKAGES and pip.endswith(executor)
        assert checkout.run("test", "--all").returncode == 0
        assert checkout.calls(" install ") == []
    else:
        assert done.returncode == 1 and "pytest" not in done.stdout
        assert done.stderr.endswith(f"    sudo apt-get install {' '.join(TESTS_PACKAGES)}\n")


def spent_on_children() -> float:
    """CPU seconds of the processes that have ended: whatever else runs, they are the same."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_second_call_adds_under_a_second(checkout: Checkout) -> None:
    assert checkout.run("test").returncode == 0
    assert len(checkout.calls("-m pip")) >= 1
    pth = checkout.folder / ".venv" / "site" / "flashlab.pth"
    assert pth.read_text().splitlines()[0] == str(checkout.folder / "workflow")
    before = spent_on_children()
    done = checkout.run("test")
    assert spent_on_children() - before < 1
    assert (done.returncode, done.stderr) == (0, "")
    assert checkout.calls("-m pip") + checkout.calls("-m venv") == []


def lock_changes(checkout: Checkout) -> None:
    with (checkout.folder / "envs/cpu/requirements.txt").open("a") as lock:
        lock.write("another==1.0\n")


def folder_moves(checkout: Checkout) -> None:
    checkout.folder = checkout.folder.rename(checkout.folder.parent / "elsewhere")


def python_goes(checkout: Checkout) -> None:
    (checkout.folder / ".venv/bin/python").unlink()


@pytest.mark.parametrize("change", [lock_changes, folder_moves, python_goes])
def test_set_up_again(checkout: Checkout, change: Callable[[Checkout], None]) -> None:
    checkout.run("test")
    checkout.calls("")
    change(checkout)
    assert checkout.run("test").returncode == 0
    assert len(checkout.calls("-m venv")) == 1
    assert checkout.run("test").stderr == ""


@pytest.mark.parametrize("step", ["torch==", "requirements.a-m.txt", "requirements.n-z.txt"])
def test_failed_step_is_named_and_repaired(checkout: Checkout, step: str) -> None:
    if step == "torch==" and sys.platform != "linux":
        pytest.skip("PyTorch's CPU index is for Linux")
    done = checkout.run("test", PIP_FAILS=step)
    assert done.returncode == 1 and "pip: no" in done.stderr
    named = "torch==" if step == "torch==" else "envs/cpu/requirements.txt"
    assert re.search(rf"run: installing {named}.* failed", done.stderr)
    assert not checkout.stamp.exists() and "pytest" not in done.stdout
    assert checkout.run("test").returncode == 0


def test_killed_set_up_repairs_itself(checkout: Checkout) -> None:
    held = checkout.folder.parent / "held"
    held.touch()
    killed = checkout.start("test", PIP_HELD=str(held))
    wait_until((checkout.folder / ".venv/bin/python").exists, "the start of a set-up")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not checkout.stamp.exists()
    held.unlink()  # a pip that outlives the call is waited for
    assert checkout.run("test").returncode == 0
    assert checkout.stamp.exists()
    assert len(checkout.calls("-m venv")) == 2
    killed.communicate()


def test_two_at_once_set_up_once(checkout: Checkout) -> None:
    both = [checkout.start("test", PIP_SECONDS="0.3") for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert len(checkout.calls("-m venv")) == 1


def test_libraries_lacking_without_apt(checkout: Checkout) -> None:
    checkout.libraries.unlink()
    checkout.stub("uname", "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac")
    done = checkout.run("report")
    assert done.returncode == 1
    assert "Pango" in done.stderr and "dnf install" in done.stderr
    assert not (checkout.folder / ".venv").exists()


def test_packages_lacking_without_root(checkout: Checkout) -> None:
    checkout.libraries.unlink()
    checkout.stub("apt-get", "echo called >&2; exit 1")
    checkout.stub("dpkg-query", "exit 1")
    checkout.stub("id", "echo 1000")
    done = checkout.run("report")
    assert done.returncode == 1
    assert "called" not in done.stderr
    packages = "python3-venv libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
    assert done.stderr.endswith(f"    sudo apt-get install {packages}\n")


@pytest.mark.parametrize("root", [True, False], ids=["root", "sudo"])
def test_apt_installs_what_is_lacking(checkout: Checkout, root: bool) -> None:
    checkout.libraries.unlink()
    checkout.stub("id", f"echo {0 if root else 1000}")
    checkout.stub("sudo", '[ "$1" = -n ] || exit 9; shift; exec "$@"' if not root else "exit 9")
    (checkout.bin / "true").symlink_to(shutil.which("true") or "/bin/true")
    checkout.stub(
        "dpkg-query", 'case "$*" in *python3-venv) echo "install ok installed" ;; *) exit 1 ;; esac'
    )
    checkout.stub("touch", ': >"$1"')
    checkout.stub(
        "apt-get",
        'echo "apt-get $*" >>"$CALLS"; case "$*" in *libpango-1*) touch "$LIBRARIES" ;; esac',
    )
    done = checkout.run("test")
    assert done.returncode == 0, done.stderr
    (install,) = [call for call in checkout.calls("apt-get") if " install " in call]
    assert install.split()[-3:] == ["libpango-1.0-0", "libpangoft2-1.0-0", "libharfbuzz-subset0"]
    assert "python3-venv" not in install


def test_no_python(checkout: Checkout) -> None:
    checkout.stub("python3", "exit 1")
    done = checkout.run("test")
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr


def nvidia(checkout: Checkout) -> None:
    checkout.stub("uname", "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac")
    checkout.stub("nvidia-smi", "echo 'GPU 0: NVIDIA H200'")


def test_driver_takes_the_cuda_lock(checkout: Checkout) -> None:
    nvidia(checkout)
    assert checkout.run("test").returncode == 0
    pip = checkout.calls("-m pip")
    lock = (checkout.folder / ".venv/requirements.txt").read_text()
    assert "nvidia-cublas==" in lock and "torch==" in lock
    assert not any("download.pytorch.org" in call for call in pip)
    # A node without a GPU that shares the folder takes it as it is
    (checkout.bin / "nvidia-smi").unlink()
    assert checkout.run("test").stderr == ""


def test_flash_attn_failure_is_a_warning(checkout: Checkout) -> None:
    nvidia(checkout)
    done = checkout.run("test", FLASH_ATTN="fails")
    assert done.returncode == 0
    assert "PyTorch's own FlashAttention-2 kernel" in done.stderr
    assert checkout.calls("flash_attn.py") == ["-I envs/install_flash_attn.py"]


@pytest.mark.parametrize(
    ("asked", "called"), [("no", []), ("build", ["-I envs/install_flash_attn.py build"])]
)
def test_flash_attn_is_left_out_or_compiled_on_request(
    checkout: Checkout, asked: str, called: list[str]
) -> None:
    nvidia(checkout)
    assert checkout.run("test", FLASHLAB_FLASH_ATTN=asked).returncode == 0
    assert checkout.calls("flash_attn.py") == called


@pytest.mark.parametrize("name", ["FLASHLAB_FLASH_ATTN", "FLASHLAB_TORCH"])
def test_a_word_that_is_not_understood_is_refused(checkout: Checkout, name: str) -> None:
    done = checkout.run("test", **{name: "yes"})
    assert done.returncode == 2 and name in done.stderr
    assert not (checkout.folder / ".venv").exists()


def system_torch(checkout: Checkout, version: str, cuda: str | None) -> Path:
    """Give the system's Python a PyTorch: the file that says which, and no other."""
    packages = checkout.folder.parent / "site-packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "__init__.py").write_text("raise AssertionError('imported')")
    (packages / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    script = checkout.folder / "envs" / "system_torch.py"
    script.write_text(
        f"import sys\nsys.path = [{str(packages)!r}, *sys.path]\n{script.read_text()}"
    )
    return packages


def test_system_torch_is_built_on_where_it_is_asked_for(checkout: Checkout) -> None:
    nvidia(checkout)
    packages = system_torch(checkout, "2.11.0+cu130", "13.0")
    done = checkout.run("test", FLASHLAB_TORCH="system")
    assert done.returncode == 0, done.stderr
    pth = (checkout.folder / ".venv/site/flashlab.pth").read_text().splitlines()
    assert pth[:2] == [str(checkout.folder / "workflow"), str(packages)]
    installed = (checkout.folder / ".venv/requirements.txt").read_text()
    assert not re.search(
        "^(torch|triton|nvidia-cublas|nvidia-cudnn-cu13)==", installed, re.MULTILINE
    )
    assert re.search("^nvidia-nvvm==", installed, re.MULTILINE)
    # It stays, until something else is asked for
    assert checkout.run("test").stderr == ""


def test_system_torch_is_mentioned(checkout: Checkout) -> None:
    nvidia(checkout)
    system_torch(checkout, "2.11.0+cu130", "13.0")
    done = checkout.run("report")
    assert "FLASHLAB_TORCH=system ./run report builds on it" in done.stderr
    assert "torch==" in (checkout.folder / ".venv/requirements.txt").read_text()


@pytest.mark.parametrize(
    ("version", "cuda", "why"),
    [
        ("2.7.1+cu126", "12.6", "PyTorch 2.9 or newer is needed, this is 2.7.1+cu126"),
        ("2.13.0+cpu", None, "is built without CUDA"),
    ],
)
def test_system_torch_that_does_not_serve(
    checkout: Checkout, version: str, cuda: str | None, why: str
) -> None:
    nvidia(checkout)
    system_torch(checkout, version, cuda)
    refused = checkout.run("test", FLASHLAB_TORCH="system")
    assert refused.returncode == 1 and why in refused.stderr
    assert not (checkout.folder / ".venv").exists()
    done = checkout.run("test")
    assert done.returncode == 0 and why in done.stderr


DEV = "-r .venv/requirements.dev.txt"


def test_only_tests_and_linters_bring_the_development_packages(checkout: Checkout) -> None:
    checkout.run("check", "Flash2")
    assert not checkout.calls(DEV)
    checkout.run("test")
    assert len(checkout.calls(DEV)) == 1
    assert checkout.run("lint").returncode and not checkout.calls(DEV)


def test_mac_looks_where_homebrew_puts_its_libraries(checkout: Checkout) -> None:
    checkout.libraries.unlink()
    checkout.stub("uname", "case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac")
    checkout.stub("brew", '[ "$1" = --prefix ] && echo /brew || : >"$LIBRARIES"')
    done = checkout.run("test")
    assert done.returncode == 0, done.stderr
    pth = (checkout.folder / ".venv/site/flashlab.pth").read_text()
    assert "'DYLD_FALLBACK_LIBRARY_PATH', '/brew/lib:" in pth
    assert not any("download.pytorch.org" in call for call in checkout.calls("-m pip"))


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_script_parses(shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n", "run"], cwd=ROOT, check=True)


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / "envs" / lock).read_text().splitlines()
    wanted = [line for line in lines if not line.lstrip().startswith(("#", "-r"))]
    assert all(re.match(r"[a-z0-9-]+==\S+( ; |$)", line) for line in wanted)
    return dict(line.split(" ; ")[0].split("==") for line in wanted)


def test_locks_pin_all_direct_dependencies() -> None:
    locked = {}
    for variant in ["cpu", "cuda", "dev"]:
        locked |= pins(f"{variant}/requirements.txt")
        text = (ROOT / f"envs/{variant}/requirements.in").read_text()
        assert set(re.findall(r"^[a-z][a-z0-9-]*", text, re.MULTILINE)) <= locked.keys()


def test_cpu_lock_draws_in_no_cuda_library() -> None:
    # Small ones, which numba's simulator needs.
    needed = {"nvidia-ml-py", "cuda-bindings", "cuda-core", "cuda-pathfinder"}
    names = pins("cpu/requirements.txt").keys() - needed
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]


@pytest.mark.parametrize("lock", ["cuda/requirements.txt", "dev/requirements.txt"])
def test_the_other_locks_add_to_the_cpu_lock(lock: str) -> None:
    both = pins("cpu/requirements.txt").items() | pins(lock).items()
    assert len({name for name, _ in both}) == len(both)  # one version each
    assert "\n-r ../cpu/requirements.txt\n" in (ROOT / "envs" / lock).read_text()


def test_conda_environment_has_the_pins_of_the_cpu_lock_in_itself() -> None:
    """Snakemake gives conda a copy of the file in another folder, where an `-r` leads nowhere."""
    environment = yaml.safe_load((ROOT / "envs/flashlab.yaml").read_text())
    lines = (ROOT / "envs/cpu/requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.lstrip().startswith("#")]
    assert environment["dependencies"][-1] == {"pip": pinned}, "call envs/lock"


def test_a_folder_to_import_is_that_of_where_run_was_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """./run changes to the project's folder; the configuration names the other from there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHLAB_CALLED_IN", str(tmp_path / "home"))
    words = ["--import", "my 結果", "--device", "NVIDIA GeForce RTX 3070"]
    _, *given = for_snakemake(words)
    assert [parse_override(word) for word in given] == [
        {"import": "home/my 結果"},
        {"device_name": "NVIDIA GeForce RTX 3070"},
    ]
