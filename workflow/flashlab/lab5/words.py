"""What is said of a file's run, by a row of ``runs.csv``, its own record or its name, in any words.

A statement is a mapping from `ATTRIBUTES` to values; what is not said is not in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from flashlab.untrusted import UnsoundFileError

SIZES = ("batch_size", "seq_len", "num_heads", "emb_dim")
HEAD_DIM = "head_dim"
"""What may be said in place of emb_dim, which is num_heads times as much."""
TIMED = ("forward", "backward")
PASSES = (*TIMED, "forward_backward")
"""The passes; the third time is the sum of the two that are timed."""
MAX_SIZE = 2**24
"""Largest batch_size, seq_len, num_heads or emb_dim."""

NAIVE, FLASH2 = "Pytorch", "Flash2"
IMPLEMENTATIONS = {
    **dict.fromkeys(("pytorch", "torch", "py", "pt", "pth", "naive", "eager", "baseline"), NAIVE),
    **dict.fromkeys(("fl2", "fl", "fa2", "fa"), FLASH2),
    **{f"flash{of}{v}": FLASH2 for of in ("", "attention", "attn") for v in ("", "2", "v2")},
    **dict.fromkeys(("flash1", "fl1", "fa1", "flashattention1", "flashattn1"), "Flash1"),
}
"""Names of the course's implementations, in lower case."""

CAUSAL = {
    **dict.fromkeys(("true", "1", "yes", "y", "t", "是", "有", "causal", "wahr", "vrai"), True),
    **dict.fromkeys(("false", "0", "no", "n", "f", "否", "無", "full", "falsch", "faux"), False),
}

COURSE_DTYPE = "float16"
FLASH_ATTN = "flash-attn"

OUT_OF_MEMORY = "oom"
IS_OUT_OF_MEMORY = re.compile(r"\boom\b|out[\s_-]*of[\s_-]*(cuda )?memory|記憶體不足", re.I)
"""Words in place of numbers, or of a status, that say a run ran out of memory."""

_COLUMNS = {
    "file": "file filename 檔案 檔名",
    "impl": "impl implementation method 實作 實作方式 方法",
    "batch_size": "batchsize batch bs 批次大小 批次",
    "seq_len": "seqlen seqlength sequencelength sequencelen sequence seq sl 序列長度 長度",
    "num_heads": "numheads nheads numberofheads heads head nh 頭數 注意力頭數",
    "emb_dim": "emb embdim embedding embeddingdim embeddim embeddingdimension ed 嵌入維度 維度",
    HEAD_DIM: "headdim headdimension headsize hd 單頭維度",
    "causal": "causal iscausal 因果 因果遮罩 遮罩",
    "device": "device gpu 裝置 顯示卡",
}
COLUMNS = {spelling: name for name, spellings in _COLUMNS.items() for spelling in spellings.split()}
"""The columns of a table of runs, by their headings in small letters alone (`_plain`), and sizes
by their words in a name."""

TIME, RATE, MEMORY = "time(s)", "FLOPS(TFLOPs/s)", "peak_memory_usage(MB)"
"""The script's keys of the numbers of a pass, and of the memory of all."""

_NUMBERS = {
    TIME: {"time", "times", "latency", "runtime", "elapsed", "時間", "耗時"},
    RATE: {"flops", "tflops", "tflopss", "rate", "throughput", "速率", "算力"},
    MEMORY: {
        *(peak + name for peak in ("", "peak", "max") for name in ("memory", "mem", "memoryusage")),
        *("記憶體", "記憶體用量", "峰值記憶體", "峰值記憶體用量"),
    },
}
_UNITS = {
    TIME: {**dict.fromkeys(("", "s", "sec", "seconds", "秒"), "1"), "ms": "0.001"}
    | {"毫秒": "0.001", "us": "0.000001", "μs": "0.000001"},
    RATE: {**dict.fromkeys(("", "tflops", "tflopss"), "1"), "gflops": "0.001", "gflopss": "0.001"},
    MEMORY: {**dict.fromkeys(("", "mb", "mib"), "1"), "gb": "1024", "gib": "1024"},
}
"""The units of each number in small letters alone, with the factor to the script's own."""

