"""How do several log owners join? One release as if their logs were one; nobody sees the log of another."""
