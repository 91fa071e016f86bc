"""Agreement with people: their marks and a method's scores on the same words, units or pixels, and the overlap."""