_PASSES = {
    "forward_backward": r"forward[\W_]*backward|fwd[\W_]*bwd|total|前向[\W_]*反向|合計|總",
    "forward": "forward|fwd|前向|正向",
    "backward": "backward|bwd|反向|後向",
}
"""Patterns of a pass's names; the first that matches counts."""


def _plain(text: str) -> str:
    """Letters and digits alone, in lower case: ``Batch Size`` is ``batchsize``."""
    return re.sub(r"[\W_]+", "", text).casefold()


def column_of(heading: str) -> str:
    """The column of a table of runs that a heading names; another is left as it is."""
    return COLUMNS.get(_plain(heading), heading.strip())


def pass_of(key: str) -> str | None:
    """The pass that a key names and nothing else."""
    return next((p for p, words in _PASSES.items() if re.fullmatch(words, key.strip(), re.I)), None)


def number_of(heading: str) -> tuple[str, str, str] | None:
    """The pass (or ``""``), the kind (`TIME`, …) and the factor to its unit that a heading names.

    The unit is in brackets or at the end, as in ``time(ms)``, ``Forward Time [us]``,
    ``forward_time_ms``; without one it is the script's own.
    """
    parts = re.fullmatch(r"([^(（\[]*)[(（\[]([^)）\]]*)[)）\]]", heading.strip())
    parts = parts or re.fullmatch("(.*)[ _](ms|us|s|mb|mib|gb|gib)", heading.strip(), re.I)
    name, unit = (parts[1], _plain(parts[2])) if parts else (heading, "")
    for which, words in {**_PASSES, "": "$"}.items():
        left, found = re.subn(words, "", name, count=1, flags=re.IGNORECASE)
        kind = next((k for k, names in _NUMBERS.items() if _plain(left) in names), None)
        if found and kind and unit in _UNITS[kind]:
            return "" if kind == MEMORY else which, kind, _UNITS[kind][unit]
    return None


# Statements


ATTRIBUTES = ("implementation", *SIZES, "causal")
RUNS_CSV_COLUMNS = ("file", "impl", *SIZES, "causal", "device")
Said = Mapping[str, Any]


def described(said: Said) -> str:
    """A statement in one line: ``Flash2 B16 N1024 full``."""
    symbols = dict(zip(SIZES, "BNHE", strict=True))
    sizes = [f"{symbols[name]}{said[name]}" for name in SIZES if name in said]
    mask = ["causal" if said["causal"] else "full"] if "causal" in said else []
    names = [said[name][:80] for name in ("implementation", "device") if name in said]
    return " ".join([*names[:1], *sizes, *mask, *names[1:]])


def _cell(column: str, text: str) -> Any:
    """The value in a cell; UnsoundFileError for none of its column."""
    if column == "causal":
        if text.lower() not in CAUSAL:
            raise UnsoundFileError("form.row_causal", value=text[:40])
        return CAUSAL[text.lower()]
    if column not in (*SIZES, HEAD_DIM):
        return IMPLEMENTATIONS.get(_plain(text), text) if column == "impl" else text
    is_size = re.fullmatch(r"[0-9]{1,8}(\.0+)?", text)  # spreadsheets write 16.0
    if not is_size or not 0 < (size := int(text.partition(".")[0])) <= MAX_SIZE:
        raise UnsoundFileError("form.row_size", column=column, value=text[:40], most=str(MAX_SIZE))
    return size


def said_in_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    """The statement in cells by their columns' headings; an empty one, ?, cuda:1, says nothing."""
    named = {column_of(heading): text.strip() for heading, text in cells.items() if heading}
    kept, empty = (*RUNS_CSV_COLUMNS, HEAD_DIM), r"\w* (\?|gpu|cuda(:\d+)?)?|device \d+"
    told = {c for c, t in named.items() if c in kept and not re.fullmatch(empty, f"{c} {t}", re.I)}
    said = {column: _cell(column, named[column]) for column in named if column in told}
    if {HEAD_DIM, "num_heads"} <= said.keys():
        said.setdefault("emb_dim", said["num_heads"] * said[HEAD_DIM])
    if said.get("emb_dim", 0) % said.get("num_heads", 1):
        sizes = {name: str(said[name]) for name in ("num_heads", "emb_dim")}
        raise UnsoundFileError("form.row_shape", **sizes)
    return {"implementation" if c == "impl" else c: value for c, value in said.items()}


