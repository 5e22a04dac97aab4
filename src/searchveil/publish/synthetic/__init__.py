"""A synthetic log: noisy statistics of bounded users, and users, searches and clicks drawn from them."""
