"""FlashLab's attention: a forward and a backward pass written in Python, with Triton and Gluon.

`operator` is what others call: a `torch.library` operator with its gradient. It chooses between
`hopper_forward` with `hopper_backward`, which use what only that generation of GPUs has, and
`plain`, which runs wherever Triton does. `choices` holds the tile sizes that were measured.

In every kernel: B batch_size, N seq_len, H num_heads, D head_dim; Q, K and V are read in place from
the packed qkv (B, N, 3, H, D), and their gradients are written packed in the same way.
"""
