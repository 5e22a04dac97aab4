"""Which counts are best? The programs behind sampling, and what solves them."""
