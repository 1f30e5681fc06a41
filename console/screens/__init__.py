"""Full screens and dialogs, one a file."""
