"""The plugin by Snakemake's own test of its interface, and what only the plugin decides."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

from snakemake_logger_plugin_flashlab import LogHandler


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with nothing in it; the handling of interrupts is restored after a test."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)


class TestInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandlerBase]:
        return LogHandler

    def get_log_handler_settings(self) -> Any:
        return None


def info(text: str, **extra: Any) -> dict[str, Any]:
    return {"msg": text, "levelno": logging.INFO, **extra}


def error(text: str) -> dict[str, Any]:
    return {"msg": text, "levelno": logging.ERROR, "event": LogEvent.ERROR, "exception": "X"}


def job(number: int, rule: str, *output: str) -> dict[str, Any]:
    named = {"jobid": number, "rule_name": rule, "rule_msg": None, "shellcmd": None, "log": []}
    return info(f"rule {rule}:", event=LogEvent.JOB_INFO, **named, input=[], output=output)


STARTED = info("Workflow has started!", event=LogEvent.WORKFLOW_STARTED, cmd="snakemake")
NOTHING = "Nothing to be done (all requested files are present and up to date)."
TERMINATED = "Will exit after finishing currently running jobs (scheduler)."


def printed(*records: dict[str, Any], interrupted: bool = False, **settings: Any) -> None:
    """Feed the plugin with the records of a call."""
    common = MockOutputSettings()
    vars(common).update(settings)
    handler = LogHandler(common, None)
    handler.addFilter(DefaultFilter(set(), False, common.verbose, False, False))
    handler.setFormatter(DefaultFormatter(set(), False))
    assert handler.writes_to_stream != settings.get("verbose", False)
    for told in records:
        record = logging.LogRecord("snakemake", 0, "", 0, None, (), None)
        vars(record).update(told)
        handler.handle(record)
    try:
        if interrupted:
            raise KeyboardInterrupt
        handler.close()
    except KeyboardInterrupt as error:
        handler.close()
        sys.excepthook(type(error), error, error.__traceback__)


@pytest.mark.parametrize(
    ("records", "err"),
    [
        (
            [
                info("Config file config/config.yaml is extended by additional config."),
                error(
                    'WorkflowError in file "common.smk", line 47:\nNot usable:\n  bogus: unknown\n'
                    '  File "common.smk", line 47, in <module>\n  File "x", line 1, in f'
                ),
            ],
            "error: Not usable:\n  bogus: unknown\n",
        ),
        (
            [info("Building DAG of jobs..."), info("Unlocked working directory.")],
            "Unlocked working directory.\n",
        ),
        (
            [
                *(STARTED, info("Select jobs to execute...")),
                *(info("Waiting for a slow disk", levelno=logging.WARNING), error("Half:\nof it")),
            ],
            "Waiting for a slow disk\nHalf:\nof it\n",
        ),
        (
            [STARTED, error("RuleException:\nCalledProcessError in file x, line 1:")],
            "RuleException:\nCalledProcessError in file x, line 1:\n",
        ),
        (
            [
                *(STARTED, info(TERMINATED), info(TERMINATED)),
                error("WorkflowError:\nAt least one job did not complete successfully."),
            ],
            f"{TERMINATED}\n\n"
            "Interrupted. What is finished is kept; the same call goes on from there.\n",
        ),
    ],
    ids=["refused", "made nothing", "warnings", "no job explains it", "terminated"],
)
def test_what_snakemake_says_is_shown_once_and_nothing_that_matters_is_lost(
    capsys: pytest.CaptureFixture[str], records: list[dict[str, Any]], err: str
) -> None:
    printed(*records)
    assert capsys.readouterr() == ("", err)


@pytest.mark.parametrize(
    ("records", "out"),
    [
        ([STARTED, info(NOTHING)], "Nothing to do: all of it is up to date.\n"),
        (
            # One that only names what to make is no job.
            [STARTED, job(0, "tables", "runs.csv"), job(1, "report_target")],
            "Would make:\n  Tables\nThis was a dry run: nothing was measured or made.\n",
        ),
    ],
)
def test_a_dry_run_goes_where_snakemake_writes_it(
    capsys: pytest.CaptureFixture[str], records: list[dict[str, Any]], out: str
) -> None:
    printed(*records, dryrun=True, stdout=True)
    assert capsys.readouterr() == (out, "")


def test_verbose_leaves_the_terminal_to_snakemake(capsys: pytest.CaptureFixture[str]) -> None:
    printed(info("Unlocked working directory."), verbose=True)
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_before_any_job_leaves_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed(interrupted=True)
    said = capsys.readouterr().err
    assert said.startswith("\nInterrupted") and "Traceback" not in said


def test_finding_the_plugin_costs_other_calls_nothing(root: Path) -> None:
    code = (
        "import sys, snakemake_logger_plugin_flashlab\n"
        "assert not {'pikepdf', 'flashlab.terminal.progress'} & set(sys.modules)"
    )
    path = str(root / "workflow")
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True)
