"""Layer norm and RMS norm of rows, with residual and dropout."""
