"""Sizes of matrix products in current models, by which the choice of variants is judged.

(N, K) of a linear layer follow from the sizes that the model's published config.json names; M counts tokens: decoding of 1 to 256
sequences, and prefill. The list was written before the first ranking.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """D[M, n] = A[M, k] W[n, k]^T of a model."""

    model: str
    layer: str
    n: int
    k: int
    source: str


LAYERS = (
    Layer("Llama-3.1-8B", "q, k, v", 6144, 4096, "hidden_size 4096, 32 heads of 128, 8 key-value heads"),
    Layer("Llama-3.1-8B", "gate, up", 28672, 4096, "hidden_size 4096, intermediate_size 14336"),
    Layer("Llama-3.1-8B", "down", 4096, 14336, "hidden_size 4096, intermediate_size 14336"),
    Layer("Llama-3.1-70B", "o", 8192, 8192, "hidden_size 8192, 64 heads of 128"),
    Layer("Llama-3.1-70B", "q, k, v", 10240, 8192, "hidden_size 8192, 64 heads of 128, 8 key-value heads"),
    Layer("Qwen3-32B", "down", 5120, 25600, "hidden_size 5120, intermediate_size 25600"),
    Layer("DeepSeek-V3", "q_b", 24576, 1536, "q_lora_rank 1536, 128 heads of 128 + 64"),
    Layer("DeepSeek-V3", "kv_a", 576, 7168, "hidden_size 7168, kv_lora_rank 512, qk_rope_head_dim 64"),
    Layer("DeepSeek-V3", "shared expert's gate, up", 4096, 7168, "hidden_size 7168, moe_intermediate_size 2048"),
    Layer("gpt-oss-120b", "q, k, v", 5120, 2880, "hidden_size 2880, 64 heads of 64, 8 key-value heads"),
)
TOKENS = (1, 16, 64, 256, 2048, 8192)

SHAPES = tuple((tokens, layer.n, layer.k) for layer in LAYERS for tokens in TOKENS)
"""(M, N, K), 60 of them."""
