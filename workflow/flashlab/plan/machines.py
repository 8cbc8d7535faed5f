"""Machines as data: device and versions, described on one machine to plan for it on another.

A record's name depends on the device, the driver and the versions of the machine that measures. The
machine that plans may have none of them: a cluster's login node has no GPU. There the plan is made
from a file, ``config/machines/NAME.json``, which a job on the measuring machine wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from flashlab import machine, nsight
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.files import read_json, write_json
from flashlab.machine import MachineError
from flashlab.records import schema_problem

Answer = TypeVar("Answer")

FOLDER = Path("config", "machines")
VERSION = 1


@dataclass(frozen=True)
class Description:
    """A machine as its file describes it.

    `packages` are the distributions whose versions decide what any kernel runs. `gpu_uuids` are
    for information only, since the nodes of a partition have different GPUs.
    """

    version: int
    device: str
    device_name: str
    gpu_uuids: Sequence[str]
    driver: str | None
    packages: Mapping[str, str | None]
    ncu: str | None


@dataclass(frozen=True)
class Machine:
    """A machine's device, versions and tools, as far as they decide a record's numbers.

    By default it is the machine that this process runs on, as it is now; otherwise the one that the
    file at `path` describes. With `answers`, this machine is asked each question once: a plan of a
    thousand runs has thousands, and NVML takes tens of milliseconds for one.
    """

    path: Path = Path()
    described: Description | None = None
    answers: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    def _ask(self, question: str, find: Callable[[], Answer]) -> Answer:
        if self.answers is None:
            return find()
        if question not in self.answers:
            self.answers[question] = find()
        answer: Answer = self.answers[question]
        return answer

    def detect_device(self, wanted: str) -> str:
        """``cuda`` or ``cpu``, for the configuration's ``auto``, ``cuda`` or ``cpu``.

        MachineError where one is wanted that cannot be had.
        """
        if self.described is None:
            return machine.detect_device(wanted)
        if wanted not in ("auto", self.described.device):
            raise MachineError(
                f"config: device: {wanted} was asked for, but {self.path} describes a machine that "
                f"measures on {self.described.device}; use device: auto, or describe another "
                "machine"
            )
        return self.described.device

    def name_device(self, device: str) -> str:
        """The first visible GPU's name, or the CPU's."""
        if self.described:
            return self.described.device_name
        return self._ask(f"device {device}", lambda: _name_of_device(device))

    def driver_version(self) -> str | None:
        return self.described.driver if self.described else machine.driver_version()

    def package_version(self, name: str) -> str | None:
        """The version of a distribution, None where it is not installed.

        MachineError where the machine's file was made before the version was needed.
        """
        if self.described is None:
            return self._ask(f"package {name}", lambda: machine.package_version(name))
        if name not in self.described.packages:
            raise MachineError(
                f"{self.path}: packages: the version of {name} is missing, because no kernel named "
                f"it when the file was made; {_remedy(self.path)}"
            )
        return self.described.packages[name]

    def ncu_version(self) -> str | None:
        """The version of the Nsight Compute on PATH, None where there is none."""
        return self.described.ncu if self.described else nsight.version()


HERE = Machine()


def _name_of_device(device: str) -> str:
    if device == "cuda" and not machine.gpus():
        return "a machine without a visible NVIDIA GPU"
    return machine.device_name(device)


def machine_file(name: str) -> Path:
    """The file that describes the machine of this name."""
    return FOLDER / f"{name}.json"


def _remedy(path: Path) -> str:
    return f"make it again: snakemake machine --config machine={path.stem}"


def describe_machine(wanted: str, path: Path) -> None:
    """Describe this machine in a file, for a device that is wanted (``auto``, ``cuda``, ``cpu``).

    Raises:
        MachineError: ``cuda`` is wanted and cannot be had.
    """
    device = HERE.detect_device(wanted)
    on_gpu = device == "cuda"
    kernels = [kernel for b in BENCHMARKS.values() for kernel in implementations_of(b).values()]
    packages = {"torch", *(package for kernel in kernels for package in kernel.packages)}
    description = Description(
        version=VERSION,
        device=device,
        device_name=HERE.name_device(device),
        gpu_uuids=[gpu.uuid for gpu in machine.gpus()] if on_gpu else [],
        driver=HERE.driver_version() if on_gpu else None,
        packages={name: HERE.package_version(name) for name in sorted(packages)},
        ncu=HERE.ncu_version() if on_gpu else None,
    )
    write_json(path, asdict(description))


def read_machine(path: Path) -> Machine:
    """The machine that a file describes; MachineError where there is none or it is damaged."""
    try:
        document = read_json(path)
    except FileNotFoundError as error:
        raise MachineError(
            f"config: machine: there is no {path}; write it with a job on the machine that is to "
            f"measure: snakemake machine --config machine={path.stem}"
        ) from error
    except (OSError, ValueError) as error:
        raise MachineError(f"{path}: cannot be read ({error}); {_remedy(path)}") from error
    if problem := schema_problem(document, "machine"):
        raise MachineError(f"{path}: {problem}; {_remedy(path)}")
    return Machine(path, Description(**document))


def machine_of(config: Mapping[str, Any]) -> Machine:
    """The machine that a configuration plans for: the one it names, else this one, asked once."""
    if "machine" in config:
        return read_machine(machine_file(config["machine"]))
    return Machine(answers={})


def _summary(device: str, of: Machine, packages: Iterable[str]) -> str:
    versions = {name: of.package_version(name) for name in packages}
    if device == "cuda":
        versions = {"driver": of.driver_version(), **versions}
    stated = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    return f"{of.name_device(device)} ({stated})"


def check_described(path: Path, device: str, packages: Iterable[str]) -> None:
    """MachineError, naming both, where this is not the machine that a file describes.

    `packages` are the distributions whose versions count, beside torch.
    """
    packages = sorted({"torch", *packages})
    described = read_machine(path)
    there, here = (_summary(device, of, packages) for of in (described, HERE))
    if there != here:
        raise MachineError(
            f"{path} describes {there}, but this job runs on {here}. Nothing was measured. Send "
            "the jobs to the machine that was described, or describe this one: snakemake machine "
            "--config machine=NAME"
        )
