"""The builder with tiles and pipelines, with which kernels are written."""
