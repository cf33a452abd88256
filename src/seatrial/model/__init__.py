"""The words of the house: what every room speaks of. Frozen dataclasses and protocols, standard library only."""
