"""A check of bias: does the ranking of methods depend on the way in which words are removed?"""
