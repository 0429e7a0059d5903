"""Operations on tiles: movement, mathematics, reductions, conversions, masks."""
