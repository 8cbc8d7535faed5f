"""The history of a kernel's repository: where along a series of commits the numbers changed."""
