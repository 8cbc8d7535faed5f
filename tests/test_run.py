"""The set-up of `./run`, on a stub of Python that records what is asked of pip: no network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from waiting import wait_until

from flashlab.config import ConfigError

ROOT = Path(__file__).parent.parent
TOOLS = (
    "sh env cat cksum dirname id uname grep mkdir rm mv cp cmp sleep chmod flock dpkg-query head "
    "true touch"
)

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
*"-m flashlab.plan.freezing"*) shift 3; echo record; for a; do echo "<$a>"; done ;;
*"-m flashlab.terminal"*) shift 3; echo snakemake; for a; do echo "<$a>"; done
    echo "cache: $XDG_CACHE_HOME" >>"$CALLS" ;;
*tests/programs.py) echo "${{LACKING:-}}" ;;
*"-m pytest"*) shift 3; echo pytest; for a; do echo "<$a>"; done; [ -z "${{TESTS_FAIL:-}}" ] ;;
*"-m flashlab"*) shift 3; echo flashlab; for a; do echo "<$a>"; done ;;
*sysconfig*) mkdir -p .venv/site && echo .venv/site ;;
*ctypes*) [ -e "$LIBRARIES" ] ;;
*"envs/install_flash_attn.py"*) [ "${{FLASH_ATTN:-}}" != fails ] ;;
*) exec '{sys.executable}' "$@" ;;
esac
"""


class Checkout:
    """A copy of `run` and `envs`, and a PATH with nothing on it but the tools that `run` needs."""

    def __init__(self, cwd: Path) -> None:
        self.cwd, self.folder, self.bin = cwd, cwd / "a folder", cwd / "bin"
        self.libraries, self.called = cwd / "libraries", cwd / "calls"
        self.env = {"PATH": self.bin, "CALLS": self.called, "LIBRARIES": self.libraries}
        shutil.copytree(ROOT / "envs", self.folder / "envs")
        shutil.copy(ROOT / "run", self.folder)
        self.bin.mkdir()
        for tool in filter(shutil.which, TOOLS.split()):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.stub(python3=PYTHON)
        self.libraries.touch()

    def stub(self, **programs: str) -> None:
        for name, text in programs.items():
            path = self.bin / name.replace("_", "-")
            path.unlink(missing_ok=True)
            path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def start(self, *words: str, **given: str) -> subprocess.Popen[str]:
        """Start `run` where these programs are stubs, and these names in capitals variables."""
        self.stub(**{name: text for name, text in given.items() if not name.isupper()})
        env = self.env | {name: text for name, text in given.items() if name.isupper()}
        files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [self.folder / "run", *words]
        return subprocess.Popen(command, cwd=self.cwd, env=env, text=True, **files)

    def run(self, *words: str, **given: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **given)
        output = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, *output)

    def calls(self, what: str) -> list[str]:
        """The calls of Python since the last look that hold this text."""
        lines = self.called.read_text().splitlines() if self.called.exists() else []
        self.called.unlink(missing_ok=True)
        return [line for line in lines if what in line]

    def pins(self) -> str:
        """What is installed as the environment's packages."""
        return "".join(each.read_text() for each in self.folder.glob(".venv/requirements.[01].txt"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


LINUX = {"uname": "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac"}
NVIDIA = {**LINUX, "nvidia_smi": "echo 'GPU 0: NVIDIA H200'"}
LACKING = "python3-venv libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
DEBIAN = {"apt_get": "echo called >&2", "dpkg_query": "exit 1", "id": "echo 1000"}


@pytest.mark.parametrize(
    ("words", "given", "status", "said"),
    [
        ("--help", {}, 0, "./run report"),
        ("reprot", {}, 2, "no such verb: reprot"),
        ("check", {}, 2, r"./run check Flash2 \(lint, formatting and types: ./run lint\)"),
        ("selfcheck", {}, 2, "selfcheck wants a folder, as in: ./run selfcheck MY_FOLDER"),
        ("test", {"FLASHLAB_TORCH": "yes"}, 2, "FLASHLAB_TORCH is system, or not set"),
        ("report", LINUX, 1, r"Pango, .* cannot load them(.|\n)*dnf install"),
        ("report", DEBIAN, 1, rf"^run: these system .*(.|\n)* sudo apt-get install {LACKING}\n$"),
        ("report", {"python3": "exit 1"}, 1, "Python 3.11 or newer .* none was found"),
    ],
)
def test_what_is_not_understood_or_lacking_is_said_before_anything_is_set_up(
    checkout: Checkout, words: str, given: dict[str, str], status: int, said: str
) -> None:
    checkout.libraries.unlink()
    done = checkout.run(*words.split(), **given)
    assert done.returncode == status
    assert re.search(said, done.stderr if status else done.stdout), done.stderr
    assert not (checkout.folder / ".venv").exists()


SNAKEMAKE = ["--cores", "1", "--logger=flashlab", "report/lab5.pdf"]
ODD = ["--config", "author=A  B", "*", "$HOME", "", "it's"]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["report", *ODD], ["snakemake", *SNAKEMAKE, *ODD]),
        (["report", "ladder", "-n"], ["snakemake", *SNAKEMAKE[:3], "report/ladder.pdf", "-n"]),
        (["report", "lab5.html"], ["snakemake", *SNAKEMAKE, "report/lab5.html"]),
        (["record", *ODD], ["record", *ODD]),
        (["clean", *ODD], ["flashlab", "clean", *ODD]),
    ],
)
def test_arguments_pass_unaltered(checkout: Checkout, words: list[str], printed: list[str]) -> None:
    done = checkout.run(*words)
    what, *arguments = printed
    assert done.stdout.splitlines() == [what, *(f"<{word}>" for word in arguments)], done.stderr


