"""The names that the course's script and its students use: implementations, sizes, passes."""

from __future__ import annotations

import re

SIZES = ("batch_size", "seq_len", "num_heads", "emb_dim")
PASSES = ("forward", "backward", "forward_backward")
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
    **dict.fromkeys(("true", "1", "yes", "y", "t", "是", "有", "causal"), True),
    **dict.fromkeys(("false", "0", "no", "n", "f", "否", "無", "full"), False),
}

COLUMNS = {
    **dict.fromkeys(("file", "filename", "file_name", "檔案", "檔名"), "file"),
    **dict.fromkeys(("impl", "implementation", "method", "實作", "實作方式", "方法"), "impl"),
    **dict.fromkeys(("batch_size", "batch", "bs", "批次大小", "批次"), "batch_size"),
    **dict.fromkeys(("seq_len", "seq", "sequence_length", "序列長度", "長度"), "seq_len"),
    **dict.fromkeys(("num_heads", "heads", "頭數", "注意力頭數"), "num_heads"),
    **dict.fromkeys(("emb_dim", "embedding_dim", "嵌入維度", "維度"), "emb_dim"),
    **dict.fromkeys(("causal", "因果", "因果遮罩", "遮罩"), "causal"),
    **dict.fromkeys(("device", "gpu", "裝置", "顯示卡"), "device"),
}
"""The columns of a table of runs, by their possible headings."""

COURSE_DTYPE = "float16"
FLASH_ATTN = "flash-attn"


def column_of(heading: str) -> str:
    """The column that a heading names; ``Batch Size`` is batch_size. Another is left as it is."""
    name = re.sub(r"[\s_-]+", "_", heading.strip()).lower()
    return COLUMNS.get(name, name)
