"""A rationale as HTML: self-contained pages, and fragments for notebooks."""
