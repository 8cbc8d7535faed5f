"""The grader's word: whether records were measured after it was given, and on one GPU.

Without a word, nothing is asked for. With one, a file without it is not checked, and a false one
fails. It shows when and on which device, not that the numbers are honest (`flashlab.proof`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flashlab_grading.model import Line, Result


def check_proofs(submission: str, results: Sequence[Result], nonce: str) -> Iterator[Line]:
    """A line for each file, and one for the submission if its records are of several GPUs."""
    gpus: set[str] = set()
    for result in results:
        name, claim = result.name, result.claim
        if claim is None or claim.nonce is None:
            yield Line(submission, name, "form", "not_checked", "form.no_proof")
        elif claim.nonce != nonce:
            yield Line(submission, name, "form", "fail", "form.other_nonce", found=claim.nonce)
        elif not claim.sealed and claim.run.device == "cuda" and claim.gpu_uuid is None:
            yield Line(submission, name, "form", "not_checked", "form.no_gpu")
        elif not claim.sealed:
            yield Line(submission, name, "form", "fail", "form.seal")
        else:
            gpu = claim.gpu_uuid or ""
            gpus.add(gpu)
            yield Line(submission, name, "form", "pass", "form.pass_proof", found=gpu)
    gpus.discard("")
    if len(gpus) > 1:
        params = {"count": str(len(gpus))}
        yield Line(submission, "", "form", "warn", "form.several_gpus", params)
