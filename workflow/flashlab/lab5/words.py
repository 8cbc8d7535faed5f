"""The names that the course's script and its students use: implementations, sizes, numbers."""

from __future__ import annotations

import re

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
    **dict.fromkeys(("flash2", "flash", "fl2", "fl", "fa2", "fa"), FLASH2),
    **dict.fromkeys(("flashattention", "flashattention2", "flashattn", "flashattn2"), FLASH2),
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
IS_OUT_OF_MEMORY = re.compile(r"\boom\b|out[\s_-]*of[\s_-]*(cuda[\s_-]*)?memory|記憶體不足", re.I)
"""Words in place of numbers, or of a status, that say a run ran out of memory."""

_COLUMNS = {
    "file": "file filename 檔案 檔名",
    "impl": "impl implementation method 實作 實作方式 方法",
    "batch_size": "batchsize batch bs 批次大小 批次",
    "seq_len": "seqlen seqlength sequencelength sequencelen sequence seq sl 序列長度 長度",
    "num_heads": "numheads nheads numberofheads heads head nh 頭數 注意力頭數",
    "emb_dim": "embdim embeddingdim embeddim embeddingdimension embedding emb ed 嵌入維度 維度",
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
    TIME: {**dict.fromkeys(("", "s", "sec", "seconds", "秒"), "1"), "us": "0.000001", "μs": "1e-6"}
    | {"ms": "0.001", "毫秒": "0.001"},
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
    return re.sub(r"[\W_]+", "", text).lower()


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
    parts = re.fullmatch(r"(.*?)[\s_]*[(（\[]([^)）\]]*)[)）\]]", heading.strip())
    parts = parts or re.fullmatch("(.*)[ _](ms|us|s|mb|mib|gb|gib)", heading.strip(), re.I)
    name, unit = (parts[1], _plain(parts[2])) if parts else (heading, "")
    for which, words in {**_PASSES, "": "$"}.items():
        left, found = re.subn(words, "", name, count=1, flags=re.IGNORECASE)
        kind = next((k for k, names in _NUMBERS.items() if _plain(left) in names), None)
        if found and kind and unit in _UNITS[kind]:
            return "" if kind == MEMORY else which, kind, _UNITS[kind][unit]
    return None
