"""Attacks through tool results: families of payloads as data files, and the texts that are put into answers.

The texts ask for the goal of a test and for nothing else. They only ever appear in mocked or simulated tool results.
"""