def test_snakemake_needs_no_home_that_can_be_written(checkout: Checkout) -> None:
    """As of a user in a container; a user's own is used where it can be."""
    for home, cache in (("/dev/null", f"{checkout.folder}/.snakemake/cache"), (checkout.cwd, "")):
        checkout.run("report", HOME=str(home), XDG_CACHE_HOME="")
        assert checkout.calls("cache: ") == [f"cache: {cache}"]


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (
            ["report/lab5.html", "--again", "Flash2", 'b16 "n1024"', "--verbose"],
            ["report/lab5.html", "--verbose", "--config", r'again=["Flash2", "b16 \"n1024\""]'],
        ),
        (
            ["--again", "it's", "--device", "T4", "--config", "import=D", "author={name: A  B}"],
            ["--config", 'again=["it\'s"]', 'device_name="T4"', "import=D", "author={name: A  B}"],
        ),
        (
            ["--config", "a=b", "-n", "-C", "c=d", "--config=e=*", "--quick", "--again"],
            ["-n", "--config", 'again="all"', "quick=true", "a=b", "c=d", "e=*"],
        ),
        (
            ["--import", 'my "結\\', "--device", "NVIDIA GeForce RTX 3070"],
            ["--config", 'import="home/my "結\\"', 'device_name="NVIDIA GeForce RTX 3070"'],
        ),
    ],
)
def test_our_options_and_every_config_become_one_config(
    monkeypatch: pytest.MonkeyPatch, words: list[str], after: list[str]
) -> None:
    """A folder to import is that of where ./run was called, which changes to the project's."""
    from flashlab.terminal.__main__ import for_snakemake

    monkeypatch.setenv("FLASHLAB_CALLED_IN", str(Path.cwd() / "home"))
    assert for_snakemake([*SNAKEMAKE, *words]) == [*SNAKEMAKE, *after]
    with pytest.raises(ConfigError, match="give --import DIR"):
        for_snakemake(["--device", "NVIDIA GeForce RTX 3070"])


@pytest.mark.parametrize(("ruff", "fails"), [("true", ""), ("echo a word; false", ""), ("", "yes")])
def test_ci_lints_beside_the_tests_and_fails_with_either(
    checkout: Checkout, ruff: str, fails: str
) -> None:
    shutil.copytree(ROOT / ".ci", checkout.folder / ".ci")
    checkout.stub(ruff=ruff, snakefmt="", mypy="")
    command, env = [checkout.folder / ".ci" / "run"], checkout.env | {"TESTS_FAIL": fails}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode == 0) == (ruff == "true") and "pytest" in done.stdout
    assert ("a word" in done.stdout) == ("word" in ruff)


