"""A call of Snakemake by a fork of a process that has it imported: half of what a dry run takes."""

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        *("snakemake.cli", "snakemake.report.html_reporter", "smart_open", "yte", "yaml", "numpy"),
        *("docutils.parsers.rst", "jsonschema", "psutil"),  # which it and a plan import
    ]
)


def _call(folder: str, arguments: list[str], environment: Mapping[str, str], log: str) -> None:
    """Be `python -m snakemake` in a folder: with its package, and nothing of this process's."""
    for stream, file in enumerate((os.devnull, log, log)):
        os.dup2(os.open(file, os.O_RDWR | os.O_APPEND), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir, sys.dont_write_bytecode = None, False  # which may be another's
    sys.argv = ["snakemake", *arguments]
    sys.path[:0] = [folder, environment["PYTHONPATH"]]
    for name in [*sys.modules]:  # a plugin of Snakemake has imported some of the repository's own
        if name.partition(".")[0] in ("flashlab", "snakemake_logger_plugin_flashlab"):
            del sys.modules[name]
    from snakemake.cli import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()


def snakemake(
    folder: Path, arguments: list[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Its exit status, and its output as one text."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        call = str(folder), arguments, environment, log.name
        process = SERVER.Process(target=_call, args=call)
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(arguments, process.exitcode, log.read())
