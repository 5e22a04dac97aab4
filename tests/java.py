"""How tests start Java."""

# It lives for seconds, in which the second compiler and collecting garbage in parallel cost more than they gain:
# without these two, tests on Spark take twice the time.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