_SIZES = {word: name for word, name in COLUMNS.items() if name in (*SIZES, HEAD_DIM)}
_LETTERS = {"b": "batch_size", "n": "seq_len", "s": "seq_len", "h": "num_heads", "e": "emb_dim"}
_MASKS = {"causal": True, "full": False, "noncausal": False, "nocausal": False}
_TWO_WORDS = re.compile(
    r"(batch|num|seq|emb|head|flash)[^a-z0-9]+(size|heads|len(?:gth)?|dim|att(?:entio)?n)(?![a-z])"
)


def _said_in_part(part: str, is_file: bool) -> tuple[dict[str, set[Any]], list[int], set[str]]:
    """The values of each attribute in a part of a path; its other numbers; sizes without one."""
    text = _TWO_WORDS.sub(r"\1\2", re.sub("([a-z])([A-Z])", r"\1_\2", part).lower())
    pairs: list[tuple[str, str]] = re.findall(r"(?=[a-z0-9])([a-z]*)[^a-z0-9]*([0-9]*)", text)
    values, letters = defaultdict[str, set[Any]](set), defaultdict[str, set[Any]](set)
    bare, left = set[str](), list[int]()
    for i, (word, digits) in enumerate(pairs):
        kind, number = _SIZES.get(word), int(digits) if 0 < len(digits) <= 8 else None
        if who := IMPLEMENTATIONS.get(word + digits) or IMPLEMENTATIONS.get(word):
            values["implementation"].add(who)
            number = None if word + digits in IMPLEMENTATIONS else number
        elif kind and not digits:
            bare.add(kind)
        elif number and (kind or word in _LETTERS):
            (values if kind else letters)[kind or _LETTERS[word]].add(number)
            number = None
        elif word in _MASKS:
            near = {w for w, _ in pairs[max(i - 1, 0) : i]} & {"no", "non", "not", "without"}
            after = digits or next((w or n for w, n in pairs[i + 1 : i + 2]), "")
            if is_file:  # a folder named causal is the experiment, which has both masks
                values["causal"].add(_MASKS[word] and not near and CAUSAL.get(after, True))
            number = None if digits in CAUSAL else number
        left += [] if number is None else [number]
    # The script's only flag without a number, alone in a name: Flash2_16_512_32_2048_true.
    if is_file and "causal" not in values and (flag := {w for w, _ in pairs} & {"true", "false"}):
        values["causal"] = {CAUSAL[word] for word in flag}
    return ({**letters, **values} if len(letters) >= 3 else values), left, bare


def _parts_of(path: str) -> list[tuple[dict[str, set[Any]], list[int], set[str]]]:
    """What a file's name says, and then its folders'."""
    parts = [re.sub(r"\.\w{1,6}\Z", "", part) for part in reversed(PurePosixPath(path).parts)]
    return [_said_in_part(part, is_file=depth == 0) for depth, part in enumerate(parts)]


def numbers_in_name(path: str) -> list[int]:
    """The numbers of a file's name that belong to no word of ours, in their order."""
    return _parts_of(path)[0][1] if path else []


def said_in_name(path: str) -> dict[str, Any]:
    """What a file's name seems to say and, where it is silent, its folders': hints, no more.

    Single letters count only if three of the four are there, and a number by itself only if the
    path names just one parameter without one (``seq_len/128.json``). Two values count as none.
    """
    parts, said = _parts_of(path), dict[str, Any]()
    for values, _, _ in parts:
        for name, those in values.items():
            said.setdefault(name, those.pop() if len(those) == 1 else None)
    bare = {name for *_, names in parts for name in names} - said.keys()
    if parts and len(bare) == len(parts[0][1]) == 1 and parts[0][1][0]:
        said[bare.pop()] = parts[0][1][0]
    return {name: value for name, value in said.items() if value is not None}
