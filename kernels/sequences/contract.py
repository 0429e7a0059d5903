"""The part of a contract that attention-forward and attention-backward have in common: variable lengths,
sinks and dropout.

In a build with `varlen` all tensors have dimensions (rows, heads, d): the rows of `b` sequences stand one after the other, and sequence i
has those from cu_seqlens[i] to below cu_seqlens[i + 1]. Then sq and sk are the rows of all sequences. In a padded build the rows of a
sequence that count are fewer: the first seqused[i] of them. The others are neither read nor written.
"""

from __future__ import annotations

import asmgen as ag

MOST_ROWS = 1 << 24
_USUAL_P = 0.1


def build_parameters() -> tuple[ag.Parameter, ...]:
    """Whether lengths vary, and whether there are sinks and dropout."""
    return (
        ag.Parameter("varlen", "build", bool, "sequences of any lengths, their rows one after the other as cu_seqlens say: tensors are "
                     "(rows, heads, d), sq and sk count the rows of all, b the sequences", default=False),
        ag.Parameter("padded", "build", bool, "with varlen: of each sequence only the first seqused rows count", default=False),
        ag.Parameter("sink", "build", bool, "each query has one more score, of its head, whose key has no value", default=False),
        ag.Parameter("dropout", "build", bool, "elements of P become 0 with probability p, others P / (1 - p); sums and LSE are of all P",
                     default=False),
        ag.Parameter("rng_state", "build", bool, "with dropout: seed and offset are two uint64 in memory of the device", default=False),
    )


def run_parameters() -> tuple[ag.Parameter, ...]:
    """Sizes of the longest sequences; after those of sq and sk."""
    return tuple(ag.Parameter(f"max_{rows}", "run", int, f"the most {what} of one sequence in a build with varlen", minimum=1,
                              maximum=MOST_ROWS, default_from=rows) for rows, what in (("sq", "queries"), ("sk", "keys")))


def draw_parameters() -> tuple[ag.Parameter, ...]:
    """What builds with dropout ask for."""
    return (
        ag.Parameter("p", "run", float, "probability of dropout", default=_USUAL_P, minimum=0.0, maximum=0.999),
        ag.Parameter("seed", "run", int, "key of Philox", default=0, minimum=0, maximum=(1 << 64) - 1),
        ag.Parameter("offset", "run", int, "what Philox's counter begins at", default=0, minimum=0, maximum=(1 << 64) - 1),
    )


def draw_arguments(p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """The arguments of a kernel that drops."""
    if not p["dropout"]:
        return ()
    state = (ag.ContractArgument("rng_state", "pointer", "uint64 [2]: seed and offset"),) if p["rng_state"] else (
        ag.ContractArgument("seed", "u64", "of dropout"), ag.ContractArgument("offset", "u64", "of dropout"))
    return (ag.ContractArgument("p", "f32", "probability of dropout"), *state)


def given_lengths(p: ag.Values, queries: bool = True, keys: bool = True) -> tuple[ag.ContractArgument, ...]:
    """The arguments of a kernel that say where sequences are; none in a build whose lengths are all alike."""
    if not p["varlen"]:
        return ()
    sides = [(letter, what) for letter, what, asked in (("q", "queries", queries), ("k", "keys", keys)) if asked]
    found = [ag.ContractArgument(f"cu_seqlens_{letter}", "pointer", f"int32 [b + 1]: the first row of each sequence of {what}, and how "
                                 "many rows there are") for letter, what in sides]
    if p["padded"]:
        found += [ag.ContractArgument(f"seqused_{letter}", "pointer", f"int32 [b]: how many of the {what} of each sequence count")
                  for letter, what in sides]
    return (*found, *(ag.ContractArgument(f"max_s{letter}", "u32", f"the most {what} of one sequence") for letter, what in sides))


SINK = ag.ContractArgument("sink", "pointer", "float32 [hq]: one more score of each query of a head, which softmax_scale does not scale; "
                           "-infinity for none")


def rules() -> tuple[ag.Rule, ...]:
    """What the parameters must be."""
    return (
        ag.Rule("p, seed and offset are for builds with dropout", ("dropout", "p", "seed", "offset"),
                lambda p: p["dropout"] or p["p"] in (0.0, _USUAL_P) and p["seed"] == p["offset"] == 0),
        ag.Rule("rng_state is for builds with dropout", ("dropout", "rng_state"), lambda p: p["dropout"] or not p["rng_state"]),
        ag.Rule("padded is for builds with varlen", ("varlen", "padded"), lambda p: p["varlen"] or not p["padded"]),
        ag.Rule("max_sq and max_sk must be sq and sk in a build without varlen", ("varlen", "sq", "sk", "max_sq", "max_sk"),
                lambda p: p["varlen"] or (p["max_sq"], p["max_sk"]) == (p["sq"], p["sk"])),
        *(rule for rows in ("sq", "sk") for rule in _longest_rules(rows)),
    )


def _longest_rules(rows: str) -> tuple[ag.Rule, ag.Rule]:
    longest = f"max_{rows}"
    return (ag.Rule(f"{longest} must be at most {rows}, the rows of all sequences", (rows, longest), lambda p: p[longest] <= p[rows]),
            ag.Rule(f"b * {longest} must be at least {rows} where no rows are padded, as each row is of some sequence",
                    ("varlen", "padded", "b", rows, longest),
                    lambda p: not p["varlen"] or p["padded"] or p["b"] * p[longest] >= p[rows]))
