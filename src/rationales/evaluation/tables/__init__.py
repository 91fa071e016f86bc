"""Result tables: rows, estimates with intervals, tests, and their files."""
