"""How well layers judge: labelled data through the pipeline, and figures of what they found. No files, no Django."""
