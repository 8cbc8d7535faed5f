"""Numbers in prose: as many digits as a reader needs."""

import pytest

from flashlab import numbers


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (numbers.measured(0.46), "0.460"),
        (numbers.measured([0.46012, 0.4598, 0.4604]), "0.460"),
        (numbers.measured([4736.2, None, None]), "4,736"),
        (numbers.times(2.0), "2.00"),
        (numbers.times([2.0, 1.24, 3.21]), "2.0"),
        (numbers.times([2.0, float("nan"), float("nan")]), "2.00"),
        (numbers.times([33.4, 33.3, 33.5]), "33"),
        (numbers.range_of([[4.0, 3.995, 4.005], [1.8, 1.6, 2.0]]), "1.80–4.00"),
        (numbers.range_of([1.001, 1.002]), "1.00"),
        (" ".join(numbers.with_ends([1.0236, 1.0187, 1.0281])), "1.02 1.019 1.028"),
        (" ".join(numbers.with_ends(4.711)), "4.71"),
        (numbers.two(19.4), "19"),
        (numbers.two(0.2683), "0.27"),
        (numbers.two(9.96), "10"),
        (numbers.two(1084.2), "1,084"),
        (numbers.rough(1084.2), "1,100"),
        (numbers.rough(7.81), "7.8"),
        (numbers.three(0.04561), "0.0456"),
        (numbers.three(772.3), "772"),
        (numbers.ratio(1.534), "1.53"),
        (numbers.ratio(2.93), "2.9"),
        (numbers.factor(63.98), "64"),
        (numbers.factor(3.31), "3.3"),
        (numbers.factor(1.01), "1.0"),
        (numbers.span([2.36, 6.34]), "2.4–6.3"),
        (numbers.span([1.004, 1.002]), "1.00"),
        (numbers.span([0.772, 0.921]), "0.77–0.92"),
        (numbers.arrow([2.92, 5.85]), "2.9 → 5.8"),
        (numbers.size(4736.25), "4,736"),
        (numbers.size(80.5), "80.5"),
        (numbers.percent(0.136), "14%"),
        (numbers.percent(0.0021), "0.2%"),
        (numbers.shares([0.087, 0.556]), "9–56%"),
    ],
)
def test_a_number_has_the_digits_that_a_sentence_needs(printed: str, expected: str) -> None:
    assert printed == expected
