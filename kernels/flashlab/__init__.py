"""FlashLab's attention: a forward and a backward pass of its own.

`operator` is what others call: `torch.library` operators with their gradient. On Hopper, `hopper`
launches the kernels in `cuda/`, which use what only that generation of GPUs has; elsewhere `plain`
runs wherever Triton does. `choices` holds the tile sizes that were measured.

In every kernel: B batch_size, N seq_len, H num_heads, D head_dim; Q, K and V are read in place, as
views of a packed tensor or separate ones, and their gradients are written in the same way.
"""
