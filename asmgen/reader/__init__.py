"""From text and code objects back to Programs."""