def test_all_tests_have_their_programs_installed(checkout: Checkout) -> None:
    lacking = {"LACKING": "chromium munge", "apt_get": 'echo "apt-get $*" >>"$CALLS"'}
    done = checkout.run("test", "--all", "-k", "syntax", **lacking, id="echo 0", sudo="exit 1")
    assert done.stdout.splitlines() == ["pytest", "<-k>", "<syntax>"], done.stderr
    apt, pip = checkout.calls(" install ")[-2:]
    assert apt.endswith(" chromium munge") and "--target .venv/slurm" in pip


def test_a_second_call_installs_nothing_until_something_changes(checkout: Checkout) -> None:
    for change in (
        *("true", "echo another==1.0 >>'a folder/envs/cpu/requirements.txt'"),
        *("rm 'a folder/.venv/bin/python'", "mv 'a folder' elsewhere"),
    ):
        subprocess.run(change, shell=True, cwd=checkout.cwd, check=True)
        if not checkout.folder.exists():
            checkout.folder = checkout.cwd / "elsewhere"
        assert checkout.run("test").returncode == 0
        assert len(checkout.calls("-m venv")) == 1, change
        assert checkout.run("test").stderr == ""
        assert not re.search("-m (pip|venv)", "\n".join(checkout.calls("")))


def test_failed_step_is_named_and_repaired(checkout: Checkout) -> None:
    done = checkout.run("test", PIP_FAILS="requirements.0.txt")
    assert (done.returncode, done.stdout) == (1, "") and "pip: no" in done.stderr
    assert re.search("run: installing envs/cpu/requirements.txt.* failed", done.stderr)
    assert checkout.run("test").returncode == 0


def test_killed_set_up_repairs_itself(checkout: Checkout) -> None:
    held = checkout.cwd / "held"
    held.touch()
    killed = checkout.start("test", PIP_HELD=str(held))
    wait_until((checkout.folder / ".venv/bin/python").exists, "the start of a set-up")
    killed.kill()
    killed.wait()
    held.unlink()  # a pip that outlives the call is waited for
    assert checkout.run("test").returncode == 0
    assert len(checkout.calls("-m venv")) == 2
    killed.communicate()


