"""Layered memory: who somebody is (the profile) and what happened (events), with a log of every change."""
