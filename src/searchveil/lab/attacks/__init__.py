"""What an attacker can do with a release: one file per attack, each run against real releases of a log."""

from searchveil.lab.attacks.k_anonymity import AttackResult, Trial, attack_k_anonymity

__all__ = ["AttackResult", "Trial", "attack_k_anonymity"]
