"""HTML of the web page that does not depend on Gradio; everything from outside goes through `escape`."""
