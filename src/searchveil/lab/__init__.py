"""Was it worth it? Measures, applications, comparisons, and attacks on what was published."""
