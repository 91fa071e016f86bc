"""Everything that imports Gradio: the page, its events, the theme and the server."""
