from __future__ import annotations

from analysis.deriving import Plant, derived, excluded_run, keys, quoted

from flashlab.analysis.kinds.out_of_memory import OUT_OF_MEMORY


def test_the_limit_lies_between_what_fitted_and_what_did_not(sweep: Plant) -> None:
    runs = {"Flash2": [{}] * 4, "Pytorch": [{}, {}, "oom", "oom"], "Numpy": ["oom", "unsupported"]}
    found = {f.subject["implementation"]: f for f in derived(OUT_OF_MEMORY, sweep(runs))}
    assert {name: (f.verdict, f.facts["failed"]) for name, f in found.items()} == {
        "Pytorch": ("limit_found", [512, 1024]),
        "Flash2": ("none", []),
        "Numpy": ("limit_found", [128]),
    }
    assert keys(found["Numpy"]) == ["out_of_memory.limit_found.nothing"]
    assert found["Numpy"].reasons == [excluded_run("Numpy", 256, "unsupported")]
    assert (quoted(found["Pytorch"])["largest"], found["Pytorch"].reasons) == (256, [])
    assert found["Flash2"].statements == []
