"""A trained task on the user's own files: predictions and their uncertainty on disk."""
