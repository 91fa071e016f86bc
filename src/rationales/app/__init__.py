"""The web page of `rationales serve`: explain, compare and edit in a browser; Gradio is the extra `serve`."""
