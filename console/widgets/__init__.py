"""What the dashboard is made of, one widget a file."""
