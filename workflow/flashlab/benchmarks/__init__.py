"""What can be measured: one folder for each benchmark, with its declaration and measuring."""
