"""The grader's word: whether records were measured after it was given, and on one GPU.

Without a word, nothing is asked for. With one, a file without it is not checked, and a false one
fails. It shows when and on which device, not that the numbers are honest (`flashlab.proof`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flashlab_grading.model import Line, Result


def check_proofs(results: Sequence[Result], nonce: str) -> Iterator[Line]:
    """A line for each file, and one for the submission if its records are of several GPUs."""
    gpus: set[str] = set()
    for result in results:
        name, claim = result.name, result.claim
        if claim is None or claim.nonce is None:
            yield Line("not_checked", "form.no_proof", name)
        elif claim.nonce != nonce:
            yield Line("fail", "form.other_nonce", name, found=claim.nonce)
        elif not claim.sealed and claim.run.device == "cuda" and claim.gpu_uuid is None:
            yield Line("not_checked", "form.no_gpu", name)
        elif not claim.sealed:
            yield Line("fail", "form.seal", name)
        else:
            gpu = claim.gpu_uuid or ""
            gpus.add(gpu)
            yield Line("pass", "form.pass_proof", name, found=gpu)
    gpus.discard("")
    if len(gpus) > 1:
        yield Line("warn", "form.several_gpus", params={"count": str(len(gpus))})
