"""What laboratories print and show."""