def test_two_at_once_set_up_once(checkout: Checkout) -> None:
    both = [checkout.start("test", PIP_SECONDS="0.3") for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert len(checkout.calls("-m venv")) == 1


def test_apt_installs_what_is_lacking(checkout: Checkout) -> None:
    checkout.libraries.unlink()
    done = checkout.run(
        "test",
        id="echo 1000",
        sudo='[ "$1" = -n ] || exit 9; shift; exec "$@"',
        dpkg_query='case "$*" in *python3-venv) echo "install ok installed" ;; *) exit 1 ;; esac',
        apt_get='echo "apt-get $*" >>"$CALLS"; '
        'case "$*" in *libpango-1*) touch "$LIBRARIES" ;; esac',
    )
    assert done.returncode == 0, done.stderr
    (install,) = [call for call in checkout.calls("apt-get") if " install " in call]
    assert install.endswith(LACKING.removeprefix("python3-venv")) and "venv" not in install


DEV, FLASH_ATTN = "-r .venv/requirements.dev.txt", "-I envs/install_flash_attn.py"


@pytest.mark.parametrize(
    ("words", "given", "called", "uncalled", "said"),
    [
        ("check Flash2", LINUX, "requirements.1.txt", DEV, ""),
        ("test", LINUX, DEV, FLASH_ATTN, ""),
        ("test", NVIDIA, FLASH_ATTN, "download.pytorch.org", ""),
        ("test", {**NVIDIA, "FLASH_ATTN": "fails"}, FLASH_ATTN, "build", "own FlashAttention-2"),
        ("test", {**NVIDIA, "FLASHLAB_FLASH_ATTN": "no"}, DEV, FLASH_ATTN, ""),
        ("test", {**NVIDIA, "FLASHLAB_FLASH_ATTN": "build"}, f"{FLASH_ATTN} build", "download", ""),
    ],
)
def test_a_set_up_installs_what_serves_and_is_asked_for(
    checkout: Checkout, words: str, given: dict[str, str], called: str, uncalled: str, said: str
) -> None:
    done = checkout.run(*words.split(), **given)
    assert done.returncode == 0 and said in done.stderr
    calls = checkout.calls("")
    assert sum(called in call for call in calls) == 1
    assert not [call for call in calls if uncalled in call]
    assert ("nvidia-cublas==" in checkout.pins()) == ("nvidia_smi" in given)


@pytest.mark.parametrize(
    ("version", "cuda", "against"),
    [("2.11.0+cu130", "13.0", ""), ("2.13.0+cpu", None, "is built without CUDA")],
)
def test_the_systems_torch_is_built_on_where_that_is_asked_for_and_serves(
    checkout: Checkout, version: str, cuda: str | None, against: str
) -> None:
    torch = checkout.cwd / "site-packages" / "torch"  # with the file that says which alone
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("raise AssertionError('imported')")
    (torch / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    script = checkout.folder / "envs" / "system_torch.py"
    begin = f"import sys\nsys.path = [{str(torch.parent)!r}, *sys.path]\n"
    script.write_text(begin + script.read_text())

    unasked = checkout.run("report", **NVIDIA)
    assert (against or "FLASHLAB_TORCH=system ./run report builds on it") in unasked.stderr
    assert "torch==" in checkout.pins()
    asked = checkout.run("test", FLASHLAB_TORCH="system")
    assert (asked.returncode == 1) == bool(against) and against in asked.stderr
    if not against:
        pth = (checkout.folder / ".venv/site/flashlab.pth").read_text().splitlines()
        assert pth[:2] == [str(checkout.folder / "workflow"), str(torch.parent)]
        assert not re.search("^(torch|triton|nvidia-cublas)==", checkout.pins(), re.MULTILINE)
        assert checkout.run("test").stderr == ""  # it stays, until something else is asked for


def test_mac_looks_where_homebrew_puts_its_libraries(checkout: Checkout) -> None:
    checkout.libraries.unlink()
    brew = '[ "$1" = --prefix ] && echo /brew || : >"$LIBRARIES"'
    uname = "case $1 in -s) echo Darwin ;; *) echo arm64 ;; esac"
    done = checkout.run("test", uname=uname, brew=brew)
    assert done.returncode == 0, done.stderr
    pth = (checkout.folder / ".venv/site/flashlab.pth").read_text()
    assert "'DYLD_FALLBACK_LIBRARY_PATH', '/brew/lib:" in pth
    assert not any("download.pytorch.org" in call for call in checkout.calls("-m pip"))


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / "envs" / lock / "requirements.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_locks_pin_all_direct_dependencies_once_and_the_cpus_no_cuda_library() -> None:
    locked = pins("cpu")
    for lock in ("cpu", "cuda", "dev"):
        assert all(locked.setdefault(*pin) == pin[1] for pin in pins(lock).items())
        text = (ROOT / f"envs/{lock}/requirements.in").read_text()
        assert set(re.findall(r"^[a-z][a-z0-9-]*", text, re.MULTILINE)) <= locked.keys()
    small = {"nvidia-ml-py", "cuda-bindings", "cuda-core", "cuda-pathfinder"}
    assert not re.search("(^| )(nvidia|cuda|triton)", " ".join(pins("cpu").keys() - small))


def test_conda_environment_has_the_pins_of_the_cpu_lock_in_itself() -> None:
    environment = yaml.safe_load((ROOT / "envs/flashlab.yaml").read_text())
    lines = (ROOT / "envs/cpu/requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.lstrip().startswith("#")]
    assert environment["dependencies"][-1] == {"pip": pinned}, "call envs/lock"
