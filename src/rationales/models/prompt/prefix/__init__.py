"""How a language model reads rows behind a prompt's fixed prefix, and the comparison with plain passes."""
