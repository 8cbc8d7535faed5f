"""The output of `--logger=flashlab` in place of Snakemake's log, in real calls."""

from __future__ import annotations

from typing import Any

BROKEN = '''
"""Attention that knows only short sequences."""

NAME = "Broken"
LABEL = {"zh_TW": "壞掉的", "en": "Broken"}


def attention(qkv, causal):
    raise RuntimeError("no code for this shape\\nand more about it")
'''
LOGGER = "--logger=flashlab"


def test_a_broken_run_is_named_and_the_call_succeeds(project: Any) -> None:
    project.folder.joinpath("kernels", "broken.py").write_text(BROKEN, encoding="utf-8")
    with project.config() as config:
        del config["experiments"][1:]
        config["experiments"][0]["implementations"] = ["Pytorch", "Broken"]
    said = project.make(LOGGER, "records")
    assert "Reason" not in said and "\x1b" not in said and "\r" not in said
    lines = said.splitlines()
    assert "Measuring 2 runs on the CPU in float32; 3 of 5 are measured already." in lines
    rows = [line for line in lines if line.startswith(("1/2", "2/2"))]
    assert len(rows) == 2
    assert all(row.endswith("error: RuntimeError: no code for this shape") for row in rows)
    assert "5 runs: 3 ok, 2 not (2 error)." in lines
    assert "./run check Broken" in said
    assert "Nothing to do" in project.make(LOGGER, "records")


def test_without_the_logger_characters_that_cannot_be_printed_are_named_too(project: Any) -> None:
    with project.config() as config:
        config["experiments"][0]["title"]["en"] = "Length 𠮷"
    said = project.make("report/lab5.pdf")
    assert said.count("warning: experiment seq_len: title.en: the report's fonts lack 𠮷 (U+") == 1


def test_a_failed_job_ends_in_its_log_and_the_old_report(project: Any) -> None:
    project.append("workflow/flashlab/story/stage.py", 'raise OSError("no disk")\n')
    done = project.snakemake("--cores", "1", LOGGER, "report/lab5.pdf")
    assert done.returncode == 1
    assert "1 job failed:\n  Observing what the report says\n" in done.stdout
    assert "      | error: no disk\n" in done.stdout
    assert "CalledProcessError" not in done.stdout
    assert "report/lab5.pdf is still the old report, made on " in done.stdout


def test_other_calls_of_snakemake_say_what_they_should(project: Any) -> None:
    project.append("templates/report.css", "/* edited */\n")
    for options, said in (
        (
            ["--dry-run"],
            "Would make:\n  Report\nThis was a dry run",
        ),
        (["--unlock"], "Unlocked working directory."),
        (["--list-rules"], "\nmeasure\n"),
        (["--dry-run", "--verbose"], "Snakemake version:"),
    ):
        assert said in project.make(LOGGER, *options, "report/lab5.pdf")
