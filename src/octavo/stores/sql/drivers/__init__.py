"""Thin adapters: each runs scripts on one driver and translates its errors once."""
