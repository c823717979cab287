"""Results of the paper's experiments: run folders -> rows of docs/results/*.csv -> docs/results.md."""
