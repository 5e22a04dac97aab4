"""What keeps secrets: small files, one primitive each, checked against the vectors of their standards."""
