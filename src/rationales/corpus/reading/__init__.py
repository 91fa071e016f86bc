"""Reading a corpus: the files of an input, their formats, and the records in them."""
