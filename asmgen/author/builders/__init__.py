"""The builder that knows tiles and pipelines: what kernels are written with."""
