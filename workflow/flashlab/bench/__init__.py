"""``bench A B …``: implementations measured in turns, with verdicts that hold on identical code."""
